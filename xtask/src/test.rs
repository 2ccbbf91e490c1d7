//! Everything that must hold before a change is taken.

use anyhow::{Context, Result};

use crate::servers::{self, Postgres};
use crate::{cargo, readme, schemathesis, soak, succeed};

/// `cargo xtask test`. One profile throughout, so that nothing is compiled twice.
pub(crate) fn run() -> Result<()> {
    step("servers", servers::ensure_installed)?;
    step("format", || succeed(&mut cargo(&["fmt", "--all", "--check"])))?;
    step("clippy", || {
        let mut clippy = cargo(&["clippy", "--release", "--workspace", "--all-targets"]);
        succeed(clippy.args(["--", "-D", "warnings"]))
    })?;
    step("tests", tests)?;
    step("faults under load", || soak::run_annotate(4, 2))?;
    step("API", schemathesis::run)?;
    step("documentation", || {
        let mut doc = cargo(&["doc", "--release", "--workspace", "--no-deps", "--quiet"]);
        succeed(doc.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    step("README", readme::run)
}

/// All tests, with the servers that some of them need.
fn tests() -> Result<()> {
    let postgres = Postgres::start()?;
    let driver = servers::on_path("chromedriver").context("chromedriver is not on the PATH")?;
    let mut tests = cargo(&["test", "--release", "--workspace", "--locked"]);
    tests.env("NEXTPAIR_TEST_POSTGRES", postgres.url("postgres")).env("CHROMEDRIVER", driver);
    succeed(&mut tests)
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("== {name}");
    work().with_context(|| format!("the step '{name}' failed"))
}
