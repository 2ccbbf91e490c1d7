//! `nextpair merge`: one selection from the parts of `nextpair score`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use nextpair::Part;

use crate::output::{Output, OutputArgs, rows};
use crate::progress::Bar;
use crate::summary::Summary;
use nextpair_scenario::Watch;

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
    let picks = whole.finish(&bar);
    bar.finish();
    let picks = picks?;
    let stdout_taken = output.is_stdout();
    output.write(&rows(&picks, |i| whole.pool_id(i), |j| whole.pair_id(j)))?;
    Summary::new(
        whole.strategy()?,
        &picks,
        start.elapsed(),
        (None, watch.peak()),
        &args.output.out,
    )
    .print(args.output.json, stdout_taken)?;
    Ok(ExitCode::SUCCESS)
}
