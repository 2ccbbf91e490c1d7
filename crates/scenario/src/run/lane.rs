//! The rounds of one strategy and one seed.

use std::collections::HashMap;
use std::path::Path;

use nextpair_data::dataset::{NewImages, NewRows};
use nextpair_data::queue::{Answer, Task};
use nextpair_models::{Corpus, Device, Origin, Pair};

use super::choose::Choice;
use super::clock::Clock;
use super::learn::{Before, Place};
use super::people::{Picked, Waiting};
use super::{Observer, Scenario};
use crate::annotator::{Annotated, noisy, oracle};
use crate::plan::text_of;
use crate::{Annotator, Arm, Batch, Error};

/// Tasks and their items, the batch, and the origin of the picks.
pub(super) type Picks = ((Vec<Task>, Vec<usize>), Batch, Origin);

/// The state of a lane after some rounds.
pub(super) struct Known {
    /// The dataset with all new answers.
    pub(super) corpus: Option<Corpus>,
    /// Items that left the pool: initial pairs and picks.
    pub(super) gone: Vec<usize>,
    /// Picks that came back without their other half.
    pub(super) refused: Vec<usize>,
    /// Number of paired items among them.
    pub(super) paired: usize,
    /// Their pairs.
    pub(super) pairs: Vec<Pair>,
    /// All human answers.
    pub(super) answers: Vec<Answer>,
    /// Features of new captions, if the model needs them.
    pub(super) captions: Option<NewRows>,
    /// New images, with their features.
    pub(super) images: NewImages,
}

impl Scenario {
    /// Runs round 0 of a seed, which all strategies share.
    pub(super) fn first(
        &self,
        seed: u64,
        device: Device,
        observer: &dyn Observer,
    ) -> Result<(), Error> {
        let place = Place { seed, strategy: None, round: 0, device };
        if self.finished(place).is_some() {
            return Ok(());
        }
        let clock = Clock::start();
        let (corpus, known) = (self.reading(seed)?.corpus, self.start(seed));
        let before = self.before(place, corpus, &known, None, None, clock);
        self.learn(place, before, observer)
    }

    /// Returns the number of items paid for, if it is not that of the paired ones. With people, what is
    /// skipped does not count.
    fn bought(&self, known: &Known) -> Option<usize> {
        let simulated = self.experiment.annotator != Annotator::Human;
        (simulated && known.gone.len() != known.paired).then_some(known.gone.len())
    }

    /// Returns the state before the first batch.
    pub(super) fn start(&self, seed: u64) -> Known {
        let gone = self.plan.start(seed);
        let pairs = oracle(&self.corpus, &gone, self.experiment.training.captions, seed).pairs;
        Known {
            corpus: None,
            paired: gone.len(),
            gone,
            refused: Vec::new(),
            pairs,
            answers: Vec::new(),
            captions: None,
            images: NewImages::default(),
        }
    }

