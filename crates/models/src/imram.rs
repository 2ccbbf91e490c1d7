//! IMRAM (Chen, Ding, Liu, Lin, Liu and Han, CVPR 2020, <https://arxiv.org/abs/2003.03772>):
//! several steps of attention, between which a gated memory refines the queries.

use candle_core::Tensor;
use nextpair_kernels::{Aggregation, Attention, Normaliser};
use serde::{Deserialize, Serialize};

use crate::attention::Memory;
use crate::encoder::Encoders;
use crate::parameters::{Declared, Parameters, Start};
use crate::ragged::Encoded;
use crate::scan::NormaliserName;
use crate::scorer::Direction;
use crate::{Error, Scorer, Texts};

/// The settings of IMRAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Imram {
    /// The encoders.
    pub encoders: Encoders,
    /// Which directions are added up.
    pub mode: Mode,
    /// Steps of attention, K.
    pub steps: usize,
    /// The temperature of the attention, lambda.
    pub temperature: f32,
    /// How raw scores are normalised over the queries.
    #[serde(with = "NormaliserName")]
    pub normaliser: Normaliser,
    /// Whether refined queries are scaled to unit length. The published scripts do not.
    pub normalise_memory: bool,
}

/// The directions of IMRAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Words attend to regions.
    #[default]
    Text,
    /// Regions attend to words.
    Image,
    /// Both, added up and trained together.
    Full,
}

impl Default for Imram {
    fn default() -> Self {
        Imram {
            encoders: Encoders::default(),
            mode: Mode::Text,
            steps: 3,
            temperature: 9.0,
            normaliser: Normaliser::ClippedL2,
            normalise_memory: false,
        }
    }
}

/// The memories of both directions exist whatever the mode; an unused one gets no gradient.
const MEMORIES: [&str; 2] = ["mem_t2i", "mem_i2t"];

impl Imram {
    pub(crate) fn declared(&self, features: usize, words: usize) -> Vec<Declared> {
        let dim = self.encoders.dim;
        let mut all = self.encoders.declared(features, words);
        // What PyTorch gives a linear layer by default.
        let bound = Start::Uniform(1.0 / ((2 * dim) as f64).sqrt());
        for memory in MEMORIES {
            for layer in ["linear", "gate"] {
                all.push(Declared::new(format!("{memory}.{layer}.weight"), &[dim, 2 * dim], bound));
                all.push(Declared::new(format!("{memory}.{layer}.bias"), &[dim], bound));
            }
        }
        all
    }

    pub(crate) fn images(&self, weights: &Parameters, features: &Tensor) -> Result<Encoded, Error> {
        self.encoders.images(weights, features)
    }

    pub(crate) fn texts(&self, weights: &Parameters, texts: &Texts) -> Result<Encoded, Error> {
        self.encoders.texts(weights, texts)
    }

    pub(crate) fn scorer(&self, weights: &Parameters) -> Result<Scorer, Error> {
        let attention = Attention {
            temperature: self.temperature,
            normaliser: self.normaliser,
            aggregation: Aggregation::Mean,
            steps: self.steps,
            normalise_memory: self.normalise_memory,
        };
        let direction = |words_ask: bool| {
            let name = MEMORIES[usize::from(!words_ask)];
            let part = |part: &str| Ok::<_, Error>(weights.get(&format!("{name}.{part}"))?.clone());
            // With one step the memory is never asked.
            let memory = match self.steps {
                1 => None,
                _ => Some(Memory {
                    linear_weight: part("linear.weight")?,
                    linear_bias: part("linear.bias")?,
                    gate_weight: part("gate.weight")?,
                    gate_bias: part("gate.bias")?,
                }),
            };
            Ok::<_, Error>(Direction::new(words_ask, self.encoders.dim, attention, memory))
        };
        Ok(Scorer::Cross(match self.mode {
            Mode::Text => vec![direction(true)?],
            Mode::Image => vec![direction(false)?],
            Mode::Full => vec![direction(true)?, direction(false)?],
        }))
    }
}
