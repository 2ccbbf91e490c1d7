//! The threads that compute.

use std::error::Error;
use std::num::NonZero;
use std::thread::available_parallelism;

use anyhow::{Result, bail, ensure};

/// Starts the threads of the process: so many, or one per core.
pub(crate) fn set(threads: Option<usize>) -> Result<()> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    // Many more than there are cores only look for work that another one has: 1,024 on two cores take seconds.
    let most = 256.max(2 * cores);
    if let Some(threads) = threads {
        ensure!(threads > 0, "--threads is 0; at least one is needed");
        ensure!(
            threads <= most,
            "--threads is {threads}; this machine has {cores} cores, and at most {most} threads are accepted"
        );
    }
    let wanted = threads.unwrap_or(0);
    if let Err(error) = rayon::ThreadPoolBuilder::new().num_threads(wanted).build_global() {
        match error.source() {
            Some(refused) => bail!(
                "no threads could be started: {refused}; a limit on memory, address space or processes (`ulimit -a`) \
                 may be too low, or --threads too high"
            ),
            // A host such as Python has started them before.
            None if threads.is_some() => bail!("--threads: {error}"),
            None => {}
        }
    }
    detail!("threads: {}", rayon::current_num_threads());
    Ok(())
}
