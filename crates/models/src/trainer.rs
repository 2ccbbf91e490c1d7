//! Training as the paper states it, a step and an epoch at a time.

use std::time::Instant;

use nextpair_data::{Progress, draw};
use nextpair_kernels::{Adam, Norm, Tensor};

use crate::average::WeightSum;
use crate::batch::{Batch, BatchLoss, Objective, batch_loss};
use crate::corpus::{Corpus, Pair};
use crate::info_nce::{COLDEST, HOTTEST};
use crate::training::{Criterion, Epoch, Training};
use crate::{Error, Mode, Model, Pass};

/// A model, its optimiser and the settings of its training.
pub struct Trainer {
    model: Model,
    adam: Adam,
    training: Training,
    /// The logarithm of the temperature of InfoNCE: a weight if it is learned.
    log_temperature: Tensor,
    /// The sum over the last epochs, if it is wanted.
    sum: Option<WeightSum>,
}

/// Results of a step.
#[derive(Clone, Debug)]
pub struct Step {
    /// The loss before the step, summed over the batch.
    pub loss: f64,
    /// Number of pairs with a gradient.
    pub active: usize,
    /// Norm of the gradients before clipping.
    pub gradient: Norm,
}

/// Purposes of the draws, which keep them apart from other draws of the same seed.
const SHUFFLE: u64 = 0x5f;
const DROPOUT: u64 = 0xd0;

/// The name of a learned temperature in the state, and prefixes of moments and sums.
const TEMPERATURE: &str = "loss.log_temperature";
const FIRST: &str = "adam.first.";
const SECOND: &str = "adam.second.";
const SUM: &str = "sum.";

impl Trainer {
    /// A trainer before the first step.
    ///
    /// # Errors
    /// If the settings of the training are invalid.
    pub fn new(model: Model, training: Training) -> Result<Self, Error> {
        training.check()?;
        let first = vec![training.loss_temperature.ln() as f32];
        let mut log_temperature = Tensor::new(first, &[1], model.device())?;
        if training.learn_temperature {
            log_temperature = log_temperature.into_weight();
        }
        let weights = model.weights().trained().map(|(_, weight)| weight);
        let learned = training.learn_temperature.then_some(&log_temperature);
        let adam = Adam::new(weights.chain(learned))?;
        let sum = (training.average_last > 0).then(|| WeightSum::new(&model)).transpose()?;
        Ok(Trainer { model, adam, training, log_temperature, sum })
    }

    /// The current model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The model, when training is done.
    pub fn into_model(self) -> Model {
        self.model
    }

    /// The model with the mean of the weights after the last epochs, when these are done. `None` if
    /// training does not average.
    ///
    /// # Errors
    /// If the device failed.
    pub fn averaged(&self) -> Result<Option<Model>, Error> {
        let mean = |sum: &WeightSum| sum.mean(&self.model, self.training.average_last);
        self.sum.as_ref().map(mean).transpose()
    }

    /// The temperature of the loss, if it is learned.
    ///
    /// # Errors
    /// If the device failed.
    pub fn temperature(&self) -> Result<Option<f64>, Error> {
        let learned = self.training.learn_temperature;
        let log = learned.then(|| self.log_temperature.to_f64s()).transpose()?;
        Ok(log.map(|log| log[0].exp()))
    }

    /// The tensors that the next step depends on, by the names they are stored under.
    pub(crate) fn state(&self) -> Vec<(String, &Tensor)> {
        let weights = self.model.weights();
        let mut all: Vec<_> = weights.iter().map(|(name, w)| (name.to_owned(), w)).collect();
        if self.training.learn_temperature {
            all.push((TEMPERATURE.to_owned(), &self.log_temperature));
        }
        for (name, moments) in self.optimised().iter().zip(self.adam.moments()) {
            all.push((format!("{FIRST}{name}"), &moments.first));
            all.push((format!("{SECOND}{name}"), &moments.second));
        }
        if let Some(sum) = &self.sum {
            let names = weights.iter().map(|(name, _)| format!("{SUM}{name}"));
            all.extend(names.zip(sum.tensors()));
        }
        all
    }

    /// The same, to resume from a stored state.
    pub(crate) fn state_mut(&mut self) -> Vec<(String, &mut Tensor)> {
        let optimised = self.optimised();
        let sums: Vec<String> =
            self.model.weights().iter().map(|(name, _)| format!("{SUM}{name}")).collect();
        let mut all: Vec<_> = self.model.weights_mut().iter_mut().collect();
        if self.training.learn_temperature {
            all.push((TEMPERATURE.to_owned(), &mut self.log_temperature));
        }
        for (name, moments) in optimised.iter().zip(self.adam.moments_mut()) {
            all.push((format!("{FIRST}{name}"), &mut moments.first));
            all.push((format!("{SECOND}{name}"), &mut moments.second));
        }
        if let Some(sum) = &mut self.sum {
            all.extend(sums.into_iter().zip(sum.tensors_mut()));
        }
        all
    }

