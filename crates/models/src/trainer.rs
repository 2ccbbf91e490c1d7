//! Training as the paper states it, a step and an epoch at a time.

use std::time::Instant;

use nextpair_data::{Progress, draw};
use nextpair_kernels::{Device, Norm, Optimiser, Tensor};

use crate::average::WeightSum;
use crate::batch::{Batch, Losses, Objective, batch_loss};
use crate::corpus::{Corpus, Pair};
use crate::folder::State;
use crate::info_nce::{COLDEST, HOTTEST};
use crate::members::part;
use crate::train::Member;
use crate::training::{Criterion, Epoch, Reduction, Training};
use crate::{Error, Mode, Model, Pass, Texts};

/// An ensemble of models that train together, each as it would alone, its optimiser and the settings of
/// its training. Every tensor of several members has a leading axis of them; most ensembles have one.
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

/// Results of a step. On a GPU nobody has waited for them.
#[derive(Clone, Debug)]
pub struct Step {
    /// The losses of the batch before the step.
    pub losses: Losses,
    /// Norms of the gradients of every member before clipping.
    pub gradient: Norm,
}

/// Purposes of the draws, which keep them apart from other draws of the same seed.
const SHUFFLE: u64 = 0x5f;
const DROPOUT: u64 = 0xd0;

/// The name of a learned temperature in the state, and the prefix of sums.
const TEMPERATURE: &str = "loss.log_temperature";
const SUM: &str = "sum.";

impl Trainer {
    /// A trainer of one model before the first step.
    ///
    /// # Errors
    /// If the settings of the training are invalid, or speak of weights that the model does not have.
    pub fn new(model: Model, training: Training) -> Result<Self, Error> {
        let seeds = vec![training.seed];
        Self::of_ensemble(model, training, seeds)
    }

