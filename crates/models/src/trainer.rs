//! Training as the paper states it, a step and an epoch at a time.

mod members;

use std::time::Instant;

use nextpair_data::{Progress, draw};
use nextpair_kernels::ops::{Counted, Tally};
use nextpair_kernels::{Device, Norm, Optimiser, Tensor};

use crate::average::WeightSum;
use crate::batch::{Batch, MemberLosses, Objective, auxiliary_value, bad_score, member_losses};
use crate::corpus::{Corpus, Pair};
use crate::info_nce::{COLDEST, HOTTEST};
use crate::training::{Criterion, Epoch, Reduction, Training};
use crate::{Error, Mode, Model, Pass, Texts, Violation};

/// A model, its optimiser and the settings of its training; or several models that train together, each
/// as it would alone, with a leading axis of members in every tensor.
pub struct Trainer {
    model: Model,
    optimiser: Optimiser,
    /// The settings of the first member. Others differ in their seed alone.
    training: Training,
    /// The seed of every member.
    seeds: Vec<u64>,
    /// The logarithm of the temperature of InfoNCE, of every member: a weight if it is learned.
    log_temperature: Tensor,
    /// The sum over the last epochs, if it is wanted.
    sum: Option<WeightSum>,
}

/// What a member learns from.
#[derive(Clone, Copy)]
pub(crate) struct Lesson<'a> {
    pub(crate) corpus: &'a Corpus,
    pub(crate) pairs: &'a [Pair],
}

/// Results of a step of every member, which nobody has waited for.
struct Taken {
    tally: Tally,
    /// The factor of its losses.
    factor: f64,
    /// The loss of the architecture, if it has one.
    auxiliary: Option<Tensor>,
    gradient: Norm,
}

/// Results of a step.
#[derive(Clone, Debug)]
pub struct Step {
    /// The loss of the batch before the step.
    pub loss: f64,
    /// Number of pairs with a gradient.
    pub active: usize,
    /// Norm of the gradients before clipping.
    pub gradient: Norm,
}

/// Purposes of the draws, which keep them apart from other draws of the same seed.
const SHUFFLE: u64 = 0x5f;
const DROPOUT: u64 = 0xd0;

/// The name of a learned temperature in the state, and the prefix of sums.
const TEMPERATURE: &str = "loss.log_temperature";
const SUM: &str = "sum.";

impl Trainer {
    /// A trainer before the first step.
    ///
    /// # Errors
    /// If the settings of the training are invalid, or speak of weights that the model does not have.
    pub fn new(mut model: Model, training: Training) -> Result<Self, Error> {
        training.check()?;
        let first = vec![training.loss_temperature.ln() as f32];
        let mut log_temperature = Tensor::new(first, &[1], model.device())?;
        if training.learn_temperature {
            log_temperature = log_temperature.into_weight();
        }
        let mut factors = rate_factors(&model, &training)?;
        for (name, _) in factors.iter().filter(|(_, factor)| *factor == 0.0) {
            model.weights_mut().freeze(name)?;
        }
        let weights = model.weights().trained().map(|(_, weight)| weight);
        let learned = training.learn_temperature.then_some(&log_temperature);
        factors.extend(learned.map(|_| (TEMPERATURE.to_owned(), 1.0)));
        let optimiser = Optimiser::new(training.method(), weights.chain(learned))?
            .with_factors(factors.into_iter().map(|(_, factor)| factor).collect())?;
        let sum = (training.average_last > 0).then(|| WeightSum::new(&model)).transpose()?;
        let seeds = vec![training.seed];
        Ok(Trainer { model, optimiser, training, seeds, log_temperature, sum })
    }

    /// The current model.
    pub fn model(&self) -> &Model {
        &self.model
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
        Ok(self.temperatures()?[0])
    }

    /// The temperature of every member, if it is learned.
    fn temperatures(&self) -> Result<Vec<Option<f64>>, Error> {
        if !self.training.learn_temperature {
            return Ok(vec![None; self.seeds.len()]);
        }
        Ok(self.log_temperature.to_f64s()?.into_iter().map(|log| Some(log.exp())).collect())
    }

