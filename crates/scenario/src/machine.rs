//! The machine an experiment runs on.

use std::fs;

use crate::Machine;

impl Machine {
    /// Returns this machine, with the threads of this process.
    #[allow(clippy::disallowed_methods, reason = "a file of the system that ends")]
    pub(crate) fn here() -> Self {
        let cpu = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        Machine {
            cpu: cpu.unwrap_or_else(|| "unknown".to_owned()),
            threads: rayon::current_num_threads(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}
