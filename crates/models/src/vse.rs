//! VSE++ (Faghri, Fleet, Kiros and Fidler, BMVC 2018, <https://arxiv.org/abs/1707.05612>): one
//! vector per image and per caption, compared by their dot product. VSE0 is the same model with
//! unscaled images, trained with the sum of hinges.

use candle_core::{D, Tensor};
use serde::{Deserialize, Serialize};

use crate::encoder::{image_layer, linear_images, mean_regions, word_layers, word_states};
use crate::norm::unit_rows;
use crate::parameters::{Declared, Parameters};
use crate::ragged::{Encoded, indices};
use crate::{Error, Scorer, Texts};

/// The settings of VSE++.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Vse {
    /// Coordinates of the joint space.
    pub dim: usize,
    /// Coordinates of a word before the recurrent unit.
    pub word_dim: usize,
    /// Whether images are scaled to unit length.
    pub normalise_images: bool,
    /// Whether coordinates lose their sign.
    pub absolute: bool,
    /// How images and captions are compared.
    pub measure: Measure,
}

/// A comparison of two vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// The dot product.
    #[default]
    Cosine,
    /// Order embeddings: `-|max(0, t - u)|`.
    Order,
}

impl Default for Vse {
    fn default() -> Self {
        Vse {
            dim: 1024,
            word_dim: 300,
            normalise_images: true,
            absolute: false,
            measure: Measure::Cosine,
        }
    }
}

impl Vse {
    pub(crate) fn declared(&self, features: usize, words: usize) -> Vec<Declared> {
        let mut all = image_layer(features, self.dim, false);
        all.extend(word_layers(words, self.word_dim, self.dim, 1));
        all
    }

    /// Images with several regions are averaged first.
    pub(crate) fn images(&self, weights: &Parameters, features: &Tensor) -> Result<Encoded, Error> {
        let rows = linear_images(weights, &mean_regions(features)?)?;
        let rows = if self.normalise_images { unit_rows(&rows, 0.0)? } else { rows };
        Encoded::uniform(self.signed(rows)?, 1)
    }

    /// The state at the last word, which is the end marker.
    pub(crate) fn texts(&self, weights: &Parameters, texts: &Texts) -> Result<Encoded, Error> {
        let (states, offsets) = word_states(weights, texts, 1)?;
        let last = offsets[1..].iter().map(|&end| end as u32 - 1).collect();
        let rows = states.index_select(&indices(last, states.device())?, 0)?;
        Encoded::uniform(self.signed(unit_rows(&rows, 0.0)?)?, 1)
    }

    fn signed(&self, rows: Tensor) -> Result<Tensor, Error> {
        debug_assert!(rows.dim(D::Minus1)? == self.dim);
        Ok(if self.absolute { rows.abs()? } else { rows })
    }

    pub(crate) fn scorer(&self) -> Scorer {
        match self.measure {
            Measure::Cosine => Scorer::Dot,
            Measure::Order => Scorer::Order,
        }
    }
}