    /// Runs all rounds of a strategy after round 0. Calls `stop` before each of them. Returns early
    /// if human answers are missing.
    pub(super) fn lane(
        &self,
        seed: u64,
        strategy: &Arm,
        device: Device,
        observer: &dyn Observer,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Waiting>, Error> {
        let mut known = self.start(seed);
        let own = self.reading(seed)?.corpus;
        for round in 1..=self.experiment.rounds {
            if stop() {
                break;
            }
            let mut clock = Clock::start();
            let place = Place { seed, strategy: Some(strategy), round, device };
            let ((tasks, picked), mut batch, picked_by) =
                self.pick(place, strategy, &mut known, &mut clock, observer)?;
            match self.experiment.annotator {
                Annotator::Human => {
                    let picked = Picked { tasks: &tasks, items: &picked };
                    let waiting =
                        self.people(place, strategy, picked, &mut known, &mut batch, observer)?;
                    if waiting.is_some() {
                        return Ok(waiting);
                    }
                }
                _ => self.pair(seed, &picked, &mut known, &mut batch),
            }
            if self.finished(place).is_none() {
                let corpus = known.corpus.as_ref().unwrap_or(own);
                let before =
                    self.before(place, corpus, &known, Some(batch), Some(picked_by), clock);
                self.learn(place, before, observer)?;
            }
        }
        Ok(None)
    }

    /// Picks the batch of a round, or reads it if it exists: tasks and their items, which leave the pool,
    /// and the origin of the picks.
    pub(super) fn pick(
        &self,
        place: Place<'_>,
        strategy: &Arm,
        known: &mut Known,
        clock: &mut Clock,
        observer: &dyn Observer,
    ) -> Result<Picks, Error> {
        let corpus = match &known.corpus {
            Some(corpus) => corpus,
            None => self.reading(place.seed)?.corpus,
        };
        let Known { pairs, gone, refused, .. } = &*known;
        let choice = Choice { corpus, pairs, gone, refused };
        let (tasks, batch, picked_by) = self.choose(place, strategy, &choice, clock, observer)?;
        let path = self.folder.picks(place.seed, strategy, place.round);
        let picked = self.items_of(&tasks, place.seed, &path)?;
        known.gone.extend(&picked);
        Ok(((tasks, picked), batch, picked_by))
    }

    /// Pairs picked items with a simulated annotator.
    pub(super) fn pair(&self, seed: u64, picked: &[usize], known: &mut Known, batch: &mut Batch) {
        let can = self.plan.captionable(seed);
        let can = |item: &usize| can.binary_search(item).is_ok();
        let (captioned, refused): (Vec<usize>, Vec<usize>) = picked.iter().copied().partition(can);
        let annotated = self.simulated(&captioned, seed);
        batch.wrong = annotated.wrong;
        batch.skipped = refused.len();
        known.refused.extend(refused);
        known.paired += captioned.len();
        known.pairs.extend(annotated.pairs);
    }

    /// Returns a round before training.
    pub(super) fn before<'a>(
        &self,
        place: Place<'_>,
        corpus: &'a Corpus,
        known: &'a Known,
        batch: Option<Batch>,
        picked_by: Option<Origin>,
        clock: Clock,
    ) -> Before<'a> {
        let (paired, pairs) = (known.paired, &known.pairs[..]);
        let pool = self.plan.pool(place.seed, &known.gone).len();
        let bought = self.bought(known);
        Before { corpus, paired, bought, pool, pairs, batch, picked_by, clock }
    }

    /// Pairs a batch with a simulated annotator.
    fn simulated(&self, picked: &[usize], seed: u64) -> Annotated {
        let captions = self.experiment.training.captions;
        match self.experiment.annotator {
            Annotator::Noisy(noise) => {
                let items = self.plan.captionable(seed);
                let batch = (picked, &items[..], self.experiment.pool);
                noisy(&self.corpus, batch, captions, seed, noise)
            }
            _ => oracle(&self.corpus, picked, captions, seed),
        }
    }

    /// Returns the caption that represents an item in a pool of texts. New captions of the item do
    /// not change it.
    pub(super) fn text_of(&self, corpus: &Corpus, item: usize, seed: u64) -> Option<usize> {
        let start = |corpus: &Corpus| corpus.dataset().items().captions_of(item).start;
        let caption = text_of(&self.corpus, item, self.experiment.training.captions, seed)?;
        Some(caption - start(&self.corpus) + start(corpus))
    }

    /// Returns the items of tasks.
    fn items_of(&self, tasks: &[Task], seed: u64, path: &Path) -> Result<Vec<usize>, Error> {
        let (items, own) = (self.corpus.dataset().items(), self.plan.items(seed));
        let by_id: HashMap<String, usize> =
            own.iter().map(|&item| (items.get(item).id, item)).collect();
        let item = |(at, task): (usize, &Task)| {
            let unknown = || Error::line(path, at + 1, format!("no item {} to pair", task.id));
            by_id.get(&task.id).copied().ok_or_else(unknown)
        };
        tasks.iter().enumerate().map(item).collect()
    }
}
