//! Training as the paper states it, a step and an epoch at a time.

use std::time::Instant;

use nextpair_data::{Progress, draw};
use nextpair_kernels::Adam;

use crate::batch::{Batch, BatchLoss, batch_loss};
use crate::corpus::{Corpus, Pair};
use crate::training::{Epoch, Training};
use crate::{Error, Mode, Model, Pass};

/// A model, its optimiser and the settings of its training.
pub struct Trainer {
    model: Model,
    adam: Adam,
    training: Training,
}

/// Results of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The loss before the step, summed over the batch.
    pub loss: f64,
    /// Number of pairs with a gradient.
    pub active: usize,
    /// Norm of the gradients before clipping.
    pub gradient: f64,
}

/// Purposes of the draws, which keep them apart from other draws of the same seed.
const SHUFFLE: u64 = 0x5f;
const DROPOUT: u64 = 0xd0;

impl Trainer {
    /// A trainer before the first step.
    ///
    /// # Errors
    /// If the settings of the training are invalid.
    pub fn new(model: Model, training: Training) -> Result<Self, Error> {
        training.check()?;
        let adam = Adam::new(model.weights().trained().map(|(_, weight)| weight))?;
        Ok(Trainer { model, adam, training })
    }

    /// The current model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The model, when training is done.
    pub fn into_model(self) -> Model {
        self.model
    }

    /// The model and its optimiser.
    pub(crate) fn state(&self) -> (&Model, &Adam) {
        (&self.model, &self.adam)
    }

    /// The same, to resume from a stored state.
    pub(crate) fn state_mut(&mut self) -> (&mut Model, &mut Adam) {
        (&mut self.model, &mut self.adam)
    }

    /// One optimiser step on a batch, with learning rate `rate`. Dropout draws from `seed`, which is
    /// that of the epoch, and from the pairs of the batch.
    ///
    /// # Errors
    /// If the batch does not match the model, or a score is NaN or infinite.
    pub fn step(&mut self, batch: &Batch, rate: f64, seed: u64) -> Result<Step, Error> {
        let Training { margin, violation, clip, .. } = self.training;
        let pass = Pass::new(self.model.weights(), Mode::Train(seed))
            .with_dropout(self.training.dropout(), &batch.pairs);
        let BatchLoss { loss, active, gradients } =
            batch_loss(&self.model, &pass, batch, margin, violation)?;
        let observed = pass.into_observed();
        // Before the weights change, so that a refused step changes nothing.
        observed
            .iter()
            .try_for_each(|(buffer, value)| self.model.weights().check_buffer(buffer, value))?;
        let weights = self.model.weights_mut();
        let gradient = self.adam.step(weights.trained_mut(), &gradients, rate, clip)?;
        observed.into_iter().try_for_each(|(buffer, value)| weights.set(&buffer, value))?;
        Ok(Step { loss, active, gradient })
    }

    /// One pass over the pairs, in the order of epoch `number`, which counts from 0.
    ///
    /// # Errors
    /// Those of a step, with the items concerned.
    pub fn epoch(
        &mut self,
        corpus: &Corpus,
        pairs: &[Pair],
        number: usize,
        progress: &dyn Progress,
    ) -> Result<Epoch, Error> {
        let (start, device) = (Instant::now(), self.model.device());
        let (seed, rate) = (self.training.seed, self.training.rate_at(number));
        let order = shuffled(pairs, seed, number);
        let drawn = draw::draw_of(seed, DROPOUT + ((number as u64) << 8), 0);
        let (mut loss, mut active, mut scores, mut norms, mut steps) = (0.0, 0, 0, 0.0, 0);
        for pairs in order.chunks(self.training.batch) {
            let items: Vec<usize> = pairs.iter().map(|pair| pair.item).collect();
            let captions: Vec<usize> = pairs.iter().map(|pair| pair.caption).collect();
            let images = corpus.features(&items, device)?;
            let texts = corpus.texts(&captions, device)?;
            let batch = Batch { images, texts, pairs: pairs.to_vec() };
            let step = self.step(&batch, rate, drawn);
            let step = step.map_err(|error| named(error, corpus, pairs))?;
            if !step.gradient.is_finite() {
                let what = format!("the gradients of epoch {} are not finite", number + 1);
                return Err(Error::NotFinite { what });
            }
            loss += step.loss;
            active += step.active;
            scores += pairs.len() * pairs.len();
            norms += step.gradient;
            steps += 1;
            progress.advance(pairs.len() as u64);
        }
        Ok(Epoch {
            epoch: number + 1,
            loss: loss / pairs.len() as f64,
            rate,
            active: active as f64 / scores.max(1) as f64,
            gradient: norms / steps.max(1) as f64,
            seconds: start.elapsed().as_secs_f64(),
            dev: None,
            dev_seconds: 0.0,
        })
    }
}

/// The pairs in the order of an epoch: a shuffle by a draw for each pair, from the seed, the epoch,
/// the image and the caption. So pairs that two sets share come in the same order, and what
/// differs between models of one seed is less due to chance.
fn shuffled(pairs: &[Pair], seed: u64, epoch: usize) -> Vec<Pair> {
    let draw = |pair: &Pair| {
        let of_item = draw::draw_of(seed, SHUFFLE + ((epoch as u64) << 8), pair.item as u64);
        draw::draw_of(of_item, SHUFFLE, pair.caption as u64)
    };
    let mut order = pairs.to_vec();
    order.sort_by_cached_key(draw);
    order
}

/// Adds the names of the items to an error about a score of the batch.
fn named(error: Error, corpus: &Corpus, batch: &[Pair]) -> Error {
    match error {
        Error::Score { image, caption, value } => {
            let id = |at: usize| corpus.dataset().items().get(batch[at].item).id;
            let what = format!(
                "the score of the image of item {} and a caption of item {} is {value}; is a row of \
                 features all zeros, or the rate too high?",
                id(image),
                id(caption)
            );
            Error::NotFinite { what }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(items: impl Iterator<Item = usize>) -> Vec<Pair> {
        items.map(|item| Pair { item, caption: 5 * item + item % 3 }).collect()
    }

    #[test]
    fn pairs_that_two_sets_share_come_in_the_same_order() {
        let (many, few) = (pairs(0..300), pairs((0..400).step_by(3)));
        for epoch in 0..3 {
            let (of_many, of_few) = (shuffled(&many, 7, epoch), shuffled(&few, 7, epoch));
            let shared = |order: &[Pair], other: &[Pair]| {
                order.iter().copied().filter(|pair| other.contains(pair)).collect::<Vec<_>>()
            };
            assert_eq!(shared(&of_many, &few), shared(&of_few, &many));
            assert_eq!(shared(&of_many, &few).len(), 100);
            assert_ne!(of_many, many);
            assert_ne!(of_many, shuffled(&many, 7, epoch + 1));
            assert_ne!(of_many, shuffled(&many, 8, epoch));
        }
    }

    #[test]
    fn every_pair_is_anywhere_about_equally_often() {
        let all = pairs(0..8);
        let mut counts = [[0; 8]; 8];
        for seed in 0..800 {
            for (place, pair) in shuffled(&all, seed, 1).iter().enumerate() {
                counts[pair.item][place] += 1;
            }
        }
        // Expected 100 each, standard deviation 9.4.
        assert!(counts.iter().flatten().all(|&count| (55..145).contains(&count)), "{counts:?}");
    }
}
