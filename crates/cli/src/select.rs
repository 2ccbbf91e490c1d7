//! `nextpair select`: picks the pool items to pair next.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;

use crate::inputs::SelectionArgs;
use crate::output::{Output, OutputArgs, rows};
use crate::progress::Bar;
use crate::summary::Summary;
use nextpair::scenario::Watch;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let start = Instant::now();
    let watch = Watch::start();
    args.selection.set_threads()?;
    let selection = args.selection.open()?;
    let output = Output::create(&args.output.out)?;
    output.check_ids(selection.ids())?;
    let predicted = selection.announce();
    let bar = Bar::new();
    let picks = selection.select(&bar);
    bar.finish();
    let picks = picks?;
    let stdout_taken = output.is_stdout();
    output.write(&rows(&picks, |i| selection.id(i), |j| selection.anchor_id(j)))?;
    if args.selection.queries.is_some() {
        say!("queries     {}", nextpair::scenario::AT_WHOSE_EXPENSE);
    }
    let memory = (predicted, watch.peak());
    Summary::new(selection.strategy(), &picks, start.elapsed(), memory, &args.output.out)
        .print(args.output.json, stdout_taken)?;
    Ok(ExitCode::SUCCESS)
}
