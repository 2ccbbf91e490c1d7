//! The command line of nextpair, one file per subcommand.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

// First, so that all other modules see its macros.
#[macro_use]
mod streams;

mod annotate;
mod convert;
mod device;
mod embed;
mod evaluate;
mod example;
mod import;
mod ingest;
mod inputs;
mod inspect;
mod merge;
mod numbers;
mod output;
mod progress;
mod quickstart;
mod rehearse;
mod report;
mod run;
mod score;
mod search;
mod seeds;
mod select;
mod selection;
mod settings;
mod summary;
mod threads;
mod train;
mod trained;
mod verify;
mod vocab;
mod warnings;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

#[derive(Parser)]
#[command(name = "nextpair", version, max_term_width = 100)]
// Not the description of the package, which tells its place in the workspace.
#[command(about = "Which unpaired item should we pay to pair next?")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Try the whole of it on generated scenes: train, select, pair, again, and report
    Quickstart(quickstart::Args),
    /// Write made-up embeddings, to try `select` on
    Example(example::Args),
    /// Make a dataset of what you have
    Import(import::Args),
    /// Make features with ONNX encoders
    Embed(embed::Args),
    /// Show what is in a dataset
    Inspect(inspect::Args),
    /// Write the vocabulary of a dataset
    Vocab(vocab::Args),
    /// Make a model of a checkpoint of the published VSE++, SCAN or IMRAM code
    Convert(convert::Args),
    /// Find images for a text, or captions for an image, with a trained model
    #[command(override_usage = search::USAGE)]
    Search(search::Args),
    /// Train a retrieval model
    #[command(allow_negative_numbers = true)]
    Train(Box<train::Args>),
    /// Tell how well a trained model finds images and captions
    #[command(allow_negative_numbers = true)]
    Eval(evaluate::Args),
    /// Find out on what is paired already which strategy pays, before money is spent
    #[command(allow_negative_numbers = true)]
    Rehearse(Box<rehearse::Args>),
    /// Run an experiment: train, select, pair, and again, for several strategies and seeds
    #[command(allow_negative_numbers = true)]
    Run(Box<run::Args>),
    /// Serve the queue of an experiment, or picks, to people who annotate them in their browsers
    Annotate(annotate::Args),
    /// Take what people said about the queue of an experiment
    Ingest(ingest::Args),
    /// Make a page, tables and charts of what experiments found
    Report(report::Args),
    /// Choose the pool items to pair next
    Select(select::Args),
    /// Score one shard of the pool, for `merge`
    Score(score::Args),
    /// Join the shards of `score` into one selection
    Merge(merge::Args),
    /// Check this program against reference files
    Verify(verify::Args),
}

/// The exit code for bad input.
pub const WRONG: u8 = 2;

/// Returns every subcommand with its flags, so that other programs can list them.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command line of this process, as [`run_from`] does.
pub fn run() -> ExitCode {
    run_from(std::env::args_os())
}

/// Runs a command line, whose first argument is the name of the program. Bad input prints an error and
/// returns [`WRONG`].
pub fn run_from(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        // Help and version are such answers too.
        Err(answer) => {
            // Nobody has to listen.
            let _ = answer.print();
            return if answer.use_stderr() { ExitCode::from(WRONG) } else { ExitCode::SUCCESS };
        }
    };
    let result = match cli.command {
        Command::Quickstart(args) => quickstart::run(&args),
        Command::Example(args) => example::run(&args),
        Command::Import(args) => import::run(args),
        Command::Embed(args) => embed::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Vocab(args) => vocab::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Search(args) => search::run(&args),
        Command::Train(args) => train::run(&args),
        Command::Eval(args) => evaluate::run(&args),
        Command::Rehearse(args) => rehearse::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Annotate(args) => annotate::run(&args),
        Command::Ingest(args) => ingest::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Select(args) => select::run(&args),
        Command::Score(args) => score::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Verify(args) => verify::run(&args),
    };
    result.unwrap_or_else(|error| {
        say!("error: {error:#}");
        ExitCode::from(WRONG)
    })
}
