//! The rounds of lanes that go side by side: each picks a batch and has it paired, all train, each is
//! evaluated. A lane that trains alone is a group of one. Small models leave most of a GPU idle, so that
//! there those of all lanes train together.
//!
//! Each step's file is written whole before the next begins and says that the step is done: a killed
//! experiment goes on with the first step whose file is missing.

use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use nextpair_data::{Watch, Within};
use nextpair_models::{Device, Member, ModelFolder, train_ensemble};

use super::clock::Clock;
use super::lane::Lane;
use super::learn::Place;
use super::people::Waiting;
use super::schedule::side_by_side;
use super::{Observer, Scenario};
use crate::{Arm, Error};

fn take<'a, 'b>(lane: &'a Mutex<Lane<'b>>) -> MutexGuard<'a, Lane<'b>> {
    lane.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scenario {
    /// Runs rounds of a group of lanes, `jobs` at a time, on queues of a GPU from `queue` on. Calls `stop`
    /// before each round. Returns early if human answers are missing.
    pub(super) fn run_rounds(
        &self,
        lanes: &[Mutex<Lane<'_>>],
        rounds: RangeInclusive<usize>,
        (jobs, queue): (usize, usize),
        observer: &dyn Observer,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Waiting>, Error> {
        let device = |job: usize| self.options.device.with_queue((queue + job) as u16);
        for round in rounds {
            if stop() {
                break;
            }
            // 1. Pick, annotate, and open the model. What exists is read.
            let waiting = Mutex::new(None);
            side_by_side(lanes, jobs, |lane, job, _| {
                let lane = &mut *take(lane);
                let place = lane.place(round, device(job));
                lane.clock = Clock::start();
                let found = self.buy(place, lane, observer)?;
                if found.is_some() {
                    *waiting.lock().unwrap_or_else(PoisonError::into_inner) = found;
                    return Ok(());
                }
                if self.finished(place).is_none() || self.is_missed(place)? {
                    let corpus = lane.corpus();
                    let run = corpus.steady(|| self.training_run(corpus, place, &lane.known.pairs));
                    lane.run = Some(run?);
                }
                lane.clock.pause();
                Ok(())
            })?;
            let waiting = waiting.into_inner().unwrap_or_else(PoisonError::into_inner);
            if waiting.is_some() {
                return Ok(waiting);
            }
            // 2. Train the models that are not trained yet.
            self.train_round(lanes, round, device(0), observer)?;
            // 3. Evaluate each, and append the round to the journal.
            side_by_side(lanes, jobs, |lane, job, _| {
                let lane = &mut *take(lane);
                let place = lane.place(round, device(job));
                match lane.run.take().filter(|_| self.finished(place).is_none()) {
                    Some(run) => self.conclude(place, lane, &run, observer),
                    None => Ok(()),
                }
            })?;
        }
        Ok(None)
    }

    /// Returns whether the model of a finished round was deleted, though the next batch is still to be
    /// picked with it.
    fn is_missed(&self, place: Place<'_>) -> Result<bool, Error> {
        let next = place.round + 1;
        let picked = |arm: &Arm| self.folder.picks(place.seed, arm, next).exists();
        let pending = match place.strategy {
            Some(arm) => !picked(arm),
            None => self.experiment.strategies.iter().any(|arm| !picked(arm)),
        };
        if next > self.experiment.rounds || !pending {
            return Ok(false);
        }
        let path = self.folder.model(place.seed, place.strategy, place.round);
        Ok(!ModelFolder::is_there(&path) || !ModelFolder::open(&path)?.is_finished()?)
    }

    /// Trains the open models of a round, ensemble by ensemble.
    fn train_round(
        &self,
        lanes: &[Mutex<Lane<'_>>],
        round: usize,
        device: Device,
        observer: &dyn Observer,
    ) -> Result<(), Error> {
        let mut lanes: Vec<MutexGuard<'_, Lane<'_>>> = lanes.iter().map(take).collect();
        let counts = |lane: &Lane<'_>| self.finished(lane.place(round, device)).is_none();
        let mut open = Vec::new();
        for (at, lane) in lanes.iter().enumerate() {
            match &lane.run {
                Some(run) if !run.is_finished()? => open.push(at),
                Some(_) if counts(lane) => observer.advance(self.work(round)),
                _ => {}
            }
        }
        if open.is_empty() {
            return Ok(());
        }
        for ensemble in self.ensembles(&lanes, round, &open)? {
            let members: Vec<Member<'_>> = ensemble.iter().map(|&at| lanes[at].member()).collect();
            let places: Vec<Place<'_>> =
                ensemble.iter().map(|&at| lanes[at].place(round, device)).collect();
            let unfinished = ensemble.iter().filter(|at| open.contains(at) && counts(&lanes[**at]));
            let worth = [("training", unfinished.count() as u64 * self.work(round))];
            let name = match &places[..] {
                [only] => only.to_string(),
                _ => format!("round {round}, {} models", places.len()),
            };
            let progress = Within::new(observer, name, &worth);
            let (began, watch) = (Instant::now(), Watch::start());
            train_ensemble(&members, device, &progress, &|at, _| self.log_epoch(places[at]))?;
            let seconds = began.elapsed().as_secs_f64() / ensemble.len() as f64;
            let trained = (seconds, watch.peak());
            ensemble.iter().for_each(|&at| lanes[at].trained = trained);
        }
        // What follows may work in other queues.
        Ok(device.release().map_err(nextpair_models::Error::from)?)
    }
}

#[cfg(test)]
mod tests;
