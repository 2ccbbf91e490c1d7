//! The `nextpair` binary: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    nextpair::run()
}
