//! `nextpair select`: picks the pool items to pair next.

mod gallery;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use nextpair::core::Watch;
use nextpair::data::queue::tasks;
use nextpair::engine::QUERIES_CAVEAT;

use crate::flag_file::FlagFileArgs;
use crate::inputs::SelectionArgs;
use crate::interrupt;
use crate::next;
use crate::output::{Output, OutputArgs};
use crate::plan::Plan;
use crate::progress::Bar;
use crate::selection::note_hard_negatives;
use crate::summary::Summary;
use crate::warnings::{GuardArgs, Warning};
use gallery::GalleryArgs;

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
    #[command(flatten)]
    _flags: FlagFileArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let start = Instant::now();
    let watch = Watch::start();
    interrupt::on_stop(interrupt::nothing_kept);
    let (selection, side) = (args.selection.open()?, args.selection.pool_side()?);
    let output = Output::create(&args.output.out)?;
    let names = selection.names();
    output.check_ids(names.ids())?;
    let page = args.gallery.open(args.selection.dataset())?;
    let predicted = selection.announce();
    let bar = Bar::new();
    let picks = selection.select(args.guards.look(), &bar);
    bar.finish();
    let (picks, findings) = picks?;
    let warnings = Warning::of(&findings, |i| names.id(i), |j| names.anchor(j).name);
    let warnings = match args.selection.has_model() {
        true => warnings.into_iter().map(Warning::with_model).collect(),
        false => warnings,
    };
    args.guards.say(&warnings)?;
    let (stdout_taken, to_annotate) = (output.is_stdout(), output.to_annotate());
    output.write(&tasks(&picks, |i| names.id(i), |j| names.anchor(j)))?;
    if let Some(page) = page {
        page.write((selection.strategy(), side), &*names, &picks, &warnings)?;
    }
    if args.selection.queries.is_some() {
        say!("queries     {}", QUERIES_CAVEAT);
    }
    note_hard_negatives([selection.strategy()]);
    let memory = (predicted, watch.peak());
    Summary::new(selection.strategy(), &picks, start.elapsed(), memory, &args.output.out)
        .warned(warnings)
        .print(args.output.json, stdout_taken)?;
    let model = args.selection.model();
    if let Some(model) = model {
        Plan::bought(model, picks.effect.map(|effect| effect.to_string()))?;
    }
    if let Some(file) = to_annotate.filter(|_| !args.output.json) {
        let dataset = args.selection.dataset().or(args.gallery.dataset());
        let has_ids = names.ids().is_some();
        next::annotate(&file, dataset, (side, has_ids), model).say();
    }
    Ok(ExitCode::SUCCESS)
}