    /// The tensors that the next step depends on, by the names they are stored under. They are those of a
    /// single model.
    pub(crate) fn state(&self) -> Vec<(String, &Tensor)> {
        let weights = self.model.weights();
        let mut all: Vec<_> = weights.iter().map(|(name, w)| (name.to_owned(), w)).collect();
        if self.training.learn_temperature {
            all.push((TEMPERATURE.to_owned(), &self.log_temperature));
        }
        let kinds = self.optimiser.method().moments();
        for (name, moments) in self.optimised().iter().zip(self.optimiser.moments()) {
            let names = kinds.iter().map(|kind| format!("{kind}.{name}"));
            all.extend(names.zip(&moments.kept));
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
        let kinds = self.optimiser.method().moments();
        for (name, moments) in optimised.iter().zip(self.optimiser.moments_mut()) {
            let names = kinds.iter().map(|kind| format!("{kind}.{name}"));
            all.extend(names.zip(&mut moments.kept));
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
        self.optimiser.moments().iter().map(|moments| moments.steps).collect()
    }

    /// The same, to resume from a stored state.
    pub(crate) fn set_steps(&mut self, steps: &[u32]) {
        let moments = self.optimiser.moments_mut().iter_mut();
        moments.zip(steps).for_each(|(moments, &steps)| moments.steps = steps);
    }

    /// One optimiser step on a batch, with learning rate `rate`. Dropout draws from `seed`, which is
    /// that of the epoch, and from the pairs of the batch. The results are those of the first member.
    ///
    /// # Errors
    /// If the batch does not match the model, or a score is NaN or infinite.
    pub fn step(&mut self, batch: &Batch, rate: f64, seed: u64) -> Result<Step, Error> {
        let violation = self.training.violation;
        let Taken { tally, factor, auxiliary, gradient } =
            self.take(batch, rate, violation, &[seed])?;
        let counted = tally.read()?;
        match bad_score(&counted, batch.pairs.len()) {
            Some(error) => Err(error),
            None => {
                let Counted { loss, active, .. } = counted[0];
                let auxiliary = auxiliary_value(auxiliary.as_ref())?;
                Ok(Step { loss: factor * loss + auxiliary, active, gradient })
            }
        }
    }

    /// One step of every member, with the seed of its epoch. On a GPU, waits for nothing.
    fn take(
        &mut self,
        batch: &Batch,
        rate: f64,
        violation: Violation,
        seeds: &[u64],
    ) -> Result<Taken, Error> {
        let Training { loss, margin, reduction, clip, .. } = self.training;
        let objective = match loss {
            Criterion::Hinge => Objective::Hinge { margin, violation, reduction },
            Criterion::InfoNce => {
                Objective::InfoNce { log_temperature: &self.log_temperature, reduction }
            }
            Criterion::CrossEntropy => Objective::CrossEntropy { violation },
        };
        let pass = Pass::new(self.model.weights(), Mode::Train(seeds[0]))
            .with_dropout(self.training.dropout(), seeds.to_vec(), &batch.pairs)
            .with_regions(batch.regions.as_deref());
        let MemberLosses { tally, factor, auxiliary, gradients } =
            member_losses(&self.model, &pass, batch, objective)?;
        let observed = pass.into_observed();
        // Before the weights change, so that a refused step changes nothing.
        observed
            .iter()
            .try_for_each(|(buffer, value)| self.model.weights().check_buffer(buffer, value))?;
        let weights = self.model.weights_mut();
        let learned = self.training.learn_temperature.then_some(&mut self.log_temperature);
        let all = weights.trained_mut().chain(learned);
        let gradient = self.optimiser.step(all, &gradients, rate, clip)?;
        observed.into_iter().try_for_each(|(buffer, value)| weights.set(&buffer, value))?;
        if self.training.learn_temperature {
            let bounds = [COLDEST, HOTTEST].map(|temperature| temperature.ln() as f32);
            self.log_temperature.bound(bounds[0], bounds[1])?;
        }
        Ok(Taken { tally, factor, auxiliary, gradient })
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
        let lesson = Lesson { corpus, pairs };
        let found = self.epoch_of_each(&vec![lesson; self.seeds.len()], number, progress)?;
        Ok(found.into_iter().next().expect("one for each member"))
    }

    /// One pass of every member over its pairs, equally many of each.
    ///
    /// # Errors
    /// Those of a step, with the items concerned.
    pub(crate) fn epoch_of_each(
        &mut self,
        lessons: &[Lesson<'_>],
        number: usize,
        progress: &dyn Progress,
    ) -> Result<Vec<Epoch>, Error> {
        let start = Instant::now();
        let (members, rate) = (self.seeds.len(), self.training.rate_at(number));
        let each = |lesson: (&Lesson<'_>, &u64)| shuffled(lesson.0.pairs, *lesson.1, number);
        let orders: Vec<Vec<Pair>> = lessons.iter().zip(&self.seeds).map(each).collect();
        let drawn = |&seed: &u64| draw::draw_of(seed, DROPOUT + ((number as u64) << 8), 0);
        let drawn: Vec<u64> = self.seeds.iter().map(drawn).collect();
        let violation = self.training.violation_at(number);
        let (mut taken, mut scores, mut seen) = (Vec::new(), 0, 0);
        for first in (0..orders[0].len()).step_by(self.training.batch) {
            if progress.stopped() {
                return Err(nextpair_engine::Error::Stopped.into());
            }
            let end = (first + self.training.batch).min(orders[0].len());
            if self.training.drop_last && first > 0 && end - first < self.training.batch {
                progress.advance((members * (end - first)) as u64);
                break;
            }
            seen = end;
            let parts: Vec<&[Pair]> = orders.iter().map(|order| &order[first..end]).collect();
            let batch = together(lessons, &parts, self.model.device())?;
            let step = self.take(&batch, rate, violation, &drawn);
            let named = |error| named(error, lessons[0].corpus, &batch.pairs, self.training.rate);
            let step = step.map_err(named)?;
            scores += (end - first) * (end - first);
            progress.advance(batch.pairs.len() as u64);
            taken.push((step, batch.pairs));
        }
        // Read after the last step: a GPU would have to wait in between.
        let mut sums = vec![(0.0, 0, 0.0); members];
        let mut auxiliary = 0.0;
        for (step, pairs) in &taken {
            let counted = step.tally.read()?;
            if let Some(error) = bad_score(&counted, pairs.len() / members) {
                return Err(named(error, lessons[0].corpus, pairs, self.training.rate));
            }
            let norms = step.gradient.values()?;
            // A mean counts for all pairs of its batch.
            let weight = match self.training.reduction {
                Reduction::Sum => 1.0,
                Reduction::Mean => (pairs.len() / members) as f64,
            };
            let own_loss = auxiliary_value(step.auxiliary.as_ref())?;
            auxiliary += weight * own_loss;
            for ((sum, own), norm) in sums.iter_mut().zip(&counted).zip(norms) {
                let loss = weight * (step.factor * own.loss + own_loss);
                *sum = (sum.0 + loss, sum.1 + own.active, sum.2 + norm);
            }
        }
        if sums.iter().any(|(_, _, norms)| !norms.is_finite()) {
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
        let temperatures = self.temperatures()?;
        // Members share the time of their steps.
        let seconds = start.elapsed().as_secs_f64() / members as f64;
        let epoch =
            |((loss, active, norms), temperature): ((f64, usize, f64), Option<f64>)| Epoch {
                epoch: number + 1,
                loss: loss / seen as f64,
                auxiliary: auxiliary / seen as f64,
                rate,
                active: active as f64 / scores.max(1) as f64,
                temperature,
                gradient: norms / taken.len().max(1) as f64,
                seconds,
                dev: None,
                dev_seconds: 0.0,
            };
        Ok(sums.into_iter().zip(temperatures).map(epoch).collect())
    }
}

/// The factor of the rate of every trained weight, by its name.
fn rate_factors(model: &Model, training: &Training) -> Result<Vec<(String, f64)>, Error> {
    let names: Vec<&str> = model.weights().trained().map(|(name, _)| name).collect();
    let unknown = |start: &&String| !names.iter().any(|name| name.starts_with(*start));
    if let Some(start) = training.rate_factors.keys().find(unknown) {
        let what = format!("no trained weight has a name that begins with '{start}'");
        return Err(Error::setting("rate-factors", what));
    }
    Ok(names.iter().map(|name| ((*name).to_owned(), training.rate_factor(name))).collect())
}

/// The batches of all members, one after the other. All corpora have the same features.
fn together(lessons: &[Lesson<'_>], parts: &[&[Pair]], device: Device) -> Result<Batch, Error> {
    let pairs = parts.concat();
    let items: Vec<usize> = pairs.iter().map(|pair| pair.item).collect();
    let images = lessons[0].corpus.features(&items, device)?;
    let captions = |part: &[Pair]| part.iter().map(|pair| pair.caption).collect::<Vec<usize>>();
    let texts = if lessons[0].corpus.reads_words() {
        let own = lessons.iter().zip(parts);
        let own = own.map(|(lesson, part)| lesson.corpus.texts(&captions(part), device));
        Texts::joined(own.collect::<Result<Vec<_>, Error>>()?)?
    } else {
        lessons[0].corpus.texts(&captions(&pairs), device)?
    };
    let regions = lessons[0].corpus.filled_regions(&items, device);
    Ok(Batch { images, texts, pairs, regions })
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
