//! The machine an experiment runs on.

use nextpair_data::system;

use crate::Machine;

impl Machine {
    /// Returns this machine, with the threads of this process.
    pub(crate) fn here() -> Self {
        Machine {
            cpu: system::processor().unwrap_or_else(|| "unknown".to_owned()),
            threads: rayon::current_num_threads(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}