    /// The names of what the optimiser changes, in its order.
    fn optimised(&self) -> Vec<String> {
        let trained = self.model.weights().trained().map(|(name, _)| name.to_owned());
        let learned = self.training.learn_temperature.then(|| TEMPERATURE.to_owned());
        trained.chain(learned).collect()
    }

    /// How many steps the optimiser has taken, for each of its weights.
    pub(crate) fn steps(&self) -> Vec<u32> {
        self.adam.moments().iter().map(|moments| moments.steps).collect()
    }

    /// The same, to resume from a stored state.
    pub(crate) fn set_steps(&mut self, steps: &[u32]) {
        self.adam.moments_mut().iter_mut().zip(steps).for_each(|(m, &steps)| m.steps = steps);
    }

    /// One optimiser step on a batch, with learning rate `rate`. Dropout draws from `seed`, which is
    /// that of the epoch, and from the pairs of the batch.
    ///
    /// # Errors
    /// If the batch does not match the model, or a score is NaN or infinite.
    pub fn step(&mut self, batch: &Batch, rate: f64, seed: u64) -> Result<Step, Error> {
        let Training { loss, margin, violation, clip, .. } = self.training;
        let objective = match loss {
            Criterion::Hinge => Objective::Hinge { margin, violation },
            Criterion::InfoNce => Objective::InfoNce { log_temperature: &self.log_temperature },
        };
        let pass = Pass::new(self.model.weights(), Mode::Train(seed))
            .with_dropout(self.training.dropout(), &batch.pairs);
        let BatchLoss { loss, active, gradients } =
            batch_loss(&self.model, &pass, batch, objective)?;
        let observed = pass.into_observed();
        // Before the weights change, so that a refused step changes nothing.
        observed
            .iter()
            .try_for_each(|(buffer, value)| self.model.weights().check_buffer(buffer, value))?;
        let weights = self.model.weights_mut();
        let learned = self.training.learn_temperature.then_some(&mut self.log_temperature);
        let all = weights.trained_mut().chain(learned);
        let gradient = self.adam.step(all, &gradients, rate, clip)?;
        observed.into_iter().try_for_each(|(buffer, value)| weights.set(&buffer, value))?;
        if self.training.learn_temperature {
            self.bound_temperature()?;
        }
        Ok(Step { loss, active, gradient })
    }

    /// Keeps a learned temperature within its bounds.
    fn bound_temperature(&mut self) -> Result<(), Error> {
        let log = self.log_temperature.to_f32s()?[0];
        let bounded = log.clamp(COLDEST.ln() as f32, HOTTEST.ln() as f32);
        if bounded != log {
            let device = self.model.device();
            self.log_temperature = Tensor::new(vec![bounded], &[1], device)?.into_weight();
        }
        Ok(())
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
        let (mut loss, mut active, mut scores, mut norms) = (0.0, 0, 0, Vec::new());
        for pairs in order.chunks(self.training.batch) {
            let items: Vec<usize> = pairs.iter().map(|pair| pair.item).collect();
            let captions: Vec<usize> = pairs.iter().map(|pair| pair.caption).collect();
            let images = corpus.features(&items, device)?;
            let texts = corpus.texts(&captions, device)?;
            let batch = Batch { images, texts, pairs: pairs.to_vec() };
            let step = self.step(&batch, rate, drawn);
            let step = step.map_err(|error| named(error, corpus, pairs, self.training.rate))?;
            loss += step.loss;
            active += step.active;
            scores += pairs.len() * pairs.len();
            norms.push(step.gradient);
            progress.advance(pairs.len() as u64);
        }
        // Read after the last step: a GPU would have to wait in between.
        let norms = norms.iter().map(Norm::value).collect::<Result<Vec<f64>, _>>()?;
        if norms.iter().any(|norm| !norm.is_finite()) {
            let what = format!(
                "the loss went to infinity: the gradients of epoch {} are not finite; take a \
                 smaller rate than {}",
                number + 1,
                self.training.rate
            );
            return Err(Error::NotFinite { what });
        }
        if let Some(sum) = self.sum.as_mut().filter(|_| self.training.averages(number)) {
            sum.add(&self.model)?;
        }
        Ok(Epoch {
            epoch: number + 1,
            loss: loss / pairs.len() as f64,
            rate,
            active: active as f64 / scores.max(1) as f64,
            temperature: self.temperature()?,
            gradient: norms.iter().sum::<f64>() / norms.len().max(1) as f64,
            seconds: start.elapsed().as_secs_f64(),
            dev: None,
            dev_seconds: 0.0,
        })
    }
}

/// The pairs in the order of an epoch: a shuffle by a draw for each pair, from the seed, the epoch,
/// the image and the caption. So pairs that two sets share come in the same order.
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
fn named(error: Error, corpus: &Corpus, batch: &[Pair], rate: f64) -> Error {
    match error {
        Error::Score { image, caption, value } => {
            let id = |at: usize| corpus.dataset().items().get(batch[at].item).id;
            let what = format!(
                "the loss went to infinity: the score of the image of item {} and a caption of item {} \
                 is {value}; take a smaller rate than {rate}, and look for rows of features that are \
                 all zeros",
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
