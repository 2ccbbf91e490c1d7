//! Heads on frozen embeddings: what people train who have vectors of CLIP, SigLIP, MiniLM or any
//! other encoder. One linear layer or a small perceptron per side, then the cosine.

use candle_core::{D, Tensor};
use serde::{Deserialize, Serialize};

use crate::encoder::mean_regions;
use crate::linear::linear;
use crate::norm::unit_rows;
use crate::parameters::{Declared, Parameters, Start};
use crate::ragged::Encoded;
use crate::{Error, Scorer, Texts};

/// The settings of heads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Heads {
    /// Coordinates of the joint space.
    pub dim: usize,
    /// Units of a hidden layer between features and joint space; 0 for a linear head.
    pub hidden: usize,
}

impl Default for Heads {
    fn default() -> Self {
        Heads { dim: 256, hidden: 0 }
    }
}

impl Heads {
    pub(crate) fn declared(&self, image: usize, text: usize) -> Vec<Declared> {
        let mut all = Vec::new();
        for (side, features) in [("image", image), ("text", text)] {
            let mut layer = |name: &str, from: usize, to: usize| {
                let bound = Start::Uniform((6.0 / (from + to) as f64).sqrt());
                all.push(Declared::new(format!("{side}.{name}.weight"), &[to, from], bound));
                all.push(Declared::new(format!("{side}.{name}.bias"), &[to], Start::Zero));
            };
            match self.hidden {
                0 => layer("out", features, self.dim),
                hidden => {
                    layer("hidden", features, hidden);
                    layer("out", hidden, self.dim);
                }
            }
        }
        all
    }

    /// Images with several regions are averaged first.
    pub(crate) fn images(&self, weights: &Parameters, features: &Tensor) -> Result<Encoded, Error> {
        self.project(weights, "image", &mean_regions(features)?)
    }

    pub(crate) fn texts(&self, weights: &Parameters, texts: &Texts) -> Result<Encoded, Error> {
        match texts {
            Texts::Vectors(vectors) => self.project(weights, "text", vectors),
            Texts::Words { .. } => Err(Error::Shape {
                what: "the captions".to_owned(),
                found: "words".to_owned(),
                expected: "vectors".to_owned(),
            }),
        }
    }

    fn project(&self, weights: &Parameters, side: &str, rows: &Tensor) -> Result<Encoded, Error> {
        let layer = |rows: &Tensor, name: &str| {
            let weight = weights.get(&format!("{side}.{name}.weight"))?;
            let (found, expected) = (rows.dim(D::Minus1)?, weight.dim(1)?);
            if found != expected {
                return Err(Error::Shape {
                    what: format!("the {side} features"),
                    found: format!("{found} numbers each"),
                    expected: expected.to_string(),
                });
            }
            linear(rows, weight, weights.get(&format!("{side}.{name}.bias"))?)
        };
        let rows = match self.hidden {
            0 => rows.clone(),
            _ => layer(rows, "hidden")?.relu()?,
        };
        Encoded::uniform(unit_rows(&layer(&rows, "out")?, 1e-8)?, 1)
    }

    pub(crate) fn scorer(&self) -> Scorer {
        Scorer::Dot
    }
}
