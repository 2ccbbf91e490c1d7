//! The `nextpair` binary. All code is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    nextpair::data::stop_on_changed_inputs(nextpair_cli::WRONG);
    nextpair_cli::run()
}
