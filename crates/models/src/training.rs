//! Settings of training, and results of an epoch.

use std::collections::BTreeMap;

use nextpair_kernels::Method;
use serde::{Deserialize, Serialize};

use crate::corpus::Choice;
use crate::evaluate::Evaluation;
use crate::info_nce::{COLDEST, HOTTEST};
use crate::loss::Violation;
use crate::{Dropout, Error};

/// The kind of loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Criterion {
    /// Hinges, as in the paper.
    #[default]
    Hinge,
    /// InfoNCE, in both directions.
    InfoNce,
    /// Cross entropy of scores that are probabilities.
    CrossEntropy,
}

/// Whether the losses of a batch are added up or averaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reduction {
    /// Their sum, as in the paper.
    #[default]
    Sum,
    /// Their mean: over the pairs, or over all scores if all hinges count.
    Mean,
}

/// How weights follow their gradients; see [`Method`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimiserName {
    /// Adam.
    #[default]
    Adam,
    /// Adam with decoupled weight decay.
    Adamw,
    /// Adam with the largest second moment so far.
    Amsgrad,
    /// Gradient descent with Nesterov's momentum.
    Sgd,
}

/// Settings of training. The defaults are those of the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Training {
    /// Number of passes over the pairs.
    pub epochs: usize,
    /// Pairs per batch.
    pub batch: usize,
    /// Initial learning rate.
    pub rate: f64,
    /// Epochs after which the learning rate falls, repeatedly.
    pub decay_every: usize,
    /// What the learning rate is multiplied by then.
    pub decay_factor: f64,
    /// The optimiser.
    pub optimiser: OptimiserName,
    /// Decay of weights: they shrink by it times the rate in every step. AdamW and SGD have one.
    pub weight_decay: f64,
    /// Factors of the learning rate for weights whose names begin so, such as `gru.`; the longest
    /// beginning counts. 0 leaves weights as they are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rate_factors: BTreeMap<String, f64>,
    /// The kind of loss.
    pub loss: Criterion,
    /// Margin of the hinges.
    pub margin: f64,
    /// Which hinges count.
    pub violation: Violation,
    /// First epochs in which all hinges count, whatever comes later.
    pub sum_epochs: usize,
    /// Whether losses are added up or averaged.
    pub reduction: Reduction,
    /// Whether the last batch of an epoch is left out if it has fewer pairs than the others.
    pub drop_last: bool,
    /// Temperature of InfoNCE, from 0.01 to 1; the first one if it is learned.
    pub loss_temperature: f64,
    /// Whether the temperature of InfoNCE is learned.
    pub learn_temperature: bool,
    /// Maximum norm of the gradients; larger ones are scaled down.
    pub clip: f64,
    /// Share of the features and of the numbers of word vectors that is dropped in training.
    pub dropout_inputs: f64,
    /// Share of the hidden units and of the dimensions of the joint space that is dropped.
    pub dropout_states: f64,
    /// Last epochs over which weights are averaged, and the mean is kept; 0 for none.
    pub average_last: usize,
    /// Last epochs after which the model is evaluated on dev; the best is kept. If weights are
    /// averaged, only their mean is evaluated, unless this is 0.
    pub validate_last: usize,
    /// Maximum number of dev images for that.
    pub validate_images: usize,
    /// Which captions of an image make pairs.
    pub captions: Choice,
    /// Seed of weights, shuffles and draws.
    pub seed: u64,
}

/// What the learning rate falls to by default.
const TENTH: f64 = 0.1;
/// Most epochs, and most pairs of a batch: a training with more would not end.
const MOST: usize = 1_000_000;

/// The temperature that CLIP begins with.
const DEFAULT_TEMPERATURE: f64 = 0.07;

impl Default for Training {
    fn default() -> Self {
        Training {
            epochs: 40,
            batch: 64,
            rate: 2e-4,
            decay_every: 20,
            decay_factor: TENTH,
            optimiser: OptimiserName::Adam,
            weight_decay: 0.0,
            rate_factors: BTreeMap::new(),
            loss: Criterion::Hinge,
            margin: 0.2,
            violation: Violation::Max,
            sum_epochs: 0,
            reduction: Reduction::Sum,
            drop_last: false,
            loss_temperature: DEFAULT_TEMPERATURE,
            learn_temperature: false,
            clip: 2.0,
            dropout_inputs: 0.0,
            dropout_states: 0.0,
            average_last: 0,
            validate_last: 10,
            validate_images: 1000,
            captions: Choice::All,
            seed: 0,
        }
    }
}

