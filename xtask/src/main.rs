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

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Parser;

/// Tasks for CI and developers
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
enum Task {
    /// Run all checks: format, clippy, tests, random networks, emulated GPU, Python, faults, API,
    /// documentation, book
    Test {
        /// One of them alone; 'quick' is what to run between edits, 'gpu' what a machine with a GPU must pass
        step: Option<String>,
        /// With 'gpu': a folder of reference vectors
        oracle: Option<PathBuf>,
    },
    /// Run a program that finds a GPU, which is emulated
    Emulate {
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<OsString>,
    },
    /// Write the pages of the book that are made of the program
    Book,
    /// Measure speed beside rivals, after their answers were compared
    #[command(subcommand)]
    Bench(bench::Task),
    /// Kill long work at random moments and compare how it ends
    Soak {
        /// 'annotate': people answer meanwhile, disks fill up, clocks jump; 'disk': every call to the disk below
        /// the app fails once; 'networks': random encoders beside ONNX Runtime; all jobs unless one is named
        job: Option<String>,
        /// How often to kill it, or how many networks
        kills: Option<usize>,
    },
    /// Compile for aarch64, windows and macos, and run what an emulator runs
    Platforms {
        /// One of them alone
        platform: Option<String>,
        /// The tests of these packages alone
        packages: Vec<String>,
    },
    /// Fuzz the readers
    Fuzz {
        /// The time that all of them share
        #[arg(default_value_t = 60)]
        seconds: u64,
    },
}

fn main() -> ExitCode {
    match run(Task::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    std::env::set_current_dir(root()?)?;
    match task {
        Task::Test { step, oracle } => test::run(step.as_deref(), oracle.as_deref()),
        Task::Emulate { program } => emulator::run(&program),
        Task::Book => book::write(),
        Task::Bench(bench) => bench::run(&bench),
        Task::Soak { job, kills } => soak::run(job.as_deref(), kills),
        Task::Platforms { platform, packages } => platforms::run(platform.as_deref(), &packages),
        Task::Fuzz { seconds } => fuzz::run(seconds),
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
