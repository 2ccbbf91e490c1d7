//! SCAN (Lee, Chen, Hua, Hu and He, ECCV 2018, <https://arxiv.org/abs/1803.08024>): one pass of
//! attention between the regions of an image and the words of a caption.

use nextpair_data::Side;
use nextpair_kernels::ops::{Direction, Matching};
use nextpair_kernels::{Aggregation, Attention, Encoded, Normaliser, Tensor};
use serde::{Deserialize, Serialize};

use crate::config::check_positive;
use crate::encoder::Encoders;
use crate::{Architecture, Comparison, Declared, Error, Inputs, Pass, Setting, Texts, Weights};

/// Settings of SCAN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scan {
    /// The encoders.
    pub encoders: Encoders,
    /// The side that attends to the other.
    pub direction: Asks,
    /// Temperature of the attention, lambda.
    pub temperature: f32,
    /// How to normalise raw scores over the queries.
    #[serde(with = "NormaliserName")]
    pub normaliser: Normaliser,
    /// How to aggregate the relevances of the queries into one score.
    #[serde(with = "AggregationName")]
    pub aggregation: Aggregation,
}

/// The side that attends to the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asks {
    /// Words attend to regions (t2i).
    #[default]
    Words,
    /// Regions attend to words (i2t).
    Regions,
}

impl Asks {
    fn side(self) -> Side {
        match self {
            Asks::Words => Side::Text,
            Asks::Regions => Side::Image,
        }
    }
}

/// [`Normaliser`] by the names of the reference implementations.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Normaliser")]
pub(crate) enum NormaliserName {
    #[serde(rename = "clipped_l2norm")]
    ClippedL2,
    #[serde(rename = "l2norm")]
    L2,
    #[serde(rename = "clipped_l1norm")]
    ClippedL1,
    #[serde(rename = "l1norm")]
    L1,
    #[serde(rename = "clipped")]
    Clipped,
    #[serde(rename = "softmax")]
    Softmax,
    #[serde(rename = "no_norm")]
    None,
}

/// [`Aggregation`] for configuration files.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Aggregation", rename_all = "kebab-case")]
pub(crate) enum AggregationName {
    Mean,
    Sum,
    Max,
    /// With its scale, lambda_lse.
    LogSumExp(f32),
}

impl Default for Scan {
    fn default() -> Self {
        Scan {
            encoders: Encoders::default(),
            direction: Asks::Words,
            temperature: 9.0,
            normaliser: Normaliser::ClippedL2,
            aggregation: Aggregation::LogSumExp(6.0),
        }
    }
}

impl Scan {
    /// The published settings on Flickr30K.
    pub(crate) fn presets() -> [(&'static str, Self); 2] {
        let regions_ask = Scan {
            direction: Asks::Regions,
            temperature: 4.0,
            aggregation: Aggregation::LogSumExp(5.0),
            ..Scan::default()
        };
        [("scan-t2i", Scan::default()), ("scan-i2t", regions_ask)]
    }
}

/// [`Architecture::vectors_of_pair`] of attention in some directions.
pub(crate) fn vectors_of_attention(regions: usize, directions: usize, steps: usize) -> usize {
    // Encoders; then, of a direction, rows of contexts with what a memory makes of them and their
    // gradients, and the queries of about three pairs at every step.
    64 + directions * (regions + 10 * steps)
}

impl Architecture for Scan {
    fn name(&self) -> &str {
        match self.direction {
            Asks::Words => "scan-t2i",
            Asks::Regions => "scan-i2t",
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
        if let Aggregation::LogSumExp(scale) = self.aggregation {
            check_positive("aggregation", scale)?;
        }
        check_positive("temperature", self.temperature)
    }

    fn declare(&self, inputs: Inputs) -> Vec<Declared> {
        self.encoders.declare(inputs)
    }

    fn encode_images(&self, pass: &Pass<'_>, features: &Tensor) -> Result<Encoded, Error> {
        self.encoders.images(pass, features)
    }

    fn encode_texts(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Encoded, Error> {
        self.encoders.texts(pass, texts)
    }

    fn trains_together(&self) -> bool {
        true
    }

    fn vectors_of_pair(&self, regions: usize) -> usize {
        vectors_of_attention(regions, 1, 1)
    }

    fn comparison(&self, weights: &Weights) -> Result<Box<dyn Comparison>, Error> {
        let attention = Attention {
            temperature: self.temperature,
            normaliser: self.normaliser,
            aggregation: self.aggregation,
            steps: 1,
            normalise_memory: false,
        };
        let direction = Direction { asking: self.direction.side(), attention, memory: None };
        Ok(Box::new(Matching::new(self.encoders.dim, weights.members(), vec![direction])?))
    }

    fn set(&mut self, setting: Setting) -> bool {
        match setting {
            Setting::Temperature(temperature) => self.temperature = temperature,
            Setting::Normaliser(normaliser) => self.normaliser = normaliser,
            Setting::Aggregation(aggregation) => self.aggregation = aggregation,
            other => return self.encoders.set(other),
        }
        true
    }
}
