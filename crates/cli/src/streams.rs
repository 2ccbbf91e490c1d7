//! Standard output and standard error whose readers may leave early: `nextpair run ... 2>&1 | head
//! -1` must finish its work.
//!
//! The print macros of the standard library panic there; clippy refuses them in this workspace
//! (`print_stdout`, `print_stderr`).

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context, Result};

/// How much goes to standard error: one setting of the process, from `-q` and `-v`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Volume {
    /// Errors, and warnings about money and data.
    Quiet,
    /// Progress and summaries too.
    Usual,
    /// Threads, devices, times and memory too.
    Verbose,
}

static VOLUME: AtomicU8 = AtomicU8::new(Volume::Usual as u8);

/// Sets how much goes to standard error from now on.
pub(crate) fn set_volume(volume: Volume) {
    VOLUME.store(volume as u8, Ordering::Relaxed);
}

/// Returns whether lines of this volume are written.
pub(crate) fn is_heard(volume: Volume) -> bool {
    volume as u8 <= VOLUME.load(Ordering::Relaxed)
}

/// Writes a line to standard error, unless `-q` was given. If its reader is gone, the work goes on.
macro_rules! say {
    ($($what:tt)*) => { heard!(Usual, $($what)*) };
}

/// Writes a line to standard error whatever the volume: errors, and warnings about money and data.
macro_rules! alert {
    ($($what:tt)*) => { heard!(Quiet, $($what)*) };
}

/// Writes a line to standard error if `-v` was given.
macro_rules! detail {
    ($($what:tt)*) => { heard!(Verbose, $($what)*) };
}

/// Writes a line to standard error if the volume is high enough for it.
macro_rules! heard {
    ($volume:ident, $($what:tt)*) => {{
        use std::io::Write;
        if crate::streams::is_heard(crate::streams::Volume::$volume) {
            let _ = writeln!(std::io::stderr(), $($what)*);
        }
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
