//! Everything that must hold before a change is taken.

use anyhow::{Context, Result};

use crate::{cargo, readme, succeed};

/// `cargo xtask test`. One profile throughout, so that nothing is compiled twice.
pub(crate) fn run() -> Result<()> {
    step("format", || succeed(&mut cargo(&["fmt", "--all", "--check"])))?;
    step("clippy", || {
        let mut clippy = cargo(&["clippy", "--release", "--workspace", "--all-targets"]);
        succeed(clippy.args(["--", "-D", "warnings"]))
    })?;
    step("tests", || succeed(&mut cargo(&["test", "--release", "--workspace", "--locked"])))?;
    step("documentation", || {
        let mut doc = cargo(&["doc", "--release", "--workspace", "--no-deps", "--quiet"]);
        succeed(doc.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    step("README", readme::run)
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("== {name}");
    work().with_context(|| format!("the step '{name}' failed"))
}
