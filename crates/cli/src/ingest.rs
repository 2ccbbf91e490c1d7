//! `nextpair ingest RUN ANSWERS...`: takes what people said about the queue of a run.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use nextpair_data::FolderLock;
use nextpair_data::dataset::Dataset;
use nextpair_data::queue::{self, Answers, Taken};
use nextpair_engine::prepare_process;
use nextpair_scenario::{Annotator, Scenario, Study};

use crate::evaluate::write_out;
use crate::numbers::grouped;
use crate::run::{Watch, go_on};
use crate::threads;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The folder of the run
    run: PathBuf,
    /// What people said: JSON lines, the sheet (.csv) they filled in, or Label Studio's export (.json)
    #[arg(required = true)]
    answers: Vec<PathBuf>,
    /// Only take the answers; `nextpair run RUN --resume` goes on
    #[arg(long)]
    only: bool,
    /// Threads; all cores by default
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    prepare_process();
    threads::set(args.threads)?;
    let Study { folder, experiment, .. } = Study::open(&args.run)?;
    let human = experiment.annotator == Annotator::Human;
    ensure!(human, "{}: the annotator of this run is not human", args.run.display());
    let dataset = Dataset::open(&experiment.dataset)?;
    // A batch must not be closed while its answers are taken.
    let lock = FolderLock::take(folder.path(), "another process is at this run; try again")?;
    let tasks = queue::read(&folder.queue()).with_context(|| {
        let run = args.run.display();
        format!("no queue is waiting for people; `nextpair run {run} --resume` does what is left")
    })?;
    // A run that was killed after it closed the batch had no time to take the queue away.
    let (seed, arm) = (experiment.seeds[0], &experiment.strategies[0]);
    let is_closed = |round: &usize| folder.closed(seed, arm, *round).exists();
    if let Some(round) = (1..=experiment.rounds).rfind(is_closed)
        && queue::read(&folder.picks(seed, arm, round))? == tasks
    {
        let run = args.run.display();
        bail!("round {round} is closed; `nextpair run {run} --resume` goes on with it");
    }
    let mut book = Answers::open(&folder.answers())?;
    let asked: HashSet<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
    // Everything is looked at before anything is written: the book keeps what it takes.
    let mut said = Vec::new();
    for path in &args.answers {
        let answers = queue::read_answers(path, experiment.pool, &dataset)?;
        let place = || path.display().to_string();
        dataset.check_answers(&answers).with_context(place)?;
        for answer in answers {
            if !asked.contains(answer.id.as_str()) && !book.of(&answer.id).any(|a| *a == answer) {
                match book.of(&answer.id).next() {
                    Some(_) => bail!("{}: the round of {:?} is closed", place(), answer.id),
                    None => {
                        bail!("{}: nobody was asked about {:?} in this run", place(), answer.id)
                    }
                }
            }
            said.push(answer);
        }
    }
    let Taken { new, known } = book.take(&said)?;
    drop(lock);
    let waiting = tasks.iter().filter(|task| book.of(&task.id).next().is_none()).count();
    let mut text = format!("{} new answers, {} known before\n", grouped(new), grouped(known));
    text += &match waiting {
        0 => "every task of the queue has an answer\n".to_owned(),
        _ => format!("{} of {} tasks wait\n", grouped(waiting), grouped(tasks.len())),
    };
    write_out(&text)?;
    match waiting == 0 && !args.only {
        true => go_on(&Scenario::resume(&args.run, None)?, None, &Watch::new()),
        false => Ok(ExitCode::SUCCESS),
    }
}
