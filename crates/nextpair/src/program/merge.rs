//! `nextpair merge`: merges the parts of `nextpair score` into one selection.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use crate::Part;
use crate::core::Watch;
use crate::data::queue::{Anchor, tasks};
use anyhow::Result;

use crate::program::next;
use crate::program::output::{Output, OutputArgs};
use crate::program::progress::Bar;
use crate::program::summary::Summary;
use crate::program::warnings::{GuardArgs, Warning};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The parts, in any order
    #[arg(required = true, value_name = "PART")]
    parts: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    guards: GuardArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let start = Instant::now();
    let watch = Watch::start();
    let whole = Part::load_all(&args.parts)?;
    let output = Output::create(&args.output.out)?;
    let bar = Bar::new();
    let finished = whole.finish(&bar).and_then(|finished| {
        let findings = if args.guards.look() { finished.inspect(&bar)? } else { Vec::new() };
        Ok((finished, findings))
    });
    bar.finish();
    let (finished, findings) = finished?;
    let warnings = Warning::of(&findings, |i| finished.pool_id(i), |j| finished.pair_id(j));
    args.guards.say(&warnings)?;
    let (stdout_taken, to_annotate) = (output.is_stdout(), output.to_annotate());
    let anchor = |pair| Anchor { name: finished.pair_id(pair), pair: None };
    output.write(&tasks(&finished.picks, |i| finished.pool_id(i), anchor))?;
    let memory = (None, watch.peak());
    Summary::new(finished.strategy, &finished.picks, start.elapsed(), memory, &args.output.out)
        .warned(warnings)
        .print(args.output.json, stdout_taken)?;
    if let Some(picks) = to_annotate.filter(|_| !args.output.json) {
        next::annotate(&picks, None, (finished.pool_side(), finished.has_ids()), None).say();
    }
    Ok(ExitCode::SUCCESS)
}
