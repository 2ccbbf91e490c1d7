//! The `nextpair` binary. All code is in the module [`program`](nextpair::program) of the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    nextpair::data::stop_on_changed_inputs(nextpair::program::WRONG);
    nextpair::program::run()
}
