//! VSE++ (Faghri, Fleet, Kiros and Fidler, BMVC 2018, <https://arxiv.org/abs/1707.05612>): one
//! vector per image and per caption, compared by their dot product. VSE0 is the same model with
//! unscaled images, trained with the sum of hinges.

use nextpair_data::Side;
use nextpair_kernels::ops::{abs, gather, mean_spans, unit_rows};
use nextpair_kernels::{Encoded, Tensor};
use serde::{Deserialize, Serialize};

use crate::config::check_size;
use crate::encoder::{Reading, image_layer, image_states, mean_regions, word_layers, word_states};
use crate::published::Options;
use crate::{
    Architecture, Comparison, Declared, Dot, Error, Inputs, Layer, Order, Pass, Setting, Texts,
    Training, Violation, Weights,
};

/// Settings of VSE++.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Vse {
    /// Dimensions of the joint space.
    pub dim: usize,
    /// Dimensions of a word before the recurrent unit.
    pub word_dim: usize,
    /// How the states of the recurrent unit become one vector.
    pub pooling: Pooling,
    /// Whether to scale images to unit norm.
    pub normalise_images: bool,
    /// Whether to take absolute values.
    pub absolute: bool,
    /// How to compare images and captions.
    pub measure: Measure,
}

/// How the states at the words of a caption become one vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pooling {
    /// The state at the last word, which is the end marker.
    #[default]
    Last,
    /// The mean of all states.
    Mean,
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

impl Measure {
    pub(crate) fn from_published(options: &Options<'_>) -> Self {
        match options.text("measure") {
            "order" => Measure::Order,
            _ => Measure::Cosine,
        }
    }
}

impl Default for Vse {
    fn default() -> Self {
        Vse {
            dim: 1024,
            word_dim: 300,
            pooling: Pooling::Last,
            normalise_images: true,
            absolute: false,
            measure: Measure::Cosine,
        }
    }
}

impl Vse {
    pub(crate) fn presets() -> [(&'static str, Self); 2] {
        [("vse++", Vse::default()), ("vse0", Vse { normalise_images: false, ..Vse::default() })]
    }

    fn signed(&self, rows: Tensor) -> Result<Tensor, Error> {
        Ok(if self.absolute { abs(&rows)? } else { rows })
    }
}

impl Architecture for Vse {
    fn name(&self) -> &str {
        if self.normalise_images { "vse++" } else { "vse0" }
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn reads_words(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), Error> {
        check_size("dim", self.dim)?;
        check_size("word_dim", self.word_dim)
    }

    fn declare(&self, inputs: Inputs) -> Vec<Declared> {
        let mut all = image_layer(inputs.image, self.dim, false);
        all.extend(word_layers(inputs.text, self.word_dim, self.dim, Reading::Forwards));
        all
    }

    /// Averages the regions of an image first.
    fn encode_images(&self, pass: &Pass<'_>, features: &Tensor) -> Result<Encoded, Error> {
        let rows = image_states(pass, &mean_regions(features)?)?;
        let rows = if self.normalise_images { unit_rows(&rows, 0.0)? } else { rows };
        Ok(Encoded::uniform(self.signed(rows)?, 1)?)
    }

    fn encode_texts(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Encoded, Error> {
        let (states, offsets) = word_states(pass, texts, Reading::Forwards)?;
        let states = match self.pooling {
            Pooling::Last => {
                let last: Vec<u32> = offsets[1..].iter().map(|&end| end as u32 - 1).collect();
                gather(&states, &last)?
            }
            Pooling::Mean => mean_spans(&states, &offsets)?,
        };
        let states = pass.dropout(Layer::States, Side::Text, &states)?;
        let rows = unit_rows(&states, 0.0)?;
        Ok(Encoded::uniform(self.signed(rows)?, 1)?)
    }

    fn comparison(&self, weights: &Weights) -> Result<Box<dyn Comparison>, Error> {
        Ok(match self.measure {
            Measure::Cosine => Box::new(Dot { members: weights.members() }),
            Measure::Order => Box::new(Order { members: weights.members() }),
        })
    }

    fn trains_together(&self) -> bool {
        true
    }

    fn training(&self) -> Training {
        let violation = if self.normalise_images { Violation::Max } else { Violation::Sum };
        Training { violation, ..Training::default() }
    }

    fn set(&mut self, setting: Setting) -> bool {
        match setting {
            Setting::Dim(dim) => self.dim = dim,
            Setting::WordDim(dim) => self.word_dim = dim,
            Setting::Pooling(pooling) => self.pooling = pooling,
            _ => return false,
        }
        true
    }
}
