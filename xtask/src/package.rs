//! Builds the Python package and tests it as people get it: as an installed wheel.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::{python, succeed, without_own_package};

const REQUIREMENTS: &str = "python/requirements.txt";
const ENVIRONMENT: &str = "target/python-venv";
const WHEELS: &str = "target/wheels";
const ALONE: &str = "target/alone-venv";
const FOLDER: &str = "python";
const EXAMPLE: &str = "python/examples/choose_what_to_caption.py";

/// Installs the wheel into an environment of its own, and runs pytest and mypy there.
pub(crate) fn test() -> Result<()> {
    let python = python::environment(Path::new(ENVIRONMENT), REQUIREMENTS)?;
    // Not canonical: a link to the interpreter is what makes it this environment's.
    let python = std::env::current_dir()?.join(python);
    let wheel = build(&python)?;
    let module = |name: &str| {
        let mut command = Command::new(&python);
        command.args(["-m", name]);
        command
    };
    let mut install = module("pip");
    install.args(["install", "--quiet", "--no-deps", "--force-reinstall"]);
    succeed(install.arg(&wheel))?;
    succeed(module("pytest").current_dir(FOLDER))?;
    succeed(module("mypy").current_dir(FOLDER))?;
    try_alone(&wheel)
}

/// Installs the wheel where there is nothing else, neither a compiler nor what the tests need, and runs
/// the notebook's script and the program there.
fn try_alone(wheel: &Path) -> Result<()> {
    let folder = std::env::current_dir()?.join(ALONE);
    succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let (bin, work) = (folder.join("bin"), folder.join("work"));
    std::fs::create_dir_all(&work)?;
    let mut install = Command::new(bin.join("python"));
    succeed(install.args(["-m", "pip", "install", "--quiet"]).arg(wheel))?;
    let example = std::env::current_dir()?.join(EXAMPLE);
    let alone = |name: &str| {
        let mut command = Command::new(bin.join(name));
        command.env("PATH", &bin).current_dir(&work);
        command
    };
    succeed(alone("python").arg(example).arg(&work).stdout(Stdio::null()))?;
    succeed(alone("nextpair").args(["example", "world"]).stdout(Stdio::null()))
}

/// Builds the wheel with the profile and in the target folder of the workspace.
fn build(python: &Path) -> Result<PathBuf> {
    let wheels = Path::new(WHEELS);
    if wheels.exists() {
        std::fs::remove_dir_all(wheels)?;
    }
    let mut maturin = without_own_package(Command::new(python));
    maturin.args(["-m", "maturin", "build", "--release", "--locked", "--quiet"]);
    maturin.args(["--manifest-path", "python/Cargo.toml", "--out", WHEELS, "--interpreter"]);
    succeed(maturin.arg(python))?;
    let mut files = std::fs::read_dir(wheels)?.collect::<Result<Vec<_>, _>>()?.into_iter();
    let wheel = files.next().with_context(|| format!("maturin left no wheel in {WHEELS}"))?;
    eprintln!("{}", wheel.path().display());
    Ok(wheel.path())
}
