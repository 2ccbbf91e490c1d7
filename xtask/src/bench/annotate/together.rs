//! Two processes on one database with a long history, behind a balancer that alternates between
//! them.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{FOLDER, Options, Outcome, PATIENCE, WATCHED, watch, within};
use crate::bench::memory;
use crate::crowd::{Crowd, Habits, Server, World, check};

/// An answer is two events: handing out the task, and answering it.
const EVENTS_PER_ANSWER: usize = 2;

/// Builds the history with half of the annotators, and measures the other half.
pub(super) fn measure(
    binary: &Path,
    database: &str,
    options: &Options,
    thinking: Habits,
) -> Result<Outcome> {
    let history = options.events.div_ceil(EVENTS_PER_ANSWER);
    let world = World::make(&Path::new(FOLDER).join("together"), history + options.tasks)?;
    let people = 2 * options.annotators;
    let mut first = Server::start(binary, &world, database, people, &[])?;
    let mut annotators = first.annotators();
    let late = annotators.split_off(options.annotators);
    let ((), mut logs) = Crowd::new(Habits::default(), PATIENCE).work(annotators, |crowd| {
        while crowd.acknowledged() < history {
            ensure!(crowd.working() > 0, "nobody works any more");
            std::thread::sleep(Duration::from_millis(20));
        }
        crowd.stop();
        Ok(())
    })?;
    let began = Instant::now();
    let mut second = Server::start(binary, &world, database, people, &[])?;
    let start = began.elapsed().as_secs_f64();

    let late = late.into_iter().map(|(name, client)| (name, client.and_at(second.address())));
    let lead = first.lead()?;
    let crowd = Crowd::new(thinking, PATIENCE);
    let began = Instant::now();
    let watched = |crowd: &Crowd| watch(crowd, &lead, Some(WATCHED));
    let ((overviews, _), latest) = crowd.work(late.collect(), watched)?;
    let seconds = began.elapsed().as_secs_f64();
    let mut inside: f64 = 0.0;
    for server in [&first, &second] {
        inside = inside.max(within(&server.lead()?.get("/metrics", PATIENCE)?.text, 0.99)?);
    }
    let peak_bytes = memory::peak(first.id()).max(memory::peak(second.id()));
    first.kill()?;
    second.kill()?;
    first.start_again()?;

    let outcome = Outcome::of(&latest, overviews);
    let answers = latest.iter().map(|log| log.submits.len()).sum();
    logs.extend(latest);
    check(&first.export()?, &logs, 1).context("after a kill of both")?;
    Ok(Outcome { answers, seconds, inside, peak_bytes, start, ..outcome })
}
