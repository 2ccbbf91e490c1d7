//! SCAN (Lee, Chen, Hua, Hu and He, ECCV 2018, <https://arxiv.org/abs/1803.08024>): one pass of
//! attention between the regions of an image and the words of a caption.

use candle_core::Tensor;
use nextpair_kernels::{Aggregation, Attention, Normaliser};
use serde::{Deserialize, Serialize};

use crate::encoder::Encoders;
use crate::parameters::{Declared, Parameters};
use crate::ragged::Encoded;
use crate::scorer::Direction;
use crate::{Error, Scorer, Texts};

/// The settings of SCAN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scan {
    /// The encoders.
    pub encoders: Encoders,
    /// Who attends to whom.
    pub direction: Asks,
    /// The temperature of the attention, lambda.
    pub temperature: f32,
    /// How raw scores are normalised over the queries.
    #[serde(with = "NormaliserName")]
    pub normaliser: Normaliser,
    /// How the relevances of the queries become one score.
    #[serde(with = "AggregationName")]
    pub aggregation: Aggregation,
}

/// Who attends to whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Asks {
    /// Words attend to regions (t2i).
    #[default]
    Words,
    /// Regions attend to words (i2t).
    Regions,
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
    /// The published settings of i2t on Flickr30K.
    pub(crate) fn regions_ask() -> Self {
        Scan {
            direction: Asks::Regions,
            temperature: 4.0,
            aggregation: Aggregation::LogSumExp(5.0),
            ..Scan::default()
        }
    }

    pub(crate) fn declared(&self, features: usize, words: usize) -> Vec<Declared> {
        self.encoders.declared(features, words)
    }

    pub(crate) fn images(&self, weights: &Parameters, features: &Tensor) -> Result<Encoded, Error> {
        self.encoders.images(weights, features)
    }

    pub(crate) fn texts(&self, weights: &Parameters, texts: &Texts) -> Result<Encoded, Error> {
        self.encoders.texts(weights, texts)
    }

    pub(crate) fn scorer(&self) -> Scorer {
        let attention = Attention {
            temperature: self.temperature,
            normaliser: self.normaliser,
            aggregation: self.aggregation,
            steps: 1,
            normalise_memory: false,
        };
        let words_ask = self.direction == Asks::Words;
        Scorer::Cross(vec![Direction::new(words_ask, self.encoders.dim, attention, None)])
    }
}
