//! The model of a round: its folder, its evaluation, its record in the journal.

use std::path::Path;
use std::{fmt, mem};

use nextpair_data::{Within, fingerprint_of};
use nextpair_models::{
    Corpus, Device, Mixing, Model, ModelFolder, Origin, Pair, Plateau, Spec, Training,
    evaluate_ranks, still_falling,
};
use rayon::prelude::*;

use super::clock::Clock;
use super::lane::Lane;
use super::{Observer, Scenario};
use crate::{Arm, Error, Round, RoundRanks};

const WEIGHTS: &str = "model.safetensors";

/// A round of a strategy and a seed.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) seed: u64,
    /// The strategy; `None` in round 0.
    pub(super) strategy: Option<&'a Arm>,
    pub(super) round: usize,
    /// The device that works at it: a queue of its own, if it has several.
    pub(super) device: Device,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.strategy {
            Some(strategy) => write!(out, "seed {}, {strategy}, ", self.seed)?,
            None => write!(out, "seed {}, ", self.seed)?,
        }
        write!(out, "round {}", self.round)
    }
}

impl Scenario {
    /// Evaluates the trained model of a round and appends the round to the journal.
    pub(super) fn conclude(
        &self,
        place: Place<'_>,
        lane: &mut Lane<'_>,
        run: &ModelFolder,
        observer: &dyn Observer,
    ) -> Result<(), Error> {
        let progress = Within::new(observer, place.to_string(), &[]);
        let epochs = run.epochs()?;
        let parts = [
            ("training", epochs.iter().map(|epoch| epoch.seconds).sum()),
            ("evaluation", epochs.iter().map(|epoch| epoch.dev_seconds).sum()),
        ];
        let (seconds, memory) = mem::take(&mut lane.trained);
        let mut clock = mem::replace(&mut lane.clock, Clock::start());
        clock.add(&parts, seconds, memory);
        clock.resume();
        let (batch, picked_by) = (lane.batch.take(), lane.picked_by.take());
        let (own, known) = (lane.own, &lane.known);
        let (pairs, model) = (&known.pairs[..], &run.model(place.device)?);
        let (mut test, mut ranks) = (Vec::new(), Vec::new());
        let items = &self.plan.test(place.seed)[..];
        for &folds in &self.experiment.evaluation.folds {
            let (evaluation, of_queries) = clock.time("evaluation", || {
                // New captions must not change the test.
                evaluate_ranks(model, own, items, folds, &progress)
            })?;
            test.push(evaluation);
            ranks.push(of_queries);
        }
        let path = self.folder.ranks(place.seed, place.strategy, place.round);
        // Before the journal, which names their fingerprint.
        let ranks = RoundRanks::new(own, items, &ranks).write(&path)?;
        let epoch = run.weights_epoch()?.unwrap_or(0);
        let round = Round {
            seed: place.seed,
            strategy: place.strategy.copied(),
            round: place.round,
            paired: known.paired,
            bought: self.bought(known),
            pairs: pairs.len(),
            pool: self.plan.pool(place.seed, &known.gone).len(),
            batch,
            test,
            dev: epochs.iter().find(|line| line.epoch == epoch).and_then(|line| line.dev),
            epoch,
            weights: run.weights_fingerprint()?,
            ranks,
            made_by: made_by(run, picked_by, place.device),
            phases: clock.finish(),
        };
        // Before the journal: a finished round is not opened again.
        run.forget_state()?;
        let rounds = {
            let mut done = self.done();
            done.journal.append(&round)?;
            done.rounds.push(round.clone());
            done.rounds.clone()
        };
        drop(progress);
        self.log_round(place)?;
        observer.finished(&round, &rounds);
        let model = run.spec().model.architecture();
        if let Some(why) =
            Plateau::of(model, &run.spec().training, pairs.len(), &epochs, round.test.first())
        {
            observer.learned_nothing(&round, &why);
        }
        if let Some(share) = still_falling(&epochs) {
            observer.cut_short(&round, share);
        }
        Ok(())
    }

