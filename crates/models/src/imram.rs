//! IMRAM (Chen, Ding, Liu, Lin, Liu and Han, CVPR 2020, <https://arxiv.org/abs/2003.03772>):
//! several steps of attention, between which a gated memory refines the queries.

use nextpair_data::Side;
use nextpair_kernels::ops::{Direction, Matching, MemoryWeights};
use nextpair_kernels::{Aggregation, Attention, Encoded, Normaliser, Tensor};
use serde::{Deserialize, Serialize};

use crate::config::{check_positive, check_size};
use crate::encoder::Encoders;
use crate::scan::{NormaliserName, vectors_of_attention};
use crate::weights::Start;
use crate::{Architecture, Comparison, Declared, Error, Inputs, Pass, Setting, Texts, Weights};

/// Settings of IMRAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Imram {
    /// The encoders.
    pub encoders: Encoders,
    /// Which directions to add up.
    pub mode: Directions,
    /// Steps of attention, K.
    pub steps: usize,
    /// Temperature of the attention, lambda.
    pub temperature: f32,
    /// How to normalise raw scores over the queries.
    #[serde(with = "NormaliserName")]
    pub normaliser: Normaliser,
    /// Whether to scale refined queries to unit norm. The published scripts do not.
    pub normalise_memory: bool,
}

/// The directions of IMRAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Directions {
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
            mode: Directions::Text,
            steps: 3,
            temperature: 9.0,
            normaliser: Normaliser::ClippedL2,
            normalise_memory: false,
        }
    }
}

/// Both memories exist whatever the mode; an unused one gets no gradient.
const MEMORIES: [&str; 2] = ["mem_t2i", "mem_i2t"];

impl Imram {
    pub(crate) fn presets() -> [(&'static str, Self); 3] {
        [
            ("text-imram", Directions::Text),
            ("image-imram", Directions::Image),
            ("full-imram", Directions::Full),
        ]
        .map(|(name, mode)| (name, Imram { mode, ..Imram::default() }))
    }

    /// The sides that ask, one for each direction.
    fn asking(&self) -> &'static [Side] {
        match self.mode {
            Directions::Text => &[Side::Text],
            Directions::Image => &[Side::Image],
            Directions::Full => &[Side::Text, Side::Image],
        }
    }

    fn direction(&self, weights: &Weights, asking: Side) -> Result<Direction, Error> {
        let attention = Attention {
            temperature: self.temperature,
            normaliser: self.normaliser,
            aggregation: Aggregation::Mean,
            steps: self.steps,
            normalise_memory: self.normalise_memory,
        };
        let [of_words, of_regions] = MEMORIES;
        let (name, _) = asking.own_and_other(of_regions, of_words);
        let part = |part: &str| Ok::<_, Error>(weights.get(&format!("{name}.{part}"))?.clone());
        // One step does not use the memory.
        let memory = match self.steps {
            1 => None,
            _ => Some(MemoryWeights {
                linear_weight: part("linear.weight")?,
                linear_bias: part("linear.bias")?,
                gate_weight: part("gate.weight")?,
                gate_bias: part("gate.bias")?,
            }),
        };
        Ok(Direction { asking, attention, memory })
    }
}

impl Architecture for Imram {
    fn name(&self) -> &str {
        match self.mode {
            Directions::Text => "text-imram",
            Directions::Image => "image-imram",
            Directions::Full => "full-imram",
        }
    }

    fn dim(&self) -> usize {
        self.encoders.dim
    }

    fn reads_words(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), Error> {
        self.encoders.check()?;
        check_size("steps", self.steps)?;
        check_positive("temperature", self.temperature)
    }

    fn declare(&self, inputs: Inputs) -> Vec<Declared> {
        let dim = self.encoders.dim;
        let mut all = self.encoders.declare(inputs);
        // PyTorch's default for a linear layer.
        let bound = Start::Uniform(1.0 / ((2 * dim) as f64).sqrt());
        for memory in MEMORIES {
            for layer in ["linear", "gate"] {
                all.push(Declared::new(format!("{memory}.{layer}.weight"), &[dim, 2 * dim], bound));
                all.push(Declared::new(format!("{memory}.{layer}.bias"), &[dim], bound));
            }
        }
        all
    }

    fn encode_images(&self, pass: &Pass<'_>, features: &Tensor) -> Result<Encoded, Error> {
        self.encoders.images(pass, features)
    }

    fn encode_texts(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Encoded, Error> {
        self.encoders.texts(pass, texts)
    }

    fn comparison(&self, weights: &Weights) -> Result<Box<dyn Comparison>, Error> {
        let directions = self.asking().iter().map(|&side| self.direction(weights, side));
        let directions = directions.collect::<Result<_, Error>>()?;
        Ok(Box::new(Matching::new(self.encoders.dim, weights.members(), directions)?))
    }

    fn trains_together(&self) -> bool {
        true
    }

    fn vectors_of_pair(&self, regions: usize) -> usize {
        vectors_of_attention(regions, self.asking().len(), self.steps)
    }

    fn set(&mut self, setting: Setting) -> bool {
        match setting {
            Setting::Steps(steps) => self.steps = steps,
            Setting::Temperature(temperature) => self.temperature = temperature,
            Setting::Normaliser(normaliser) => self.normaliser = normaliser,
            Setting::NormaliseMemory(on) => self.normalise_memory = on,
            other => return self.encoders.set(other),
        }
        true
    }
}
