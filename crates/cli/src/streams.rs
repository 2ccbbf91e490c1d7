//! Standard output and standard error whose readers may leave early: `nextpair run ... 2>&1 | head
//! -1` must finish its work.
//!
//! The print macros of the standard library panic there; clippy refuses them in this workspace
//! (`print_stdout`, `print_stderr`).

use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};

/// Writes a line to standard error. If its reader is gone, the work goes on.
macro_rules! say {
    ($($what:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), $($what)*);
    }};
}

/// Writes a line to standard output, as [`print`](crate::streams::print) does.
macro_rules! tell {
    ($($what:tt)*) => { crate::streams::print(&format!("{}\n", format_args!($($what)*))) };
}

/// Writes text to standard output. A reader that leaves early, such as `head`, is not an error: the
/// command finishes and exits as usual. A full disk is an error.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    forgiving(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Returns the result of a write to standard output, ignoring a reader that is gone.
pub(crate) fn forgiving(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("standard output"),
    }
}