    /// Opens the training of a round, or creates it.
    pub(super) fn training_run(
        &self,
        corpus: &Corpus,
        place: Place<'_>,
        pairs: &[Pair],
    ) -> Result<ModelFolder, Error> {
        let path = self.folder.model(place.seed, place.strategy, place.round);
        let training = Training { seed: place.seed, ..self.experiment.training.clone() };
        let mut model = self.experiment.model.clone();
        model.fit(corpus.regions());
        if !ModelFolder::is_there(&path) {
            let images = corpus.image_features().0.name.clone();
            let texts = corpus.text_features().map(|(set, _)| set.name.clone());
            let spec =
                Spec::new(corpus.dataset(), model, corpus.inputs(), (images, texts), training)
                    .made_on(place.device);
            let words = self.reading(place.seed)?.vocabulary.cloned();
            return Ok(match pairs.is_empty() {
                true => ModelFolder::untrained(&path, spec, words, corpus)?,
                false => ModelFolder::create(&path, spec, words, corpus, pairs)?,
            });
        }
        let mut run = ModelFolder::open(&path)?;
        if !run.is_finished()? {
            // Opening the experiment has checked whether this process may continue it.
            run.admit(place.device, Mixing::Accept)?;
        }
        let same = (&run.spec().model, &run.spec().training) == (&model, &training);
        if !same || run.pairs(corpus)? != pairs {
            let what = "learned from other pairs or in another way than this round does; delete the \
                        folder to train it again";
            return Err(Error::file(&path, what));
        }
        Ok(run)
    }

    /// Returns the model of a finished round.
    pub(super) fn model(
        &self,
        corpus: &Corpus,
        place: Place<'_>,
        pairs: &[Pair],
    ) -> Result<Model, Error> {
        let run = corpus.steady(|| self.training_run(corpus, place, pairs))?;
        run.forget_state()?;
        if let Some(round) = self.finished(place)
            && round.weights != run.weights_fingerprint()?
        {
            return Err(other_weights(&round, place.device, run.folder()));
        }
        Ok(run.model(place.device)?)
    }

    /// Checks that the weights of finished rounds are unchanged. Deleted ones can be trained again.
    pub(super) fn check_finished(&self) -> Result<(), Error> {
        let rounds = self.rounds();
        let check = |round: &Round| {
            let folder = self.folder.model(round.seed, round.strategy.as_ref(), round.round);
            let weights = folder.join(WEIGHTS);
            if !weights.exists() {
                return None;
            }
            match fingerprint_of(&weights) {
                Ok(print) if print == round.weights => None,
                Ok(_) => Some(other_weights(round, self.options.device, &folder)),
                Err(error) => Some(error.into()),
            }
        };
        match rounds.par_iter().find_map_first(check) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Returns the record of a finished round.
    pub(super) fn finished(&self, place: Place<'_>) -> Option<Round> {
        let same = |round: &&Round| {
            (round.seed, round.strategy.as_ref(), round.round)
                == (place.seed, place.strategy, place.round)
        };
        self.done().rounds.iter().find(same).cloned()
    }

    /// Returns the steps of progress of a round.
    pub(super) fn work(&self, round: usize) -> u64 {
        (self.plan.size(round) * self.experiment.training.epochs) as u64
    }
}

/// Returns the origins of the picks, the training and the evaluation of a round.
fn made_by(run: &ModelFolder, picked_by: Option<Origin>, device: Device) -> Vec<Origin> {
    let spec = run.spec();
    let begun = Origin { version: spec.version.clone(), unit: spec.unit.clone() };
    let trained = [begun].into_iter().chain(spec.continued_by.iter().cloned());
    let mut all: Vec<Origin> = Vec::new();
    for origin in picked_by.into_iter().chain(trained).chain([Origin::of(device)]) {
        if !all.contains(&origin) {
            all.push(origin);
        }
    }
    all
}

/// Returns the names of origins, in their order.
pub(super) fn makers(made_by: &[Origin]) -> String {
    made_by.iter().map(Origin::to_string).collect::<Vec<String>>().join(", then ")
}

/// Returns the error for weights that differ from those of a finished round.
fn other_weights(round: &Round, device: Device, folder: &Path) -> Error {
    let (seed, strategy, round_number) = (round.seed, round.strategy.as_ref(), round.round);
    let place = Place { seed, strategy, round: round_number, device };
    let mut what = format!(
        "not the weights that {place} ended with; put them back, or delete the folder {} to train \
         them again",
        folder.display()
    );
    if round.made_by != [Origin::of(device)] {
        // Training again here would give other weights.
        what += &format!(" with what made them: {}", makers(&round.made_by));
    }
    Error::file(&folder.join(WEIGHTS), what)
}
