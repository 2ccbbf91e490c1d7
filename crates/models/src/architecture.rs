//! What every architecture does, and how others than those of this crate come in.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use nextpair_kernels::{Aggregation, Encoded, Normaliser, Tensor};
use serde::{Deserialize, Serialize};

use crate::{Comparison, Declared, Error, Texts, Training, Weights};

/// An architecture with its settings: how a model encodes and compares. Its weights are given to
/// it, so that one value serves any number of models.
pub trait Architecture: Debug + Send + Sync {
    /// What people call it.
    fn name(&self) -> &str;

    /// Dimensions of the joint space.
    fn dim(&self) -> usize;

    /// Whether captions are words to it, or vectors.
    fn reads_words(&self) -> bool;

    /// Refuses settings that cannot be meant.
    ///
    /// # Errors
    /// With the setting and what is wrong with it.
    fn check(&self) -> Result<(), Error>;

    /// The weights and buffers it has for such inputs.
    fn declare(&self, inputs: Inputs) -> Vec<Declared>;

    /// Images from features: images by regions by numbers.
    ///
    /// # Errors
    /// If the features do not fit the weights.
    fn encode_images(&self, pass: &Pass<'_>, features: &Tensor) -> Result<Encoded, Error>;

    /// Captions from words or vectors.
    ///
    /// # Errors
    /// If the captions do not fit the weights.
    fn encode_texts(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Encoded, Error>;

    /// How it compares what it encoded, with the weights as they are now.
    ///
    /// # Errors
    /// If a weight is missing.
    fn comparison(&self, weights: &Weights) -> Result<Box<dyn Comparison>, Error>;

    /// A loss besides that of the scores, one number: of generated captions, say.
    ///
    /// # Errors
    /// Whatever the architecture refuses.
    fn auxiliary_loss(
        &self,
        _pass: &Pass<'_>,
        _images: &Encoded,
        _texts: &Encoded,
    ) -> Result<Option<Tensor>, Error> {
        Ok(None)
    }

    /// The training that was published with it, where it is not the default.
    fn training(&self) -> Training {
        Training::default()
    }

    /// Changes a setting that somebody typed. `false` where it has no such setting.
    fn set(&mut self, _setting: Setting) -> bool {
        false
    }
}

/// What a model is fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// Numbers of an image region, or of an image.
    pub image: usize,
    /// Words of the vocabulary, or numbers of a caption's vector.
    pub text: usize,
}

/// One setting of an architecture, as flags and experiments change it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Setting {
    /// Dimensions of the joint space.
    Dim(usize),
    /// Dimensions of a word before the recurrent unit.
    WordDim(usize),
    /// Steps of attention.
    Steps(usize),
    /// The temperature of the attention.
    Temperature(f32),
    /// How raw scores are normalised.
    Normaliser(Normaliser),
    /// How the relevances of the queries become one score.
    Aggregation(Aggregation),
    /// Whether refined queries are scaled to unit norm.
    NormaliseMemory(bool),
    /// Whether the image layer is a direction and one scale.
    WeightNorm(bool),
    /// Units of a hidden layer.
    Hidden(usize),
}

impl Setting {
    /// The flag that sets it.
    pub fn flag(self) -> &'static str {
        match self {
            Setting::Dim(_) => "--dim",
            Setting::WordDim(_) => "--word-dim",
            Setting::Steps(_) => "--steps",
            Setting::Temperature(_) => "--temperature",
            Setting::Normaliser(_) => "--normaliser",
            Setting::Aggregation(_) => "--aggregation",
            Setting::NormaliseMemory(_) => "--normalise-memory",
            Setting::WeightNorm(_) => "--weight-norm",
            Setting::Hidden(_) => "--hidden",
        }
    }
}

/// What a pass is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Scores, with the weights and buffers as they are.
    Evaluate,
    /// A training step: dropout draws from this seed, which no other step has.
    Train(u64),
}

/// One pass of a batch through a model.
pub struct Pass<'a> {
    weights: &'a Weights,
    mode: Mode,
    observed: Mutex<Vec<(String, Tensor)>>,
}

impl<'a> Pass<'a> {
    /// With weights as they are.
    pub fn new(weights: &'a Weights, mode: Mode) -> Self {
        Pass { weights, mode, observed: Mutex::default() }
    }

    /// What it is for.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// All weights.
    pub fn weights(&self) -> &'a Weights {
        self.weights
    }

    /// The weight or buffer called `name`.
    ///
    /// # Errors
    /// If it was not declared.
    pub fn weight(&self, name: &str) -> Result<&'a Tensor, Error> {
        self.weights.get(name)
    }

    /// Other numbers for a buffer, which a training step takes over when it ends.
    pub fn observe(&self, buffer: impl Into<String>, value: Tensor) {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        observed.push((buffer.into(), value));
    }

    /// What was observed, in order.
    pub(crate) fn into_observed(self) -> Vec<(String, Tensor)> {
        self.observed.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
