//! Tasks for CI and developers: `cargo xtask test | emulate | platforms | book | bench | fuzz | soak`.

// Printing may panic if the reader is gone: these tasks may end with it.
#![allow(clippy::print_stderr, clippy::print_stdout)]

mod axe;
mod bench;
mod book;
mod crowd;
#[cfg(test)]
mod dependencies;
mod emulator;
mod fuzz;
mod gpu;
mod networks;
mod package;
mod platforms;
mod python;
mod schemathesis;
mod servers;
mod soak;
mod test;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

const USAGE: &str =
    "cargo xtask test [STEP]       format, clippy, all tests, random networks, emulated GPU, Python, faults, API,
                              documentation, book
cargo xtask emulate PROGRAM [ARGUMENT...]
                              run a program that finds a GPU, which is emulated
cargo xtask test gpu [ORACLE] what a machine with a GPU must pass; ORACLE is a folder of reference vectors
cargo xtask book              write the pages of the book that are made of the program
cargo xtask bench select      selection against NumPy and PyTorch
cargo xtask bench core-set    k-center against scikit-activeml and lightly-mundig
cargo xtask bench herding     herding and novelty against lazy greedy in NumPy
cargo xtask bench design      V-optimal design against NumPy and PyTorch
cargo xtask bench embed       features of images and captions against ONNX Runtime
cargo xtask bench train       a training step of Text-IMRAM against PyTorch
cargo xtask bench score       a tile of its similarities against PyTorch
cargo xtask bench gpu         training and scores on a GPU against PyTorch
cargo xtask bench scale       a pool of 10 GB from disk, whole and in shards
cargo xtask bench annotate    the annotation app with 200 annotators and 20,000 tasks
cargo xtask soak [JOB] [KILLS]
                              kill long work at random moments and compare how it ends;
                              annotate: people answer meanwhile, disks fill up, clocks jump;
                              disk: every call to the disk below the app fails once;
                              verdicts: a thousand experiments whose truth is known;
                              networks: 500 random encoders, compared with ONNX Runtime
cargo xtask platforms [PLATFORM] [PACKAGE...]
                              compile for aarch64, windows and macos, and run what an emulator runs
cargo xtask fuzz [SECONDS]    fuzz the readers, a minute in all unless told otherwise";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    std::env::set_current_dir(root()?)?;
    match arguments.split_first() {
        Some((task, [])) if task == "book" => book::write(),
        Some((task, rest)) if task == "bench" => bench::run(rest),
        Some((task, rest)) if task == "emulate" => emulator::run(rest),
        Some((task, rest)) if task == "fuzz" => fuzz::run(rest),
        Some((task, rest)) if task == "platforms" => platforms::run(rest),
        Some((task, rest)) if task == "soak" => soak::run(rest),
        Some((task, rest)) if task == "test" => test::run(rest),
        _ => bail!("unknown task; there are\n{USAGE}"),
    }
}

/// Returns the folder of the workspace.
fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("xtask lies in the workspace")?.to_path_buf())
}

/// Runs a program and returns an error unless it succeeds.
fn succeed(command: &mut Command) -> Result<()> {
    let line = format!("{command:?}");
    let status = command.status().with_context(|| line.clone())?;
    ensure!(status.success(), "{line} ended with {status}");
    Ok(())
}

/// Returns a command for the cargo that runs us.
fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = without_own_package(Command::new(program));
    command.args(arguments);
    command
}

/// Returns the command without variables about our own package, which would make build scripts run
/// again.
fn without_own_package(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&*name);
        }
    }
    command
}
