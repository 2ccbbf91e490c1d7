//! Training: epochs of shuffled batches, a checkpoint after each, the best on dev kept.

use std::time::{Duration, Instant};

use candle_core::Device;
use nextpair_data::dataset::DEV;
use nextpair_data::{Progress, Within, draw};
use serde::{Deserialize, Serialize};

use crate::corpus::{Choice, Corpus, Pair};
use crate::evaluate::{Evaluation, evaluate};
use crate::loss::Violation;
use crate::run::Run;
use crate::step::slope;
use crate::{Adam, Error, Model, Scorer};

/// How a model is trained. The defaults are those of the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Training {
    /// Passes over the pairs.
    pub epochs: usize,
    /// Pairs of a batch.
    pub batch: usize,
    /// The learning rate at first.
    pub rate: f64,
    /// Epochs after which the rate falls to a tenth, again and again.
    pub decay_every: usize,
    /// The margin of the hinges.
    pub margin: f64,
    /// Which hinges count.
    pub violation: Violation,
    /// Gradients are scaled down to this length.
    pub clip: f64,
    /// Epochs at the end after which the model is evaluated on dev; the best is kept.
    pub validate_last: usize,
    /// Images of dev that are used for it.
    pub validate_images: usize,
    /// Which captions of an image make pairs.
    pub captions: Choice,
    /// Of weights, shuffles and draws.
    pub seed: u64,
}

impl Default for Training {
    fn default() -> Self {
        Training {
            epochs: 40,
            batch: 64,
            rate: 2e-4,
            decay_every: 20,
            margin: 0.2,
            violation: Violation::Max,
            clip: 2.0,
            validate_last: 10,
            validate_images: 1000,
            captions: Choice::All,
            seed: 0,
        }
    }
}

impl Training {
    /// Refuses what cannot be meant.
    pub fn check(&self) -> Result<(), Error> {
        for (name, value) in
            [("epochs", self.epochs), ("batch", self.batch), ("decay-every", self.decay_every)]
        {
            if value == 0 {
                return Err(Error::setting(name, "is 0; at least 1 is needed"));
            }
        }
        if self.batch == 1 {
            return Err(Error::setting("batch", "is 1; a pair is told from others of its batch"));
        }
        for (name, value) in [("rate", self.rate), ("clip", self.clip)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::setting(name, format!("{value} is not above 0")));
            }
        }
        if !(self.margin.is_finite() && self.margin >= 0.0) {
            return Err(Error::setting("margin", format!("{} is not at least 0", self.margin)));
        }
        Ok(())
    }

    /// The learning rate of an epoch that counts from 0.
    pub fn rate_at(&self, epoch: usize) -> f64 {
        self.rate * 0.1f64.powi((epoch / self.decay_every) as i32)
    }
}

/// What an epoch did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// From 1.
    pub epoch: usize,
    /// The loss, averaged over the pairs.
    pub loss: f64,
    /// The learning rate.
    pub rate: f64,
    /// The share of scores that had a gradient.
    pub active: f64,
    /// The mean length of the gradients before they were scaled down.
    pub gradient: f64,
    /// Seconds of training.
    pub seconds: f64,
    /// How the model did on dev, where it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dev: Option<Evaluation>,
    /// Seconds of evaluating.
    pub dev_seconds: f64,
}

/// The state is written after an epoch if training has since taken so many times as long as writing
/// did the last time. What a killed process has to repeat ends with the same bytes.
const WORTH_WRITING: u32 = 30;

/// What the draws of a shuffle are for, apart from other draws of the same seed.
const SHUFFLE: u64 = 0x5f;

/// Trains a run until its last epoch, from where it was left. `report` is told of every epoch.
pub fn train(
    run: &Run,
    corpus: &Corpus,
    device: &Device,
    progress: &dyn Progress,
    report: impl FnMut(&Epoch) + Send,
) -> Result<Model, Error> {
    // On a thread of the pool itself: from outside, every parallel piece of work would have to
    // wake the pool first, and one more thread would compete for the cores.
    rayon::scope(|_| train_here(run, corpus, device, progress, report))
}

