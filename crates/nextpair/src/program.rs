//! The command line of nextpair, one file per subcommand.

// First, so that all other modules see its macros.
#[macro_use]
mod streams;

mod add;
mod annotate;
mod bench;
mod completions;
mod convert;
mod device;
mod embed;
mod evaluate;
mod example;
mod flag_file;
mod help;
mod import;
mod ingest;
mod inputs;
mod inspect;
mod interrupt;
mod listen;
mod logs;
mod man;
mod merge;
mod next;
mod numbers;
mod output;
mod parameters;
mod plan;
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
mod signals;
mod summary;
mod threads;
mod train;
mod trained;
mod typed;
mod unused;
mod verify;
mod vocab;
mod warnings;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;

use crate::core::Watch;
use crate::models::{Device, Origin};
use anyhow::{Result, bail};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use flag_file::Expanded;
use numbers::megabytes;
use streams::{Volume, is_heard};

#[derive(Parser)]
#[command(name = "nextpair", version, max_term_width = 100)]
// Not the description of the package, which tells its place in the workspace.
#[command(about = "Which unpaired item should we pay to pair next?")]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print errors, and warnings about money and data, and nothing else beside the results
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Print more: threads, devices, times and memory
    #[arg(short, long, global = true)]
    verbose: bool,
    /// Threads; all cores by default, one for `watch`. The results do not depend on them
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true)]
    threads: Option<usize>,
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
    /// Put what people said about picks back into the dataset
    Add(add::Args),
    /// Make a page, tables and charts of what experiments found
    Report(report::Args),
    /// Show the report of an experiment in the browser while it runs
    Watch(watch::Args),
    /// Choose the pool items to pair next
    Select(select::Args),
    /// Score one shard of the pool, for `merge`
    Score(score::Args),
    /// Join the shards of `score` into one selection
    Merge(merge::Args),
    /// Check this program against reference files
    Verify(verify::Args),
    /// Measure how fast a device trains and scores, after its answers were compared with the CPU's
    Bench(bench::Args),
    /// Print what a shell needs to complete commands and flags
    Completions(completions::Args),
    /// Write manual pages
    Man(man::Args),
}

/// The exit code for bad input.
pub const WRONG: u8 = 2;

/// Returns every subcommand with its flags, so that other programs can list them.
pub fn command() -> clap::Command {
    help::grouped(Cli::command())
}

/// Runs the command line of this process, as [`run_from`] does.
pub fn run() -> ExitCode {
    run_from(std::env::args_os())
}

/// Runs a command line, whose first argument is the name of the program. Bad input prints an error and
/// returns [`WRONG`]. A command that was stopped by Ctrl-C exits with 130.
pub fn run_from(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    typed::keep(&arguments);
    let is_plain = !arguments.iter().any(|word| word.to_string_lossy().contains(char::is_control));
    let result = match parse(arguments) {
        Ok(Ok(cli)) => run_parsed(cli),
        // Help and version are such answers too.
        Ok(Err(answer)) => {
            match is_plain {
                // Colours where standard error is a terminal. It may be closed.
                true => _ = answer.print(),
                // The answer repeats words of the command line.
                false => alert!("{answer}"),
            }
            return if answer.use_stderr() { ExitCode::from(WRONG) } else { ExitCode::SUCCESS };
        }
        Err(error) => Err(error),
    };
    result.unwrap_or_else(|error| {
        if interrupt::is_asked() {
            interrupt::end()
        }
        alert!("error: {error:#}");
        ExitCode::from(WRONG)
    })
}

/// Parses a command line, and the file that has more flags. What clap has to say is the inner error.
fn parse(arguments: Vec<OsString>) -> Result<Result<Cli, clap::Error>> {
    let expanded = Expanded::of(arguments, &command())?;
    let mut command = command();
    let read = command.try_get_matches_from_mut(&expanded.words).and_then(|matches| {
        typed::keep_flags(&command, &matches);
        Cli::from_arg_matches(&matches)
    });
    match read.map_err(|error| error.format(&mut command)) {
        Ok(cli) => Ok(Ok(cli)),
        Err(error) => match expanded.blame(&error) {
            Some(error) => Err(error.into()),
            None => Ok(Err(error)),
        },
    }
}

fn run_parsed(cli: Cli) -> Result<ExitCode> {
    streams::set_volume(match (cli.quiet, cli.verbose) {
        (true, _) => Volume::Quiet,
        (_, true) => Volume::Verbose,
        _ => Volume::Usual,
    });
    if let Some(unknown) = crate::core::unknown_switch() {
        bail!(unknown);
    }
    // A report that is made again and again takes as little as possible from the experiment.
    let threads = cli.threads.or(matches!(cli.command, Command::Watch(_)).then_some(1));
    threads::set(threads)?;
    detail!("nextpair {}, {}", env!("CARGO_PKG_VERSION"), Origin::of(Device::Cpu).unit);
    let (began, memory) = (Instant::now(), is_heard(Volume::Verbose).then(Watch::start));
    let done = do_command(cli.command);
    if let Some(peak) = memory.and_then(|memory| memory.peak()) {
        let seconds = began.elapsed().as_secs_f64();
        detail!("{seconds:.2} s in all, peak memory {}", megabytes(peak));
    }
    done
}

fn do_command(command: Command) -> Result<ExitCode> {
    match command {
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
        Command::Add(args) => add::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Select(args) => select::run(&args),
        Command::Score(args) => score::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}
