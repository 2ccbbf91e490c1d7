//! From features and words to vectors of the joint space.

use candle_core::{D, Tensor};
use serde::{Deserialize, Serialize};

use crate::gru;
use crate::linear::linear;
use crate::norm::unit_rows;
use crate::parameters::{Declared, Parameters, Start};
use crate::ragged::{Encoded, indices};
use crate::{Error, Texts};

/// Added to norms, as SCAN and IMRAM do.
const EPSILON: f32 = 1e-8;

/// What the encoders of SCAN and IMRAM have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Encoders {
    /// Coordinates of the joint space.
    pub dim: usize,
    /// Coordinates of a word before the recurrent unit.
    pub word_dim: usize,
    /// Whether regions are scaled to unit length.
    pub normalise_images: bool,
    /// Whether words are scaled to unit length.
    pub normalise_texts: bool,
    /// Whether the image layer is a direction and one scale.
    pub weight_norm: bool,
}

impl Default for Encoders {
    fn default() -> Self {
        Encoders {
            dim: 1024,
            word_dim: 300,
            normalise_images: true,
            normalise_texts: true,
            weight_norm: false,
        }
    }
}

impl Encoders {
    /// The weights for features of `features` coordinates and a vocabulary of `words`.
    pub(crate) fn declared(&self, features: usize, words: usize) -> Vec<Declared> {
        let mut all = image_layer(features, self.dim, self.weight_norm);
        all.extend(word_layers(words, self.word_dim, self.dim, 2));
        all
    }

    /// Regions of images: a linear layer, then unit length.
    pub(crate) fn images(&self, weights: &Parameters, features: &Tensor) -> Result<Encoded, Error> {
        let regions = match *features.dims() {
            [_, 0, _] => return Err(Error::NoRegions { what: "every image".to_owned() }),
            [_, regions, _] => regions,
            _ => 1,
        };
        let rows = linear_images(weights, &features.flatten(0, D::Minus2)?)?;
        let rows = if self.normalise_images { unit_rows(&rows, EPSILON)? } else { rows };
        Encoded::uniform(rows, regions)
    }

    /// Words of captions: both directions of the recurrent unit averaged, then unit length.
    pub(crate) fn texts(&self, weights: &Parameters, texts: &Texts) -> Result<Encoded, Error> {
        let (rows, offsets) = word_states(weights, texts, 2)?;
        let rows = if self.normalise_texts { unit_rows(&rows, EPSILON)? } else { rows };
        Ok(Encoded { rows, offsets })
    }
}

/// One vector per image: the mean of its regions.
pub(crate) fn mean_regions(features: &Tensor) -> Result<Tensor, Error> {
    match *features.dims() {
        [_, 0, _] => Err(Error::NoRegions { what: "every image".to_owned() }),
        [_, _, _] => Ok(features.mean(1)?),
        _ => Ok(features.clone()),
    }
}

/// The weights of the linear layer of images.
pub(crate) fn image_layer(features: usize, dim: usize, weight_norm: bool) -> Vec<Declared> {
    if weight_norm {
        // What PyTorch gives a linear layer by default, and the scale that leaves it as it is.
        let bound = Start::Uniform(1.0 / (features as f64).sqrt());
        return vec![
            Declared::new("img_fc.weight_v", &[dim, features], bound),
            Declared::new("img_fc.weight_g", &[1], Start::NormOfPrevious),
            Declared::new("img_fc.bias", &[dim], bound),
        ];
    }
    let bound = Start::Uniform((6.0 / (features + dim) as f64).sqrt());
    vec![
        Declared::new("img_fc.weight", &[dim, features], bound),
        Declared::new("img_fc.bias", &[dim], Start::Zero),
    ]
}

/// The weights of the word table and of the recurrent unit.
pub(crate) fn word_layers(
    words: usize,
    word_dim: usize,
    dim: usize,
    directions: usize,
) -> Vec<Declared> {
    let mut all = vec![Declared::new("embed.weight", &[words, word_dim], Start::Uniform(0.1))];
    let bound = Start::Uniform(1.0 / (dim as f64).sqrt());
    for suffix in &DIRECTIONS[..directions] {
        let of = |name: &str| format!("gru.{name}_l0{suffix}");
        all.push(Declared::new(of("weight_ih"), &[3 * dim, word_dim], bound));
        all.push(Declared::new(of("weight_hh"), &[3 * dim, dim], bound));
        all.push(Declared::new(of("bias_ih"), &[3 * dim], bound));
        all.push(Declared::new(of("bias_hh"), &[3 * dim], bound));
    }
    all
}

/// What ends the names of the two directions' weights.
const DIRECTIONS: [&str; 2] = ["", "_reverse"];

/// `X W^T + b` for rows of features.
pub(crate) fn linear_images(weights: &Parameters, rows: &Tensor) -> Result<Tensor, Error> {
    let weight = match weights.get("img_fc.weight_v") {
        Ok(direction) => {
            let norm = direction.sqr()?.sum_all()?.sqrt()?;
            direction.broadcast_mul(&(weights.get("img_fc.weight_g")?.squeeze(0)? / norm)?)?
        }
        Err(_) => weights.get("img_fc.weight")?.clone(),
    };
    let (found, expected) = (rows.dim(D::Minus1)?, weight.dim(1)?);
    if found != expected {
        return Err(Error::Shape {
            what: "the image features".to_owned(),
            found: format!("{found} numbers a region"),
            expected: expected.to_string(),
        });
    }
    linear(rows, &weight, weights.get("img_fc.bias")?)
}

/// The states of the recurrent unit at every word.
pub(crate) fn word_states(
    weights: &Parameters,
    texts: &Texts,
    directions: usize,
) -> Result<(Tensor, Vec<usize>), Error> {
    let Texts::Words { ids, offsets } = texts else {
        return Err(Error::Shape {
            what: "the captions".to_owned(),
            found: "vectors".to_owned(),
            expected: "words".to_owned(),
        });
    };
    let table = weights.get("embed.weight")?;
    let known = table.dim(0)?;
    for (caption, span) in offsets.windows(2).enumerate() {
        if span[0] == span[1] {
            return Err(Error::NoWords { caption });
        }
        if let Some(&id) = ids[span[0]..span[1]].iter().find(|&&id| id as usize >= known) {
            return Err(Error::UnknownWord { caption, id, words: known });
        }
    }
    let words = table.index_select(&indices(ids.clone(), table.device())?, 0)?;
    let all = |name: &str| {
        let parts = DIRECTIONS[..directions]
            .iter()
            .map(|suffix| weights.get(&format!("gru.{name}_l0{suffix}")))
            .collect::<Result<Vec<_>, Error>>()?;
        match parts[..] {
            [only] => Ok(only.clone()),
            _ => Ok::<_, Error>(Tensor::cat(&parts, 0)?),
        }
    };
    let inputs = linear(&words, &all("weight_ih")?, &all("bias_ih")?)?;
    let states = gru::hidden_states(&inputs, &all("weight_hh")?, &all("bias_hh")?, offsets)?;
    Ok((states, offsets.clone()))
}