fn train_here(
    run: &Run,
    corpus: &Corpus,
    device: &Device,
    progress: &dyn Progress,
    mut report: impl FnMut(&Epoch),
) -> Result<Model, Error> {
    let _lock = run.lock()?;
    let spec = run.spec();
    let training = &spec.training;
    let pairs = corpus.steady(|| run.pairs(corpus))?;
    let dev = match training.validate_last {
        0 => Vec::new(),
        _ => corpus.dev_items(training.validate_images),
    };
    corpus.steady(|| corpus.check_numbers(&pairs, &dev, progress))?;
    let model = Model::new(spec.model.clone(), spec.inputs, training.seed, device)?;
    let mut adam = Adam::new(model.weights())?;
    let mut position = run.read_state(model.weights(), &mut adam)?;
    run.check_weights(&mut position)?;
    run.cut_log(position.epochs)?;
    let worth = evaluation_work(&model, corpus, &dev, training.batch)?;
    let left = training.epochs.saturating_sub(position.epochs);
    let evaluations = left.min(training.validate_last) as u64;
    let evaluating: u64 = worth.iter().map(|(_, pairs)| pairs).sum();
    progress.start("training", left as u64 * pairs.len() as u64 + evaluations * evaluating);
    let (mut written, mut writing) = (Instant::now(), Duration::ZERO);
    while position.epochs < training.epochs {
        // Before anything of the epoch is written.
        let mut epoch = corpus.steady(|| {
            one_epoch(&model, &mut adam, corpus, &pairs, run, position.epochs, progress)
        })?;
        position.epochs += 1;
        position.steps = adam.steps().to_vec();
        let asked = training.epochs - position.epochs < training.validate_last;
        if asked && !dev.is_empty() {
            let start = Instant::now();
            let within = Within::new(progress, DEV, &worth);
            epoch.dev = Some(evaluate(&model, corpus, &dev, 1, &within)?);
            epoch.dev_seconds = start.elapsed().as_secs_f64();
        }
        let worth = written.elapsed() > WORTH_WRITING * writing;
        let due = worth || position.epochs == training.epochs;
        let begun = Instant::now();
        let rsum = epoch.dev.map(|dev| dev.rsum);
        // Before the first evaluation the last weights are the ones to use.
        let newest = rsum.is_none() && position.best.is_none();
        if newest || rsum > position.best {
            position.best = rsum;
            position.best_epoch = position.epochs;
            if due || !newest {
                position.weights = Some(run.write_weights(model.weights(), position.epochs)?);
            }
        }
        run.log(&epoch, due)?;
        if due {
            run.write_state(model.weights(), &adam, &position)?;
            (written, writing) = (Instant::now(), begun.elapsed());
        }
        report(&epoch);
    }
    run.model(device)
}

/// About how many pairs of training the phases of an evaluation on dev are worth, so that an ETA
/// can be told.
fn evaluation_work(
    model: &Model,
    corpus: &Corpus,
    dev: &[usize],
    batch: usize,
) -> Result<[(&'static str, u64); 2], Error> {
    let captions: usize = dev.iter().map(|&item| corpus.captions_of(item).count()).sum();
    // A pair of training is scored with those of its batch, and then takes as long again.
    let scored = match model.scorer()? {
        Scorer::Cross(_) => dev.len() * captions / batch / 2,
        _ => 0,
    };
    // A caption is read without gradients, which is a third of the work.
    Ok([("captions", captions as u64 / 3), ("ranks", scored as u64)])
}

/// Says which items a score of the batch is of.
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

/// The pairs of an epoch in their order: a shuffle that depends on seed and epoch alone.
fn shuffled(pairs: &[Pair], seed: u64, epoch: usize) -> Vec<Pair> {
    let draw = |at: usize| draw::draw_of(seed, SHUFFLE + ((epoch as u64) << 8), at as u64);
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by_cached_key(|&at| draw(at));
    order.into_iter().map(|at| pairs[at]).collect()
}

fn one_epoch(
    model: &Model,
    adam: &mut Adam,
    corpus: &Corpus,
    pairs: &[Pair],
    run: &Run,
    number: usize,
    progress: &dyn Progress,
) -> Result<Epoch, Error> {
    let training = &run.spec().training;
    let start = Instant::now();
    let rate = training.rate_at(number);
    let order = shuffled(pairs, training.seed, number);
    let (mut loss, mut active, mut scores, mut lengths, mut steps) = (0.0, 0, 0, 0.0, 0);
    for batch in order.chunks(training.batch) {
        let items: Vec<usize> = batch.iter().map(|pair| pair.item).collect();
        let captions: Vec<usize> = batch.iter().map(|pair| pair.caption).collect();
        let images = corpus.features(&items, model.device())?;
        let texts = corpus.texts(&captions, model.device())?;
        let slope = slope(model, &images, &texts, training.margin, training.violation)
            .map_err(|error| named(error, corpus, batch))?;
        loss += slope.loss;
        active += slope.pairs;
        scores += batch.len() * batch.len();
        let length = adam.step(model.weights(), &slope.gradients, rate, training.clip)?;
        if !length.is_finite() {
            let what = format!("the gradients of epoch {} are not finite", number + 1);
            return Err(Error::NotFinite { what });
        }
        lengths += length;
        steps += 1;
        progress.advance(batch.len() as u64);
    }
    Ok(Epoch {
        epoch: number + 1,
        loss: loss / pairs.len() as f64,
        rate,
        active: active as f64 / scores.max(1) as f64,
        gradient: lengths / f64::from(steps.max(1)),
        seconds: start.elapsed().as_secs_f64(),
        dev: None,
        dev_seconds: 0.0,
    })
}