    /// A trainer before the first step, of models that are one, with a seed for each.
    pub(crate) fn of_ensemble(
        mut model: Model,
        training: Training,
        seeds: Vec<u64>,
    ) -> Result<Self, Error> {
        training.check()?;
        let first = vec![training.loss_temperature.ln() as f32; seeds.len()];
        let shape = [seeds.len(), 1];
        let shape = &shape[usize::from(seeds.len() == 1)..];
        let mut log_temperature = Tensor::new(first, shape, model.device())?;
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
        let optimiser = Optimiser::new(training.method(), weights.chain(learned), seeds.len())?
            .with_factors(factors.into_iter().map(|(_, factor)| factor).collect())?;
        let sum = (training.average_last > 0).then(|| WeightSum::new(&model)).transpose()?;
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

    /// The temperature of every member, if it is learned.
    ///
    /// # Errors
    /// If the device failed.
    pub fn temperatures(&self) -> Result<Vec<Option<f64>>, Error> {
        if !self.training.learn_temperature {
            return Ok(vec![None; self.seeds.len()]);
        }
        Ok(self.log_temperature.to_f64s()?.into_iter().map(|log| Some(log.exp())).collect())
    }

    /// The tensors that the next step of a member depends on, by the names they are stored under.
    pub(crate) fn state(&self, member: usize) -> Result<Vec<(String, Tensor)>, Error> {
        let own = |(name, tensor)| Ok((name, part(tensor, member, self.seeds.len())?));
        self.tensors().into_iter().map(own).collect()
    }

    /// The shapes of the tensors of a member, by the names they are stored under.
    pub(crate) fn shapes(&self) -> Vec<(String, &[usize])> {
        let axis = usize::from(self.seeds.len() > 1);
        self.tensors().into_iter().map(|(name, tensor)| (name, &tensor.shape()[axis..])).collect()
    }

    /// Goes on from states of these [shapes](Self::shapes), one of each member, whose weights have taken
    /// so many steps.
    pub(crate) fn resume(&mut self, mut states: Vec<State>, steps: &[u32]) -> Result<(), Error> {
        for (name, tensor) in self.tensors_mut() {
            let values = states.iter_mut().map(|state| state.remove(&name).unwrap_or_default());
            let values: Vec<Vec<f32>> = values.collect();
            let found = Tensor::new(values.concat(), tensor.shape(), tensor.device())?;
            *tensor = if tensor.is_tracked() { found.into_weight() } else { found };
        }
        let moments = self.optimiser.moments_mut().iter_mut();
        moments.zip(steps).for_each(|(moments, &steps)| moments.steps = steps);
        Ok(())
    }

    /// The tensors that the next step depends on, by name.
    fn tensors(&self) -> Vec<(String, &Tensor)> {
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

    /// The same, for changes.
    fn tensors_mut(&mut self) -> Vec<(String, &mut Tensor)> {
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

    /// One step of every member on its part of a batch, as in epoch `epoch`, which counts from 0. Returns
    /// the losses before it; on a GPU, waits for nothing.
    ///
    /// # Errors
    /// If the batch does not match the model, or a score is NaN or infinite: on a GPU this shows when the
    /// losses are read.
    pub fn step(&mut self, batch: &Batch, epoch: usize) -> Result<Step, Error> {
        // 1. What this epoch asks for: its loss, its rate, its draws.
        let Training { loss, margin, reduction, clip, learn_temperature, .. } = self.training;
        let violation = self.training.violation_at(epoch);
        let objective = match loss {
            Criterion::Hinge => Objective::Hinge { margin, violation, reduction },
            Criterion::InfoNce => {
                Objective::InfoNce { log_temperature: &self.log_temperature, reduction }
            }
            Criterion::CrossEntropy => Objective::CrossEntropy { violation },
        };
        let rate = self.training.rate_at(epoch);
        let drawn = |&seed: &u64| draw::draw_of(seed, DROPOUT + ((epoch as u64) << 8), 0);
        let seeds: Vec<u64> = self.seeds.iter().map(drawn).collect();
        let pass = Pass::new(self.model.weights(), Mode::Train(seeds[0]))
            .with_dropout(self.training.dropout(), seeds, &batch.pairs)
            .with_regions(batch.regions.as_deref());

        // 2. Encode, score, and go back from the losses to the weights.
        let (losses, gradients) = batch_loss(&self.model, &pass, batch, objective)?;

        // 3. Look at new values of buffers before the weights change: a refused step changes nothing.
        let observed = pass.into_observed();
        observed
            .iter()
            .try_for_each(|(buffer, value)| self.model.weights().check_buffer(buffer, value))?;

        // 4. Clip the gradients of each member, and move the weights along them.
        let weights = self.model.weights_mut();
        let temperature = learn_temperature.then_some(&mut self.log_temperature);
        let all = weights.trained_mut().chain(temperature);
        let gradient = self.optimiser.step(all, &gradients, rate, clip)?;
        observed.into_iter().try_for_each(|(buffer, value)| weights.set(&buffer, value))?;
        if learn_temperature {
            let bounds = [COLDEST, HOTTEST].map(|temperature| temperature.ln() as f32);
            self.log_temperature.bound(bounds[0], bounds[1])?;
        }
        Ok(Step { losses, gradient })
    }

    /// One pass of every member over its pairs, equally many of each, in the order of epoch `number`,
    /// which counts from 0.
    ///
    /// # Errors
    /// Those of a step, with the items concerned.
    pub fn epoch(
        &mut self,
        members: &[Member<'_>],
        number: usize,
        progress: &dyn Progress,
    ) -> Result<Vec<Epoch>, Error> {
        let start = Instant::now();
        let Training { batch: size, drop_last, reduction, rate, .. } = self.training;
        let orders = members.iter().zip(&self.seeds);
        let orders: Vec<Vec<Pair>> =
            orders.map(|(member, &seed)| shuffled(member.pairs, seed, number)).collect();
        let (corpus, pairs) = (members[0].corpus, orders[0].len());
        let (mut taken, mut seen, mut scores) = (Vec::new(), 0, 0);
        for first in (0..pairs).step_by(size) {
            if progress.stopped() {
                return Err(nextpair_engine::Error::Stopped.into());
            }
            let end = (first + size).min(pairs);
            if drop_last && first > 0 && end - first < size {
                progress.advance((members.len() * (end - first)) as u64);
                break;
            }
            let parts: Vec<&[Pair]> = orders.iter().map(|order| &order[first..end]).collect();
            let batch = joined(members, &parts, self.model.device())?;
            let step = self.step(&batch, number);
            let step = step.map_err(|error| named(error, corpus, &batch.pairs, rate))?;
            progress.advance(batch.pairs.len() as u64);
            (seen, scores) = (end, scores + (end - first) * (end - first));
            taken.push((step, batch.pairs));
        }
        // Read after the last step: a GPU would have to wait in between.
        let epoch = number + 1;
        let none = Epoch { epoch, rate: self.training.rate_at(number), ..Epoch::default() };
        let mut epochs = vec![none; members.len()];
        for (step, pairs) in &taken {
            let losses = step.losses.read();
            let losses = losses.map_err(|error| named(error, corpus, pairs, rate))?;
            // A mean counts for all pairs of its batch.
            let weight = match reduction {
                Reduction::Sum => 1.0,
                Reduction::Mean => (pairs.len() / members.len()) as f64,
            };
            for ((epoch, own), norm) in epochs.iter_mut().zip(losses).zip(step.gradient.values()?) {
                epoch.loss += weight * own.loss;
                epoch.auxiliary += weight * own.auxiliary;
                epoch.active += own.active as f64;
                epoch.gradient += norm;
            }
        }
        if epochs.iter().any(|epoch| !epoch.gradient.is_finite()) {
            let what = format!(
                "the loss went to infinity: the gradients of epoch {epoch} are not finite; take a \
                 smaller rate than {rate}"
            );
            return Err(Error::NotFinite { what });
        }
        if let Some(sum) = self.sum.as_mut().filter(|_| self.training.averages(number)) {
            sum.add(&self.model)?;
        }
        for (epoch, temperature) in epochs.iter_mut().zip(self.temperatures()?) {
            epoch.loss /= seen as f64;
            epoch.auxiliary /= seen as f64;
            epoch.active /= scores.max(1) as f64;
            epoch.gradient /= taken.len().max(1) as f64;
            epoch.temperature = temperature;
            // Members share the time of their steps.
            epoch.seconds = start.elapsed().as_secs_f64() / members.len() as f64;
        }
        Ok(epochs)
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
fn joined(members: &[Member<'_>], parts: &[&[Pair]], device: Device) -> Result<Batch, Error> {
    let (corpus, pairs) = (members[0].corpus, parts.concat());
    let items: Vec<usize> = pairs.iter().map(|pair| pair.item).collect();
    let images = corpus.features(&items, device)?;
    let captions = |part: &[Pair]| part.iter().map(|pair| pair.caption).collect::<Vec<usize>>();
    let texts = if corpus.reads_words() {
        let own = members.iter().zip(parts);
        let own = own.map(|(member, part)| member.corpus.texts(&captions(part), device));
        Texts::joined(own.collect::<Result<Vec<_>, Error>>()?)?
    } else {
        corpus.texts(&captions(&pairs), device)?
    };
    let regions = corpus.filled_regions(&items, device);
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
