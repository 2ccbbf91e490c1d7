//! The interface of architectures, for those of this crate and for your own.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use nextpair_data::{Draws, Side};
use nextpair_kernels::{Aggregation, Encoded, Normaliser, Tensor};
use serde::{Deserialize, Serialize};

use crate::dropout::Masks;
use crate::{
    Batch, Comparison, Declared, Dropout, Error, Layer, Pair, Pooling, Texts, Training, Weights,
};

/// An architecture with its settings: how a model encodes and compares. It takes the weights as
/// arguments, so that one value serves any number of models.
pub trait Architecture: Debug + Send + Sync {
    /// Name of the architecture.
    fn name(&self) -> &str;

    /// Dimensions of the joint space.
    fn dim(&self) -> usize;

    /// Whether it reads captions as words, rather than as vectors.
    fn reads_words(&self) -> bool;

    /// Rejects invalid settings.
    ///
    /// # Errors
    /// With the setting and the reason.
    fn check(&self) -> Result<(), Error>;

    /// The weights and buffers it has for these inputs.
    fn declare(&self, inputs: Inputs) -> Vec<Declared>;

    /// Encodes images from features: images by regions by numbers.
    ///
    /// # Errors
    /// If the features do not match the weights.
    fn encode_images(&self, pass: &Pass<'_>, features: &Tensor) -> Result<Encoded, Error>;

    /// Encodes captions from words or vectors.
    ///
    /// # Errors
    /// If the captions do not match the weights.
    fn encode_texts(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Encoded, Error>;

    /// How it compares encoded images and captions, with the current weights.
    ///
    /// # Errors
    /// If a weight is missing.
    fn comparison(&self, weights: &Weights) -> Result<Box<dyn Comparison>, Error>;

    /// How it compares the images and captions of a batch in training, if that differs: where scores
    /// depend on the batch as a whole, or buffers on the scores. Of several comparisons each has a loss
    /// of its own, and training makes their sum small.
    ///
    /// # Errors
    /// If a weight is missing.
    fn training_comparisons<'a>(
        &self,
        pass: &'a Pass<'_>,
    ) -> Result<Vec<Box<dyn Comparison + 'a>>, Error> {
        Ok(vec![self.comparison(pass.weights())?])
    }

    /// How many comparisons have a loss of their own in training.
    fn losses(&self) -> usize {
        1
    }

    /// Adapts to images of so many regions, where weights depend on their number.
    fn fit(&mut self, _regions: usize) {}

    /// A loss in addition to that of the scores, as one number: for generated captions, say. It gets
    /// the batch and what was encoded of it.
    ///
    /// # Errors
    /// If the architecture rejects its inputs.
    fn auxiliary_loss(
        &self,
        _pass: &Pass<'_>,
        _batch: &Batch,
        _images: &Encoded,
        _texts: &Encoded,
    ) -> Result<Option<Tensor>, Error> {
        Ok(None)
    }

    /// Whether several models of it can train together, with weights that have a leading axis of
    /// members and batches that lie one after the other. Then it encodes with operations that know
    /// such weights, and has neither buffers nor an auxiliary loss.
    fn trains_together(&self) -> bool {
        false
    }

    /// Memory that a training step needs for each pair of its batch, whose images have so many regions: in
    /// vectors of the joint space, each counted as 64 bytes a dimension. An estimate, so that models that
    /// train together fit a device.
    fn vectors_of_pair(&self, _regions: usize) -> usize {
        64
    }

    /// The training that was published with it, or that suits it, unless it is the default.
    fn training(&self) -> Training {
        Training::default()
    }

    /// Changes a setting. Returns `false` if the architecture has no such setting.
    fn set(&mut self, _setting: Setting) -> bool {
        false
    }
}

/// Inputs of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inputs {
    /// Dimensions of an image region, or of an image.
    pub image: usize,
    /// Words of the vocabulary, or dimensions of a caption's vector.
    pub text: usize,
}

/// One setting of an architecture, for flags and experiments to change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Setting {
    /// Dimensions of the joint space.
    Dim(usize),
    /// Dimensions of a word before the recurrent unit.
    WordDim(usize),
    /// Steps of attention.
    Steps(usize),
    /// Temperature of the attention.
    Temperature(f32),
    /// How to normalise raw scores.
    Normaliser(Normaliser),
    /// How to aggregate the relevances of the queries into one score.
    Aggregation(Aggregation),
    /// Whether refined queries are scaled to unit norm.
    NormaliseMemory(bool),
    /// Whether the image layer is a direction and one scale.
    WeightNorm(bool),
    /// Units of a hidden layer.
    Hidden(usize),
    /// Whether a head adds to its vectors.
    Adapter(bool),
    /// How the states of words become one vector.
    Pooling(Pooling),
    /// Vectors of an item.
    Heads(usize),
    /// Whether training also learns to write captions.
    CaptionLoss(bool),
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
            Setting::Adapter(_) => "--adapter",
            Setting::Pooling(_) => "--pooling",
            Setting::Heads(_) => "--heads",
            Setting::CaptionLoss(_) => "--caption-loss",
        }
    }
}

/// Purpose of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Evaluation, with fixed weights and buffers.
    Evaluate,
    /// A training step. What is random draws from this seed, which no other epoch has, and from
    /// the identity of an image or caption.
    Train(u64),
}

/// Where the purposes of models' own draws begin, after those of the layers.
const OWN: u64 = 16;

