//! How many threads do the work.

use anyhow::{Result, ensure};

/// Sets the number of threads for everything that follows; all cores without one.
pub(crate) fn set(threads: Option<usize>) -> Result<()> {
    if let Some(threads) = threads {
        ensure!(threads > 0, "--threads is 0; at least one is needed");
        rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    }
    Ok(())
}
