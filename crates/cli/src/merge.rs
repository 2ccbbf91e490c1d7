//! `nextpair merge`: one selection from the parts of `nextpair score`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nextpair_engine::{Features, Finish};

use crate::output::{Output, OutputArgs, rows};
use crate::parts::Part;
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
    let (first, others) = args.parts.split_first().context("no parts")?;
    let Part { mut header, mut partial } = Part::read(first)?;
    for path in others {
        let part = Part::read(path)?;
        ensure!(
            part.header.fingerprint == header.fingerprint && part.header.pool == header.pool,
            "{} and {} were made with different settings or files",
            first.display(),
            path.display()
        );
        partial = partial.merge(part.partial).with_context(|| path.display().to_string())?;
        header.learn(part.header);
    }
    let output = Output::create(&args.output.out)?;
    let strategy = header.strategy()?;
    let matrices = match strategy.needs().features {
        true => Some(header.places().open(header.pool)?),
        false => None,
    };
    let bar = Bar::new();
    let rest = Finish {
        pool: header.pool,
        features: matrices.as_ref().map(|(pool, paired)| Features { pool, paired }),
        weight: header.weight(),
        explain: header.explain,
        progress: &bar,
    };
    let picks = strategy.finish(partial, &rest, header.budget);
    bar.finish();
    if let Some((pool, paired)) = &matrices {
        // First: what the answer complains of may be due to it.
        pool.check_unchanged()?;
        paired.check_unchanged()?;
    }
    let picks = picks?;
    let stdout_taken = output.is_stdout();
    output.write(&rows(&picks, |i| header.id(i), |j| header.anchor_id(j)))?;
    Summary::new(strategy, &picks, start.elapsed(), (None, watch.peak()), &args.output.out)
        .print(args.output.json, stdout_taken)?;
    Ok(ExitCode::SUCCESS)
}