impl Training {
    /// Rejects invalid settings.
    pub fn check(&self) -> Result<(), Error> {
        for (name, value) in
            [("epochs", self.epochs), ("batch", self.batch), ("decay-every", self.decay_every)]
        {
            if value == 0 {
                return Err(Error::setting(name, "is 0; at least 1 is needed"));
            }
        }
        for (name, value) in [("epochs", self.epochs), ("batch", self.batch)] {
            if value > MOST {
                return Err(Error::setting(
                    name,
                    format!("is {value}; at most {MOST} are accepted"),
                ));
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
        if self.average_last > self.epochs {
            let what = format!("{} is more than the {} epochs", self.average_last, self.epochs);
            return Err(Error::setting("average-last", what));
        }
        self.check_optimiser()?;
        self.check_temperature()?;
        let Dropout { inputs, states } = self.dropout();
        for (name, share) in [("dropout-inputs", inputs), ("dropout-states", states)] {
            if !(0.0..1.0).contains(&share) {
                return Err(Error::setting(name, format!("{share} is not from 0 to below 1")));
            }
        }
        Ok(())
    }

    fn check_optimiser(&self) -> Result<(), Error> {
        let (decay, factor) = (self.weight_decay, self.decay_factor);
        if !(decay.is_finite() && decay >= 0.0) {
            return Err(Error::setting("weight-decay", format!("{decay} is not at least 0")));
        }
        let decays = matches!(self.optimiser, OptimiserName::Adamw | OptimiserName::Sgd);
        if decay > 0.0 && !decays {
            let what = "the optimiser has none; adamw and sgd have one";
            return Err(Error::setting("weight-decay", what));
        }
        if !(factor > 0.0 && factor <= 1.0) {
            let what = format!("{factor} is not above 0 and at most 1");
            return Err(Error::setting("decay-factor", what));
        }
        match self.rate_factors.iter().find(|(_, factor)| !(factor.is_finite() && **factor >= 0.0))
        {
            Some((name, factor)) => {
                let what = format!("{factor} of {name} is not at least 0");
                Err(Error::setting("rate-factors", what))
            }
            None => Ok(()),
        }
    }

    /// The same settings with a loss. Another loss than before has the default temperature.
    #[must_use]
    pub fn with_loss(self, loss: Criterion) -> Self {
        if loss == self.loss {
            return self;
        }
        let Training { loss_temperature, learn_temperature, .. } = Training::default();
        Training { loss, loss_temperature, learn_temperature, ..self }
    }

    /// How weights follow their gradients.
    pub fn method(&self) -> Method {
        let decay = self.weight_decay;
        match self.optimiser {
            OptimiserName::Adam => Method::Adam,
            OptimiserName::Adamw => Method::AdamW { decay },
            OptimiserName::Amsgrad => Method::AmsGrad,
            OptimiserName::Sgd => Method::Sgd { decay },
        }
    }

    /// The factor of the rate of a weight.
    pub(crate) fn rate_factor(&self, weight: &str) -> f64 {
        let known = self.rate_factors.iter().filter(|(start, _)| weight.starts_with(*start));
        known.max_by_key(|(start, _)| start.len()).map_or(1.0, |(_, factor)| *factor)
    }

    /// Which hinges count in an epoch, counted from 0.
    pub fn violation_at(&self, epoch: usize) -> Violation {
        if epoch < self.sum_epochs { Violation::Sum } else { self.violation }
    }

    fn check_temperature(&self) -> Result<(), Error> {
        let (name, temperature) = ("loss-temperature", self.loss_temperature);
        if !(COLDEST..=HOTTEST).contains(&temperature) {
            let what = format!("{temperature} is not from {COLDEST} to {HOTTEST}");
            return Err(Error::setting(name, what));
        }
        let without = match self.loss {
            Criterion::InfoNce => return Ok(()),
            Criterion::Hinge => "the hinge loss has no temperature; info-nce has one",
            Criterion::CrossEntropy => "cross entropy has no temperature; info-nce has one",
        };
        if self.learn_temperature {
            return Err(Error::setting("learn-temperature", without));
        }
        match temperature == DEFAULT_TEMPERATURE {
            true => Ok(()),
            false => Err(Error::setting(name, without)),
        }
    }

    /// What training drops.
    pub fn dropout(&self) -> Dropout {
        Dropout { inputs: self.dropout_inputs, states: self.dropout_states }
    }

    /// Whether the weights after an epoch, counted from 0, are among those that are averaged.
    pub(crate) fn averages(&self, epoch: usize) -> bool {
        epoch + self.average_last >= self.epochs
    }

    /// Whether the model is evaluated on dev when so many epochs are done.
    pub(crate) fn validates(&self, done: usize) -> bool {
        let last =
            if self.average_last > 0 { self.validate_last.min(1) } else { self.validate_last };
        self.epochs - done < last
    }

    /// The learning rate of an epoch, counted from 0.
    pub fn rate_at(&self, epoch: usize) -> f64 {
        self.rate * self.decay_factor.powi((epoch / self.decay_every) as i32)
    }
}

fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

/// Results of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Number of the epoch, from 1.
    pub epoch: usize,
    /// The loss, averaged over the pairs.
    pub loss: f64,
    /// The part of it that is the model's own, such as that of written captions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub auxiliary: f64,
    /// The learning rate.
    pub rate: f64,
    /// The share of scores that had a gradient.
    pub active: f64,
    /// The temperature at the end of the epoch, if it is learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Mean norm of the gradients before clipping.
    pub gradient: f64,
    /// Seconds of training.
    pub seconds: f64,
    /// The evaluation on dev, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dev: Option<Evaluation>,
    /// Seconds of evaluation.
    pub dev_seconds: f64,
}
