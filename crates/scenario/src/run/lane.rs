//! A strategy and a seed: what is known of it after some rounds, and how it comes to new pairs.

use std::collections::HashMap;
use std::path::Path;

use nextpair_data::dataset::{NewImages, NewRows};
use nextpair_data::queue::{Answer, Task};
use nextpair_models::{Corpus, Device, Member, ModelFolder, Origin, Pair};

use super::clock::Clock;
use super::learn::Place;
use super::people::Waiting;
use super::{Observer, Scenario};
use crate::annotator::{Annotated, noisy, oracle};
use crate::plan::text_of;
use crate::{Annotator, Arm, Batch, Error};

/// A strategy and a seed between the steps of a round.
pub(super) struct Lane<'a> {
    pub(super) seed: u64,
    /// The strategy; `None` in round 0, which all strategies share.
    pub(super) strategy: Option<&'a Arm>,
    /// The dataset as the seed reads it.
    pub(super) own: &'a Corpus,
    pub(super) known: Known,
    /// The batch of the round, and the origin of its picks.
    pub(super) batch: Option<Batch>,
    pub(super) picked_by: Option<Origin>,
    pub(super) clock: Clock,
    /// The model of the round, if it is needed.
    pub(super) run: Option<ModelFolder>,
    /// Seconds of its training in this process, and the peak of memory.
    pub(super) trained: (f64, Option<u64>),
}

impl<'a> Lane<'a> {
    pub(super) fn place(&self, round: usize, device: Device) -> Place<'a> {
        Place { seed: self.seed, strategy: self.strategy, round, device }
    }

    /// Returns the dataset with all new answers.
    pub(super) fn corpus(&self) -> &Corpus {
        self.known.corpus.as_ref().unwrap_or(self.own)
    }

    /// Returns it as a member of an ensemble.
    pub(super) fn member(&self) -> Member<'_> {
        let (folder, corpus) = (self.run.as_ref(), self.corpus());
        Member { folder, corpus, pairs: &self.known.pairs, seed: self.seed }
    }
}

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
    /// Returns a lane before its first round.
    pub(super) fn lane<'a>(
        &'a self,
        seed: u64,
        strategy: Option<&'a Arm>,
    ) -> Result<Lane<'a>, Error> {
        let gone = self.plan.start(seed);
        let known = Known {
            corpus: None,
            paired: gone.len(),
            gone,
            refused: Vec::new(),
            pairs: self.first_pairs(seed),
            answers: Vec::new(),
            captions: None,
            images: NewImages::default(),
        };
        let own = self.reading(seed)?.corpus;
        let (batch, picked_by, run, trained) = (None, None, None, (0.0, None));
        let clock = Clock::start();
        Ok(Lane { seed, strategy, own, known, batch, picked_by, clock, run, trained })
    }

    /// Returns the pairs that a seed begins with.
    pub(super) fn first_pairs(&self, seed: u64) -> Vec<Pair> {
        let captions = self.experiment.training.captions;
        oracle(&self.corpus, &self.plan.start(seed), captions, seed).pairs
    }

    /// Picks the batch of a round and has it paired. Returns it if human answers are missing. There is
    /// none in round 0.
    pub(super) fn buy(
        &self,
        place: Place<'_>,
        lane: &mut Lane<'_>,
        observer: &dyn Observer,
    ) -> Result<Option<Waiting>, Error> {
        let Some(strategy) = place.strategy else { return Ok(None) };
        let (tasks, mut batch, picked_by) = self.choose(place, strategy, lane, observer)?;
        let path = self.folder.picks(place.seed, strategy, place.round);
        let items = self.items_of(&tasks, place.seed, &path)?;
        let known = &mut lane.known;
        known.gone.extend(&items);
        if self.experiment.annotator == Annotator::Human {
            let picked = (&tasks[..], &items[..]);
            let waiting = self.people(place, strategy, picked, known, &mut batch, observer)?;
            if waiting.is_some() {
                return Ok(waiting);
            }
        } else {
            self.pair(place.seed, &items, known, &mut batch);
        }
        (lane.batch, lane.picked_by) = (Some(batch), Some(picked_by));
        Ok(None)
    }

    /// Returns the number of items paid for, if it is not that of the paired ones. With people, what is
    /// skipped does not count.
    pub(super) fn bought(&self, known: &Known) -> Option<usize> {
        let simulated = self.experiment.annotator != Annotator::Human;
        (simulated && known.gone.len() != known.paired).then_some(known.gone.len())
    }

    /// Pairs picked items with a simulated annotator.
    fn pair(&self, seed: u64, picked: &[usize], known: &mut Known, batch: &mut Batch) {
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
