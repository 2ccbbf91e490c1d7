//! Experiments whose lanes go round by round, so that the models of a round train together: small
//! models leave most of a GPU idle.

use std::sync::{Mutex, PoisonError};

use nextpair_data::Within;
use nextpair_models::{Corpus, Device, Member, ModelFolder, Origin, train_ensemble};

use super::clock::Clock;
use super::lane::Known;
use super::learn::Place;
use super::schedule::side_by_side;
use super::{Observer, Scenario};
use crate::{Annotator, Arm, Batch, Error, Phase};

/// A strategy and a seed between the steps of a round.
pub(super) struct Lane<'a> {
    pub(super) seed: u64,
    /// The strategy; `None` in round 0.
    pub(super) strategy: Option<&'a Arm>,
    pub(super) corpus: &'a Corpus,
    pub(super) known: Known,
    /// The batch of the round, and the origin of its picks.
    batch: Option<Batch>,
    picked_by: Option<Origin>,
    clock: Clock,
    /// The model of the round, if it is needed.
    run: Option<ModelFolder>,
}

impl Lane<'_> {
    fn place(&self, round: usize, device: Device) -> Place<'_> {
        Place { seed: self.seed, strategy: self.strategy, round, device }
    }
}

/// Lanes that several jobs work at. None is worked at twice at a time.
type Lanes<'a> = Vec<Mutex<Lane<'a>>>;

