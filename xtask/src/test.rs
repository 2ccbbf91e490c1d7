//! All checks that a change must pass.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::servers::{self, Postgres};
use crate::{axe, book, cargo, emulator, gpu, networks, package, schemathesis, soak, succeed};

/// The work of a step.
type Work = fn() -> Result<()>;

/// The steps in order. All use one profile, so that nothing is compiled twice.
const STEPS: [(&str, Work); 12] = [
    ("servers", servers::ensure_installed),
    ("format", || succeed(&mut cargo(&["fmt", "--all", "--check"]))),
    ("clippy", clippy),
    ("tests", tests),
    ("without", without),
    ("networks", || networks::run(250)),
    ("emulated", emulator::test),
    ("python", package::test),
    ("faults", || soak::run_annotate(4, 2).and_then(|()| soak::run_disk(Some(12)))),
    ("api", schemathesis::run),
    ("documentation", documentation),
    ("book", book::run),
];

/// What people run between edits: minutes, where all steps take half an hour.
const QUICK: [(&str, Work); 3] = [STEPS[1], STEPS[2], ("unit tests", unit_tests)];

/// Runs all steps, or one; or `quick`. `gpu` is none of them: it needs a GPU.
pub(crate) fn run(chosen: Option<&str>, oracle: Option<&Path>) -> Result<()> {
    match chosen {
        Some("gpu") => return gpu::test(oracle),
        Some("quick") => return run_steps(QUICK.into_iter()),
        _ => {}
    }
    let wanted = |name: &str| chosen.is_none_or(|chosen| chosen == name);
    let names = STEPS.map(|(name, _)| name);
    let known = names.join(", ");
    ensure!(names.into_iter().any(wanted), "no such step; there are {known}, quick, gpu");
    run_steps(STEPS.into_iter().filter(|(name, _)| wanted(name)))
}

/// Runs steps, and prints what each took: the longest is what to make shorter.
fn run_steps(steps: impl Iterator<Item = (&'static str, Work)>) -> Result<()> {
    let mut times = Vec::new();
    for (name, work) in steps {
        eprintln!("== {name}");
        let began = Instant::now();
        work().with_context(|| format!("the step '{name}' failed"))?;
        times.push((name, began.elapsed().as_secs()));
    }
    for (name, seconds) in times {
        eprintln!("{seconds:>6} s  {name}");
    }
    Ok(())
}

/// Runs the tests inside the crates, which start no program and no server.
fn unit_tests() -> Result<()> {
    succeed(&mut cargo(&["test", "--release", "--workspace", "--locked", "--lib"]))
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
    let mut tests = cargo(&["test", "--release", "--workspace", "--locked", "--no-fail-fast"]);
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
    let programs = programs(&["engine", "kernels", "encode"])?;
    for name in names {
        for (program, folder) in &programs {
            eprintln!("without {name}: {}", program.display());
            let mut tests = Command::new(program);
            tests.arg("--quiet").current_dir(folder).env(nextpair_core::WITHOUT, name);
            succeed(&mut tests)?;
        }
    }
    Ok(())
}

/// The programs that test some packages, by the names of their folders, and these folders. They are those that the
/// step `tests` has built: a command for these packages alone would compile what they share again, with fewer features.
pub(crate) fn programs(packages: &[&str]) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut build = cargo(&["test", "--release", "--workspace", "--locked", "--no-run"]);
    let output = build.arg("--message-format=json").stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{build:?} ended with {}", output.status);
    let mut programs = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let message: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let path = |key: &str| message[key].as_str().map(PathBuf::from);
        let folder = path("manifest_path").and_then(|path| Some(path.parent()?.to_path_buf()));
        let (Some(program), Some(folder)) = (path("executable"), folder) else { continue };
        let wanted = |package: &&str| folder.ends_with(Path::new("crates").join(package));
        let is_example = message["target"]["kind"][0] == "example";
        if !is_example && packages.iter().any(wanted) {
            programs.push((program, folder));
        }
    }
    ensure!(!programs.is_empty(), "no test of {} was built", packages.join(", "));
    Ok(programs)
}

fn documentation() -> Result<()> {
    let mut doc = cargo(&["doc", "--release", "--workspace", "--no-deps", "--quiet"]);
    succeed(doc.env("RUSTDOCFLAGS", "-D warnings"))
}
