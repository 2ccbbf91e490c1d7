//! Standard output and standard error, whose readers may leave while work goes on:
//! `nextpair run ... 2>&1 | head -1` is a run that somebody has seen enough of, not one to end.
//!
//! The print macros of the standard library panic there; clippy refuses them in this workspace
//! (`print_stdout`, `print_stderr`).

use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};

/// Writes a line about the work to standard error. Where nobody listens any more, work goes on.
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

/// Writes text to standard output. A reader that has seen enough, such as `head`, is no error: what
/// is left to do is done, and its outcome decides how the process ends. A full disk is one.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    forgiving(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What came of writing to standard output, without the error of a reader that is gone.
pub(crate) fn forgiving(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("standard output"),
    }
}
