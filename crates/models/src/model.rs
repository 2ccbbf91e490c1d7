//! A retrieval model: a configuration and its weights.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use serde::{Deserialize, Serialize};

use crate::heads::Heads;
use crate::imram::{Imram, Mode};
use crate::parameters::{Declared, Parameters, read_tensors};
use crate::ragged::Encoded;
use crate::scan::{Asks, Scan};
use crate::vse::Vse;
use crate::{Error, Scorer, Texts};

/// Which model, with its settings. A new model is one file and one line in each list here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "architecture", rename_all = "kebab-case")]
pub enum Config {
    /// One vector per side, a recurrent unit for captions.
    Vse(Vse),
    /// One pass of attention.
    Scan(Scan),
    /// Attention with a memory.
    Imram(Imram),
    /// Layers on frozen embeddings.
    Heads(Heads),
}

/// The largest layer, and the most steps, that can be meant.
const LARGEST: usize = 1 << 16;

/// What people call the models, with their published settings.
pub const NAMES: [&str; 8] =
    ["text-imram", "image-imram", "full-imram", "scan-t2i", "scan-i2t", "vse++", "vse0", "heads"];

impl Config {
    /// The published settings of a model of [`NAMES`].
    pub fn named(name: &str) -> Option<Self> {
        let imram = |mode| Config::Imram(Imram { mode, ..Imram::default() });
        Some(match name {
            "text-imram" => imram(Mode::Text),
            "image-imram" => imram(Mode::Image),
            "full-imram" => imram(Mode::Full),
            "scan-t2i" => Config::Scan(Scan::default()),
            "scan-i2t" => Config::Scan(Scan::regions_ask()),
            "vse++" => Config::Vse(Vse::default()),
            "vse0" => Config::Vse(Vse { normalise_images: false, ..Vse::default() }),
            "heads" => Config::Heads(Heads::default()),
            _ => return None,
        })
    }

