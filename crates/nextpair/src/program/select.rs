//! `nextpair select`: picks the pool items to pair next.

mod gallery;
mod sheets;

use std::process::ExitCode;
use std::time::Instant;

use crate::core::Watch;
use crate::data::queue::tasks;
use crate::engine::QUERIES_CAVEAT;
use anyhow::Result;

use crate::program::flag_file::FlagFileArgs;
use crate::program::inputs::SelectionArgs;
use crate::program::interrupt;
use crate::program::next;
use crate::program::output::{Output, OutputArgs};
use crate::program::plan::Plan;
use crate::program::progress::Bar;
use crate::program::selection::note_hard_negatives;
use crate::program::summary::Summary;
use crate::program::warnings::{GuardArgs, Warning};
use gallery::GalleryArgs;
use sheets::SheetArgs;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    gallery: GalleryArgs,
    #[command(flatten)]
    sheets: SheetArgs,
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
    let dataset = args.selection.dataset().or(args.gallery.dataset());
    let sheets = args.sheets.open(dataset)?;
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
    let asked = tasks(&picks, |i| names.id(i), |j| names.anchor(j));
    output.write(&asked)?;
    let answers = sheets.map(|sheets| sheets.write(&asked, side)).transpose()?;
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
    match (answers.zip(dataset), to_annotate) {
        _ if args.output.json => {}
        (Some((answers, dataset)), _) => next::add(dataset, &answers, side, model).say(),
        (None, Some(picks)) => {
            let has_ids = names.ids().is_some();
            next::annotate(&picks, dataset, (side, has_ids), model).say();
        }
        (None, None) => {}
    }
    Ok(ExitCode::SUCCESS)
}
