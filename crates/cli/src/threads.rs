//! The number of threads.

use anyhow::{Result, ensure};

/// An upper bound: more than any machine has cores.
const MOST: usize = 4096;

/// Sets the number of threads of the process. The default is all cores.
pub(crate) fn set(threads: Option<usize>) -> Result<()> {
    if let Some(threads) = threads {
        ensure!(threads > 0, "--threads is 0; at least one is needed");
        ensure!(threads <= MOST, "--threads is {threads}; no more than {MOST} make sense");
        rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    }
    detail!("threads: {}", rayon::current_num_threads());
    Ok(())
}
