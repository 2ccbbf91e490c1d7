//! `nextpair completions SHELL`: what a shell needs to complete commands and flags.

use std::process::ExitCode;

use anyhow::Result;
use clap_complete::{Shell, generate};

use crate::program::streams::print;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut script = Vec::new();
    generate(args.shell, &mut crate::program::command(), "nextpair", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}
