//! Benchmarks against rivals on the same data.

use anyhow::{Result, bail};

/// `cargo xtask bench NAME ...`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    bail!("no benchmark {arguments:?}")
}
