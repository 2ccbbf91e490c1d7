//! The command line, for the program `nextpair` that the package installs.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use pyo3::prelude::*;

/// Runs a command line, whose first argument is the name of the program, and returns its exit code.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| {
        nextpair::data::stop_on_changed_inputs(nextpair::program::WRONG);
        let code = nextpair::program::run_from(arguments);
        // Nobody does it for a library when the process ends. A reader may be gone.
        let _ = std::io::stdout().flush();
        // An exit code does not tell its number.
        (0..=u8::MAX)
            .find(|&number| ExitCode::from(number) == code)
            .unwrap_or(nextpair::program::WRONG)
    })
}
