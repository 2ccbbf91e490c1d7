//! All checks that a change must pass.

use anyhow::{Context, Result, ensure};

use crate::servers::{self, Postgres};
use crate::{axe, book, cargo, emulator, gpu, package, schemathesis, soak, succeed};

/// The work of a step.
type Work = fn() -> Result<()>;

/// The steps in order. All use one profile, so that nothing is compiled twice.
const STEPS: [(&str, Work); 11] = [
    ("servers", servers::ensure_installed),
    ("format", || succeed(&mut cargo(&["fmt", "--all", "--check"]))),
    ("clippy", clippy),
    ("tests", tests),
    ("without", without),
    ("emulated", emulator::test),
    ("python", package::test),
    ("faults", || soak::run_annotate(4, 2).and_then(|()| soak::run_disk(Some(12)))),
    ("api", schemathesis::run),
    ("documentation", documentation),
    ("book", book::run),
];

/// Runs `cargo xtask test [STEP]`: all steps, or one. `gpu` is none of them: it needs a GPU.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    if let Some(("gpu", rest)) = arguments.split_first().map(|(name, rest)| (name.as_str(), rest)) {
        return gpu::test(rest);
    }
    ensure!(arguments.len() <= 1, "cargo xtask test takes a step at most");
    let chosen = arguments.first();
    let wanted = |name: &str| chosen.is_none_or(|chosen| chosen == name);
    let names = STEPS.map(|(name, _)| name);
    ensure!(names.into_iter().any(wanted), "no such step; there are {}, gpu", names.join(", "));
    for (name, work) in STEPS.into_iter().filter(|(name, _)| wanted(name)) {
        eprintln!("== {name}");
        work().with_context(|| format!("the step '{name}' failed"))?;
    }
    Ok(())
}

fn clippy() -> Result<()> {
    let mut clippy = cargo(&["clippy", "--release", "--workspace", "--all-targets"]);
    succeed(clippy.args(["--", "-D", "warnings"]))
}

/// Runs all tests, with the servers that some of them need.
fn tests() -> Result<()> {
    let postgres = Postgres::start()?;
    let driver = servers::on_path("chromedriver").context("chromedriver is not on the PATH")?;
    axe::ensure_fetched()?;
    let mut tests = cargo(&["test", "--release", "--workspace", "--locked"]);
    tests.env("NEXTPAIR_TEST_POSTGRES", postgres.url("postgres")).env("CHROMEDRIVER", driver);
    succeed(&mut tests)
}

/// Tests what computes with vectors once more for every set of instructions, without it.
fn without() -> Result<()> {
    let names: &[&str] = match std::env::consts::ARCH {
        "x86_64" => &["vnni", "avx512", "avx2"],
        "aarch64" => &["i8mm", "dotprod"],
        _ => &[],
    };
    for name in names {
        eprintln!("without {name}");
        let mut tests = cargo(&["test", "--release", "--locked", "--quiet"]);
        tests.args(["-p", "nextpair-engine", "-p", "nextpair-kernels"]);
        succeed(tests.env(nextpair_core::WITHOUT, name))?;
    }
    Ok(())
}

fn documentation() -> Result<()> {
    let mut doc = cargo(&["doc", "--release", "--workspace", "--no-deps", "--quiet"]);
    succeed(doc.env("RUSTDOCFLAGS", "-D warnings"))
}
