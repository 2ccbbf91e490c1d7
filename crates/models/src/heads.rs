//! Heads on frozen embeddings, for vectors of CLIP, SigLIP, MiniLM or any other encoder. One linear
//! layer or a small perceptron per side, then the cosine.

use nextpair_data::Side;
use nextpair_kernels::ops::{relu, unit_rows};
use nextpair_kernels::{Encoded, Tensor};
use serde::{Deserialize, Serialize};

use crate::config::check_size;
use crate::encoder::{layer, mean_regions};
use crate::weights::Start;
use crate::{
    Architecture, Comparison, Declared, Dot, Error, Inputs, Layer, Pass, Setting, Texts, Weights,
};

/// Settings of heads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Heads {
    /// Dimensions of the joint space.
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
    pub(crate) fn presets() -> [(&'static str, Self); 1] {
        [("heads", Heads::default())]
    }

    fn project(&self, pass: &Pass<'_>, side: Side, rows: &Tensor) -> Result<Encoded, Error> {
        let of = side.to_string();
        let layer = |rows: &Tensor, name: &str| {
            let weight = pass.weight(&format!("{of}.{name}.weight"))?;
            layer(rows, weight, pass.weight(&format!("{of}.{name}.bias"))?, &of, "each")
        };
        let rows = pass.dropout(Layer::Inputs, side, rows)?;
        let rows = match self.hidden {
            0 => rows,
            _ => pass.dropout(Layer::Hidden, side, &relu(&layer(&rows, "hidden")?)?)?,
        };
        let states = pass.dropout(Layer::States, side, &layer(&rows, "out")?)?;
        Ok(Encoded::uniform(unit_rows(&states, 1e-8)?, 1)?)
    }
}

impl Architecture for Heads {
    fn name(&self) -> &str {
        "heads"
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn reads_words(&self) -> bool {
        false
    }

    fn check(&self) -> Result<(), Error> {
        check_size("dim", self.dim)?;
        check_size("hidden", self.hidden.max(1))
    }

    fn declare(&self, inputs: Inputs) -> Vec<Declared> {
        let mut all = Vec::new();
        for (side, features) in [("image", inputs.image), ("text", inputs.text)] {
            let mut layer = |name: &str, from: usize, to: usize| {
                let bound = Start::Uniform((6.0 / (from + to) as f64).sqrt());
                let zero = Start::Constant(0.0);
                all.push(Declared::new(format!("{side}.{name}.weight"), &[to, from], bound));
                all.push(Declared::new(format!("{side}.{name}.bias"), &[to], zero));
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

    /// Averages the regions of an image first.
    fn encode_images(&self, pass: &Pass<'_>, features: &Tensor) -> Result<Encoded, Error> {
        self.project(pass, Side::Image, &mean_regions(features)?)
    }

    fn encode_texts(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Encoded, Error> {
        match texts {
            Texts::Vectors(vectors) => self.project(pass, Side::Text, vectors),
            Texts::Words { .. } => Err(Error::Shape {
                what: "the captions".to_owned(),
                found: "words".to_owned(),
                expected: "vectors".to_owned(),
            }),
        }
    }

    fn comparison(&self, _weights: &Weights) -> Result<Box<dyn Comparison>, Error> {
        Ok(Box::new(Dot))
    }

    fn trains_together(&self) -> bool {
        true
    }

    fn set(&mut self, setting: Setting) -> bool {
        match setting {
            Setting::Dim(dim) => self.dim = dim,
            Setting::Hidden(units) => self.hidden = units,
            _ => return false,
        }
        true
    }
}