    /// What people call it, whatever its other settings.
    pub fn name(&self) -> &'static str {
        match self {
            Config::Vse(vse) if vse.normalise_images => "vse++",
            Config::Vse(_) => "vse0",
            Config::Scan(scan) => match scan.direction {
                Asks::Words => "scan-t2i",
                Asks::Regions => "scan-i2t",
            },
            Config::Imram(imram) => match imram.mode {
                Mode::Text => "text-imram",
                Mode::Image => "image-imram",
                Mode::Full => "full-imram",
            },
            Config::Heads(_) => "heads",
        }
    }

    /// Whether captions are words to it, or vectors.
    pub fn reads_words(&self) -> bool {
        !matches!(self, Config::Heads(_))
    }

    /// Coordinates of the joint space.
    pub fn dim(&self) -> usize {
        match self {
            Config::Vse(vse) => vse.dim,
            Config::Scan(scan) => scan.encoders.dim,
            Config::Imram(imram) => imram.encoders.dim,
            Config::Heads(heads) => heads.dim,
        }
    }

    /// Another number of coordinates.
    pub fn set_dim(&mut self, dim: usize) {
        match self {
            Config::Vse(vse) => vse.dim = dim,
            Config::Scan(scan) => scan.encoders.dim = dim,
            Config::Imram(imram) => imram.encoders.dim = dim,
            Config::Heads(heads) => heads.dim = dim,
        }
    }

    /// Refuses what cannot be meant.
    pub fn check(&self) -> Result<(), Error> {
        let positive = |name, value: usize| match value {
            0 => Err(Error::setting(name, "is 0; at least 1 is needed")),
            1..=LARGEST => Ok(()),
            _ => Err(Error::setting(name, format!("{value} is more than {LARGEST}"))),
        };
        let above_zero = |name, value: f32| match value.is_finite() && value > 0.0 {
            true => Ok(()),
            false => Err(Error::setting(name, format!("{value} is not above 0"))),
        };
        positive("dim", self.dim())?;
        match self {
            Config::Vse(vse) => positive("word_dim", vse.word_dim),
            Config::Scan(scan) => {
                positive("word_dim", scan.encoders.word_dim)?;
                if let nextpair_kernels::Aggregation::LogSumExp(scale) = scan.aggregation {
                    above_zero("aggregation", scale)?;
                }
                above_zero("temperature", scan.temperature)
            }
            Config::Imram(imram) => {
                positive("word_dim", imram.encoders.word_dim)?;
                positive("steps", imram.steps)?;
                above_zero("temperature", imram.temperature)
            }
            Config::Heads(heads) => positive("hidden", heads.hidden.max(1)),
        }
    }

    /// How many numbers its weights are.
    pub fn weights(&self, inputs: Inputs) -> usize {
        self.declared(inputs).iter().map(|weight| weight.shape.iter().product::<usize>()).sum()
    }

    fn declared(&self, inputs: Inputs) -> Vec<Declared> {
        let Inputs { image, text } = inputs;
        match self {
            Config::Vse(vse) => vse.declared(image, text),
            Config::Scan(scan) => scan.declared(image, text),
            Config::Imram(imram) => imram.declared(image, text),
            Config::Heads(heads) => heads.declared(image, text),
        }
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

/// A model with weights.
pub struct Model {
    config: Config,
    inputs: Inputs,
    weights: Parameters,
    device: Device,
}

impl Model {
    /// With the first weights of a seed.
    pub fn new(config: Config, inputs: Inputs, seed: u64, device: &Device) -> Result<Self, Error> {
        config.check()?;
        let weights = Parameters::first(&config.declared(inputs), seed, device)?;
        Ok(Model { config, inputs, weights, device: device.clone() })
    }

    /// With these weights, which must be exactly those of the model. `origin` is for errors.
    pub fn from_tensors(
        config: Config,
        inputs: Inputs,
        tensors: BTreeMap<String, Tensor>,
        origin: &str,
        device: &Device,
    ) -> Result<Self, Error> {
        config.check()?;
        let declared = config.declared(inputs);
        let weights = Parameters::from_tensors(&declared, tensors, origin, device)?;
        Ok(Model { config, inputs, weights, device: device.clone() })
    }

    /// With the weights of a safetensors file.
    pub fn load(
        config: Config,
        inputs: Inputs,
        path: &Path,
        device: &Device,
    ) -> Result<Self, Error> {
        let tensors = read_tensors(path)?;
        Self::from_tensors(config, inputs, tensors, &path.display().to_string(), device)
    }

    /// The same model in double precision and plain tensor operations: what tests compare with.
    #[doc(hidden)]
    pub fn in_double_precision(&self) -> Result<Self, Error> {
        let weights = self.weights.to_dtype(DType::F64)?;
        let (config, device) = (self.config.clone(), self.device.clone());
        Ok(Model { config, inputs: self.inputs, weights, device })
    }

    /// Its settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What it is fed.
    pub fn inputs(&self) -> Inputs {
        self.inputs
    }

    /// Its weights.
    pub fn weights(&self) -> &Parameters {
        &self.weights
    }

    /// Where it computes.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Images from features: images by regions by numbers, or images by numbers.
    pub fn encode_images(&self, features: &Tensor) -> Result<Encoded, Error> {
        match &self.config {
            Config::Vse(vse) => vse.images(&self.weights, features),
            Config::Scan(scan) => scan.images(&self.weights, features),
            Config::Imram(imram) => imram.images(&self.weights, features),
            Config::Heads(heads) => heads.images(&self.weights, features),
        }
    }

    /// Captions from words or vectors.
    pub fn encode_texts(&self, texts: &Texts) -> Result<Encoded, Error> {
        match &self.config {
            Config::Vse(vse) => vse.texts(&self.weights, texts),
            Config::Scan(scan) => scan.texts(&self.weights, texts),
            Config::Imram(imram) => imram.texts(&self.weights, texts),
            Config::Heads(heads) => heads.texts(&self.weights, texts),
        }
    }

    /// How it compares, with the weights as they are now.
    pub fn scorer(&self) -> Result<Scorer, Error> {
        match &self.config {
            Config::Vse(vse) => Ok(vse.scorer()),
            Config::Scan(scan) => Ok(scan.scorer()),
            Config::Imram(imram) => imram.scorer(&self.weights),
            Config::Heads(heads) => Ok(heads.scorer()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_know_their_names() {
        for name in NAMES {
            assert_eq!(Config::named(name).unwrap().name(), name);
        }
        assert_eq!(Config::named("vse"), None);
    }
}