fn take<'a, 'b>(lane: &'a Mutex<Lane<'b>>) -> std::sync::MutexGuard<'a, Lane<'b>> {
    lane.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scenario {
    /// Returns whether the models of a round train together.
    pub(super) fn trains_together(&self) -> bool {
        let gpu = matches!(self.options.device, Device::Cuda(_));
        self.options.together.unwrap_or(gpu)
            && self.experiment.model.architecture().trains_together()
            && self.experiment.annotator != Annotator::Human
    }

    /// Runs all remaining work round by round.
    pub(super) fn run_together(&self, jobs: usize, observer: &dyn Observer) -> Result<(), Error> {
        let device = |job: usize| self.options.device.with_queue(job as u16);
        let seeds = &self.experiment.seeds;
        let starts = seeds.iter().map(|&seed| self.begin(seed, None));
        self.finish_round(&starts.collect::<Result<Lanes<'_>, _>>()?, 0, jobs, observer)?;
        let arms = || self.experiment.strategies.iter();
        let lanes = seeds.iter().flat_map(|&seed| arms().map(move |arm| (seed, arm)));
        let lanes = lanes.map(|(seed, arm)| self.begin(seed, Some(arm)));
        let lanes = lanes.collect::<Result<Lanes<'_>, _>>()?;
        for round in 1..=self.experiment.rounds {
            side_by_side(&lanes, jobs, |lane, job, _| {
                let lane = &mut *take(lane);
                let Some(strategy) = lane.strategy else { return Ok(()) };
                let place =
                    Place { seed: lane.seed, strategy: Some(strategy), round, device: device(job) };
                lane.clock = Clock::start();
                let (known, clock) = (&mut lane.known, &mut lane.clock);
                let (picked, mut batch, picked_by) =
                    self.pick(place, strategy, known, clock, observer)?;
                self.pair(place.seed, &picked.1, known, &mut batch);
                (lane.batch, lane.picked_by) = (Some(batch), Some(picked_by));
                lane.clock.pause();
                Ok(())
            })?;
            self.finish_round(&lanes, round, jobs, observer)?;
        }
        Ok(())
    }

    /// Returns a lane before its first batch.
    fn begin<'a>(&'a self, seed: u64, strategy: Option<&'a Arm>) -> Result<Mutex<Lane<'a>>, Error> {
        let mut clock = Clock::start();
        let (corpus, known) = (self.reading(seed)?.corpus, self.start(seed));
        clock.pause();
        let (batch, picked_by, run) = (None, None, None);
        Ok(Mutex::new(Lane { seed, strategy, corpus, known, batch, picked_by, clock, run }))
    }

    /// Trains the models of a round together, then evaluates each and appends it to the journal.
    fn finish_round(
        &self,
        lanes: &Lanes<'_>,
        round: usize,
        jobs: usize,
        observer: &dyn Observer,
    ) -> Result<(), Error> {
        let device = |job: usize| self.options.device.with_queue(job as u16);
        side_by_side(lanes, jobs, |lane, job, _| {
            let lane = &mut *take(lane);
            let place = lane.place(round, device(job));
            lane.run = match self.finished(place).is_none() || self.is_missed(place)? {
                true => {
                    let (corpus, pairs) = (lane.corpus, &lane.known.pairs);
                    Some(corpus.steady(|| self.training_run(corpus, place, pairs))?)
                }
                false => None,
            };
            Ok(())
        })?;
        self.train_round(lanes, round, observer)?;
        side_by_side(lanes, jobs, |lane, job, _| {
            let lane = &mut *take(lane);
            let place =
                Place { seed: lane.seed, strategy: lane.strategy, round, device: device(job) };
            let Some(run) = lane.run.take().filter(|_| self.finished(place).is_none()) else {
                return Ok(());
            };
            let mut clock = std::mem::replace(&mut lane.clock, Clock::start());
            clock.resume();
            let epochs = run.epochs()?;
            let parts: [(&str, f64); 2] = [
                ("training", epochs.iter().map(|epoch| epoch.seconds).sum()),
                ("evaluation", epochs.iter().map(|epoch| epoch.dev_seconds).sum()),
            ];
            for (name, seconds) in parts.into_iter().filter(|(_, seconds)| *seconds > 0.0) {
                clock.remember(Phase { name: name.to_owned(), seconds, memory: None });
            }
            let (batch, picked_by) = (lane.batch.take(), lane.picked_by.take());
            let before = self.before(place, lane.corpus, &lane.known, batch, picked_by, clock);
            let model = run.model(place.device)?;
            let progress = Within::new(observer, place.to_string(), &[]);
            self.conclude(place, before, (&run, &model), progress, observer)
        })
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

    /// Trains the models of a round that are not trained yet.
    fn train_round(
        &self,
        lanes: &Lanes<'_>,
        round: usize,
        observer: &dyn Observer,
    ) -> Result<(), Error> {
        let lanes: Vec<_> = lanes.iter().map(take).collect();
        let lanes: Vec<&Lane<'_>> = lanes.iter().map(|lane| &**lane).collect();
        let device = self.options.device;
        let mut open = Vec::new();
        for (at, lane) in lanes.iter().enumerate() {
            let Some(run) = &lane.run else { continue };
            match run.is_finished()? {
                false => open.push(at),
                true if self.finished(lane.place(round, device)).is_none() => {
                    observer.advance(self.work(round));
                }
                true => {}
            }
        }
        if open.is_empty() {
            return Ok(());
        }
        for ensemble in self.ensembles(&lanes, round, &open)? {
            let member = |&at: &usize| {
                let Lane { seed, corpus, known, run, .. } = lanes[at];
                Member { folder: run.as_ref(), corpus, pairs: &known.pairs, seed: *seed }
            };
            let members: Vec<Member<'_>> = ensemble.iter().map(member).collect();
            let places: Vec<Place<'_>> =
                ensemble.iter().map(|&at| lanes[at].place(round, device)).collect();
            let counts = |at: &&usize| {
                open.contains(at) && self.finished(lanes[**at].place(round, device)).is_none()
            };
            let unfinished = ensemble.iter().filter(counts).count() as u64;
            let worth = [("training", unfinished * self.work(round))];
            let name = match &places[..] {
                [only] => only.to_string(),
                _ => format!("round {round}, {} models", places.len()),
            };
            let progress = Within::new(observer, name, &worth);
            let log = |at: usize, _: &_| self.log_epoch(places[at]);
            train_ensemble(&members, device, &progress, &log)?;
        }
        // What follows works in other queues.
        device.release().map_err(nextpair_models::Error::from)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