/// One pass of a batch through a model.
pub struct Pass<'a> {
    weights: &'a Weights,
    /// How the names of all weights begin.
    prefix: String,
    mode: Mode,
    masks: Option<Masks<'a>>,
    /// Regions of every image before those that are all zeros, where that is known.
    regions: Option<&'a [usize]>,
    observed: Mutex<Vec<(String, Tensor)>>,
    remembered: Mutex<BTreeMap<String, Tensor>>,
}

impl<'a> Pass<'a> {
    /// A pass with these weights.
    pub fn new(weights: &'a Weights, mode: Mode) -> Self {
        let (observed, remembered) = (Mutex::default(), Mutex::default());
        let prefix = String::new();
        Pass { weights, prefix, mode, masks: None, regions: None, observed, remembered }
    }

    /// The same pass with dropout, for a batch of these pairs, of which every member has a seed and equally many.
    /// Evaluation drops nothing.
    pub fn with_dropout(mut self, dropout: Dropout, seeds: Vec<u64>, pairs: &'a [Pair]) -> Self {
        let trains = self.mode != Mode::Evaluate;
        self.masks = trains.then_some(Masks { dropout, seeds, pairs });
        self
    }

    /// The same pass, for a batch of images of which it is known how many regions come before those
    /// that are all zeros.
    pub(crate) fn with_regions(self, regions: Option<&'a [usize]>) -> Self {
        Pass { regions, ..self }
    }

    /// How many regions of every image come before those that are all zeros, where that is known.
    pub(crate) fn regions(&self) -> Option<&'a [usize]> {
        self.regions
    }

    /// Applies dropout to rows of the images or captions of the batch, which have equally many
    /// rows each.
    ///
    /// # Errors
    /// If there are rows of more or fewer items.
    pub fn dropout(&self, layer: Layer, side: Side, rows: &Tensor) -> Result<Tensor, Error> {
        let Some(masks) = &self.masks else { return Ok(rows.clone()) };
        masks.applied(layer, side, rows, &masks.equal_spans(rows)?)
    }

    /// Applies dropout to rows of the captions of the batch; `offsets` has the first row of each
    /// caption, then the end of the last.
    ///
    /// # Errors
    /// If there are rows of more or fewer captions.
    pub fn dropout_of_words(
        &self,
        layer: Layer,
        rows: &Tensor,
        offsets: &[usize],
    ) -> Result<Tensor, Error> {
        match &self.masks {
            Some(masks) => masks.applied(layer, Side::Text, rows, offsets),
            None => Ok(rows.clone()),
        }
    }

    /// Drops a `share` of the numbers of rows, which is part of the model rather than a setting of
    /// training. Images or captions have equally many rows each; `purpose` tells its layers apart.
    ///
    /// # Errors
    /// If there are rows of more or fewer items.
    pub fn dropout_of_share(
        &self,
        (share, purpose): (f64, u64),
        side: Side,
        rows: &Tensor,
    ) -> Result<Tensor, Error> {
        let Some(masks) = &self.masks else { return Ok(rows.clone()) };
        masks.dropped((share, OWN + purpose), side, rows, &masks.equal_spans(rows)?)
    }

    /// The draws of image or caption `row` of the batch for a `purpose` of the model's own. `None` in
    /// evaluation, and where nobody said which pairs the batch has.
    pub fn draws(&self, purpose: u64, side: Side, row: usize) -> Option<Draws> {
        let masks = self.masks.as_ref()?;
        masks.draws(OWN + purpose, side, row)
    }

    /// Purpose of the pass.
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
        match self.prefix.is_empty() {
            true => self.weights.get(name),
            false => self.weights.get(&format!("{}{name}", self.prefix)),
        }
    }

    /// Runs a part of the model, the names of whose weights and buffers begin with `prefix`.
    ///
    /// # Errors
    /// Those of the part.
    pub fn within<T>(
        &self,
        prefix: &str,
        part: impl FnOnce(&Pass<'a>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let pass = Pass {
            weights: self.weights,
            prefix: format!("{}{prefix}", self.prefix),
            mode: self.mode,
            masks: self.masks.clone(),
            regions: self.regions,
            observed: Mutex::default(),
            remembered: Mutex::default(),
        };
        let found = part(&pass)?;
        let remembered = pass.remembered.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner).extend(remembered);
        let observed = pass.into_observed();
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).extend(observed);
        Ok(found)
    }

    /// Records new values for a buffer, which the training step stores when it ends.
    pub fn observe(&self, buffer: impl Into<String>, value: Tensor) {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        // Detached: the graph must be gone when the optimiser changes the weights in place.
        observed.push((format!("{}{}", self.prefix, buffer.into()), value.detached()));
    }

    /// Keeps a tensor with its gradients for the [auxiliary
    /// loss](Architecture::auxiliary_loss) of this pass.
    pub fn remember(&self, name: impl Into<String>, value: Tensor) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.insert(name.into(), value);
    }

    /// What was remembered under a name.
    ///
    /// # Errors
    /// If it was not.
    pub fn recall(&self, name: &str) -> Result<Tensor, Error> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.get(name).cloned().ok_or_else(|| Error::Weights {
            origin: "the pass".to_owned(),
            listing: vec![format!("  {name} was not remembered")],
        })
    }

    /// The recorded values, in order.
    pub(crate) fn into_observed(self) -> Vec<(String, Tensor)> {
        self.observed.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
