//! `nextpair ingest RUN ANSWERS...`: takes what people said about the queue of a run.

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use nextpair_data::dataset::Dataset;
use nextpair_data::queue::{self, Answers, Taken};
use nextpair_scenario::{Annotator, Study};

use crate::numbers::grouped;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the run
    run: PathBuf,
    /// What people said: JSON lines, the sheet (.csv) they filled in, or Label Studio's export (.json)
    #[arg(required = true)]
    answers: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Study { folder, experiment, .. } = Study::open(&args.run)?;
    let human = experiment.annotator == Annotator::Human;
    ensure!(human, "{}: the annotator of this run is not human", args.run.display());
    let dataset = Dataset::open(&experiment.dataset)?;
    let tasks = queue::read(&folder.queue()).context("no queue is waiting for people")?;
    let mut book = Answers::open(&folder.answers())?;
    let asked: HashSet<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
    // Everything is looked at before anything is written: the book keeps what it takes.
    let mut said = Vec::new();
    for path in &args.answers {
        let answers = queue::read_answers(path, experiment.pool)?;
        let place = || path.display().to_string();
        dataset.check_answers(&answers).with_context(place)?;
        let known = |id: &str| asked.contains(id) || book.of(id).next().is_some();
        if let Some(answer) = answers.iter().find(|answer| !known(&answer.id)) {
            bail!("{}: nobody was asked about {:?} in this run", place(), answer.id);
        }
        said.extend(answers);
    }
    let Taken { new, known } = book.take(&said)?;
    let waiting = tasks.iter().filter(|task| book.of(&task.id).next().is_none()).count();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} new answers, {} known before", grouped(new), grouped(known))?;
    match waiting {
        0 => writeln!(out, "every task of the queue has an answer")?,
        _ => writeln!(out, "{} of {} tasks wait", grouped(waiting), grouped(tasks.len()))?,
    }
    Ok(ExitCode::SUCCESS)
}
