//! `nextpair merge`: merges the parts of `nextpair score` into one selection.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use nextpair::Part;

use crate::output::{Output, OutputArgs, rows};
use crate::progress::Bar;
use crate::summary::Summary;
use nextpair::scenario::Watch;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The parts, in any order
    #[arg(required = true, value_name = "PART")]
    parts: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let start = Instant::now();
    let watch = Watch::start();
    let whole = Part::load_all(&args.parts)?;
    let output = Output::create(&args.output.out)?;
    let bar = Bar::new();
    let finished = whole.finish(&bar);
    bar.finish();
    let finished = finished?;
    let stdout_taken = output.is_stdout();
    output.write(&rows(&finished.picks, |i| finished.pool_id(i), |j| finished.pair_id(j)))?;
    let memory = (None, watch.peak());
    Summary::new(finished.strategy, &finished.picks, start.elapsed(), memory, &args.output.out)
        .print(args.output.json, stdout_taken)?;
    Ok(ExitCode::SUCCESS)
}
