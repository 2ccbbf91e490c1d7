//! `nextpair select`: picks the pool items to pair next.

mod gallery;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;

use crate::inputs::SelectionArgs;
use crate::output::{Output, OutputArgs};
use crate::progress::Bar;
use crate::summary::Summary;
use crate::warnings::{GuardArgs, Warning};
use gallery::GalleryArgs;
use nextpair::PickRow;
use nextpair::scenario::Watch;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    gallery: GalleryArgs,
    #[command(flatten)]
    guards: GuardArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let start = Instant::now();
    let watch = Watch::start();
    args.selection.set_threads()?;
    let selection = args.selection.open()?;
    let output = Output::create(&args.output.out)?;
    output.check_ids(selection.ids())?;
    let page = args.gallery.open()?;
    let predicted = selection.announce();
    let bar = Bar::new();
    let picks = selection.select(args.guards.look(), &bar);
    bar.finish();
    let (picks, findings) = picks?;
    let warnings = Warning::of(&findings, |i| selection.id(i), |j| selection.anchor_id(j));
    args.guards.say(&warnings)?;
    let stdout_taken = output.is_stdout();
    output.write(&PickRow::all(&picks, |i| selection.id(i), |j| selection.anchor_id(j)))?;
    if let Some(page) = page {
        page.write(&selection, args.selection.pool_side, &picks)?;
    }
    if args.selection.queries.is_some() {
        say!("queries     {}", nextpair::scenario::AT_WHOSE_EXPENSE);
    }
    let memory = (predicted, watch.peak());
    Summary::new(selection.strategy(), &picks, start.elapsed(), memory, &args.output.out)
        .warned(warnings)
        .print(args.output.json, stdout_taken)?;
    Ok(ExitCode::SUCCESS)
}
