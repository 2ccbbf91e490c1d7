//! Standard output and standard error whose readers may leave early: `nextpair run ... 2>&1 | head
//! -1` must finish its work. Names and captions may contain escape sequences, so all text is
//! made [`printable`] here.
//!
//! The print macros of the standard library panic there; clippy refuses them in this workspace
//! (`print_stdout`, `print_stderr`).

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::core::printable;
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
        if crate::program::streams::is_heard(crate::program::streams::Volume::$volume) {
            crate::program::streams::print_line(&format!($($what)*));
        }
    }};
}

/// Writes a line to standard output, as [`print`](crate::program::streams::print) does.
macro_rules! tell {
    ($($what:tt)*) => { crate::program::streams::print(&format!("{}\n", format_args!($($what)*))) };
}

/// Writes a line to standard error, with its control characters escaped. A reader that is gone is no reason to stop.
pub(crate) fn print_line(line: &str) {
    let line = format!("{}\n", printable(line));
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Writes text to standard output, with its control characters escaped. A reader that leaves early, such as `head`, is
/// not an error: the command finishes and exits as usual. A full disk is an error.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(printable(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("standard output"),
    }
}
