//! Encoders: from features and words to vectors of the joint space.

use std::ops::Range;

use nextpair_data::Side;
use nextpair_kernels::ops::{
    concat, gather, gru, gru_side_by_side, linear, mean_rows, unit_rows, weight_norm,
};
use nextpair_kernels::{Encoded, Tensor};
use serde::{Deserialize, Serialize};

use crate::config::check_size;
use crate::weights::{Declared, Start};
use crate::{Error, Inputs, Layer, Pass, Setting, Texts};

/// Added to norms, as in SCAN and IMRAM.
pub(crate) const EPSILON: f32 = 1e-8;

/// Settings that the encoders of SCAN and IMRAM share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Encoders {
    /// Dimensions of the joint space.
    pub dim: usize,
    /// Dimensions of a word before the recurrent unit.
    pub word_dim: usize,
    /// Whether to scale regions to unit norm.
    pub normalise_images: bool,
    /// Whether to scale words to unit norm.
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
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_size("dim", self.dim)?;
        check_size("word_dim", self.word_dim)
    }

    pub(crate) fn set(&mut self, setting: Setting) -> bool {
        match setting {
            Setting::Dim(dim) => self.dim = dim,
            Setting::WordDim(dim) => self.word_dim = dim,
            Setting::WeightNorm(on) => self.weight_norm = on,
            _ => return false,
        }
        true
    }

    pub(crate) fn declare(&self, inputs: Inputs) -> Vec<Declared> {
        let mut all = image_layer(inputs.image, self.dim, self.weight_norm);
        all.extend(word_layers(inputs.text, self.word_dim, self.dim, Reading::BothWays));
        all
    }

    /// Encodes the regions of images: a linear layer, then unit norm.
    pub(crate) fn images(&self, pass: &Pass<'_>, features: &Tensor) -> Result<Encoded, Error> {
        let (rows, regions) = region_rows(features)?;
        let rows = image_states(pass, &rows)?;
        let rows = if self.normalise_images { unit_rows(&rows, EPSILON)? } else { rows };
        Ok(Encoded::uniform(rows, regions)?)
    }

    /// Encodes the words of captions: the mean of both directions of the recurrent unit, then unit
    /// norm.
    pub(crate) fn texts(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Encoded, Error> {
        let (rows, offsets) = word_states(pass, texts, Reading::BothWays)?;
        let rows = pass.dropout_of_words(Layer::States, &rows, &offsets)?;
        let rows = if self.normalise_texts { unit_rows(&rows, EPSILON)? } else { rows };
        Ok(Encoded { rows, offsets })
    }
}

/// The regions of all images as rows, and the number of regions per image.
pub(crate) fn region_rows(features: &Tensor) -> Result<(Tensor, usize), Error> {
    match *features.shape() {
        [_, 0, _] => Err(Error::NoRegions { what: "every image".to_owned() }),
        [images, regions, dim] => Ok((features.reshaped(&[images * regions, dim])?, regions)),
        _ => Ok((features.clone(), 1)),
    }
}

/// One vector per image: the mean of its regions.
pub(crate) fn mean_regions(features: &Tensor) -> Result<Tensor, Error> {
    let (rows, regions) = region_rows(features)?;
    Ok(mean_rows(&rows, regions)?)
}

/// The weights of the linear layer of images.
pub(crate) fn image_layer(features: usize, dim: usize, weight_norm: bool) -> Vec<Declared> {
    if weight_norm {
        // PyTorch's default for a linear layer, and the scale that preserves it.
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
        Declared::new("img_fc.bias", &[dim], Start::Constant(0.0)),
    ]
}

/// The directions in which captions are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Forwards,
    BothWays,
}

impl Reading {
    /// Suffixes of the weights' names, one per direction.
    fn suffixes(self) -> &'static [&'static str] {
        match self {
            Reading::Forwards => &[""],
            Reading::BothWays => &["", "_reverse"],
        }
    }
}

/// The weights of the word table and of the recurrent unit.
pub(crate) fn word_layers(
    words: usize,
    word_dim: usize,
    dim: usize,
    reading: Reading,
) -> Vec<Declared> {
    let mut all = vec![Declared::new("embed.weight", &[words, word_dim], Start::Uniform(0.1))];
    all.extend(recurrent_layers("gru", word_dim, dim, reading));
    all
}

/// The weights of a recurrent unit called `name`.
pub(crate) fn recurrent_layers(
    name: &str,
    inputs: usize,
    dim: usize,
    reading: Reading,
) -> Vec<Declared> {
    let mut all = Vec::new();
    let bound = Start::Uniform(1.0 / (dim as f64).sqrt());
    for suffix in reading.suffixes() {
        let of = |part: &str| format!("{name}.{part}_l0{suffix}");
        all.push(Declared::new(of("weight_ih"), &[3 * dim, inputs], bound));
        all.push(Declared::new(of("weight_hh"), &[3 * dim, dim], bound));
        all.push(Declared::new(of("bias_ih"), &[3 * dim], bound));
        all.push(Declared::new(of("bias_hh"), &[3 * dim], bound));
    }
    all
}

/// The states of the recurrent unit called `name` at every row, averaged over its directions; `offsets`
/// has the first row of each item, then the end of the last.
pub(crate) fn recurrent_states(
    pass: &Pass<'_>,
    name: &str,
    rows: &Tensor,
    offsets: &[usize],
    reading: Reading,
) -> Result<Tensor, Error> {
    let [inputs, weight, bias] = recurrent_inputs(pass, name, rows, reading)?;
    Ok(gru(&inputs, &weight, &bias, offsets)?)
}

/// The same with the states of both directions side by side.
pub(crate) fn recurrent_halves(
    pass: &Pass<'_>,
    name: &str,
    rows: &Tensor,
    offsets: &[usize],
) -> Result<Tensor, Error> {
    let [inputs, weight, bias] = recurrent_inputs(pass, name, rows, Reading::BothWays)?;
    Ok(gru_side_by_side(&inputs, &weight, &bias, offsets)?)
}

/// The products of rows with the inputs' weights, and the weights and biases of states, of all
/// directions.
fn recurrent_inputs(
    pass: &Pass<'_>,
    name: &str,
    rows: &Tensor,
    reading: Reading,
) -> Result<[Tensor; 3], Error> {
    // Weights of several members have another axis before that of their rows.
    let axis = usize::from(pass.weights().members() > 1);
    let all = |part: &str| {
        let suffixes = reading.suffixes().iter();
        let parts = suffixes.map(|suffix| pass.weight(&format!("{name}.{part}_l0{suffix}")));
        Ok::<_, Error>(concat(&parts.collect::<Result<Vec<_>, Error>>()?, axis)?)
    };
    let inputs = linear(rows, &all("weight_ih")?, &all("bias_ih")?)?;
    Ok([inputs, all("weight_hh")?, all("bias_hh")?])
}

/// `X W^T + b` for rows of features, with dropout on both sides of it.
pub(crate) fn image_states(pass: &Pass<'_>, rows: &Tensor) -> Result<Tensor, Error> {
    let weight = if pass.weights().has("img_fc.weight_v") {
        weight_norm(pass.weight("img_fc.weight_v")?, pass.weight("img_fc.weight_g")?)?
    } else {
        pass.weight("img_fc.weight")?.clone()
    };
    let rows = pass.dropout(Layer::Inputs, Side::Image, rows)?;
    let states = layer(&rows, &weight, pass.weight("img_fc.bias")?, "image", "a region")?;
    pass.dropout(Layer::States, Side::Image, &states)
}

/// A linear layer on features, which may come from another dataset than the weights.
pub(crate) fn layer(
    rows: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    side: &str,
    each: &str,
) -> Result<Tensor, Error> {
    // A weight of several members has three axes.
    let (found, expected) = (rows.matrix_shape()?.1, weight.shape().last().copied().unwrap_or(0));
    if found != expected {
        return Err(Error::Shape {
            what: format!("the {side} features"),
            found: format!("{found} numbers {each}"),
            expected: expected.to_string(),
        });
    }
    Ok(linear(rows, weight, bias)?)
}

/// The states of the recurrent unit at every word, and the offset of each caption. Several members have
/// equally many captions each.
pub(crate) fn word_states(
    pass: &Pass<'_>,
    texts: &Texts,
    reading: Reading,
) -> Result<(Tensor, Vec<usize>), Error> {
    let table = pass.weight("embed.weight")?;
    // A table of several members has three axes.
    let [.., known, word_dim] = *table.shape() else {
        return Err(nextpair_kernels::Error::NotAMatrix { shape: table.shape().to_vec() }.into());
    };
    let (ids, offsets) = checked_words(texts, known)?;
    // All words are in one table, with `known` of each member.
    let members = pass.weights().members();
    let table = match members {
        1 => table.clone(),
        _ => table.reshaped(&[members * known, word_dim])?,
    };
    let captions = (offsets.len() - 1) / members;
    let span = |member: usize| offsets[member * captions]..offsets[(member + 1) * captions];
    let spans: Vec<Range<usize>> = (0..members).map(span).collect();
    let own = spans.iter().enumerate().flat_map(|(member, span)| {
        ids[span.clone()].iter().map(move |&id| (member * known) as u32 + id)
    });
    let words = gather(&table, &own.collect::<Vec<u32>>())?;
    let mut words = pass.dropout_of_words(Layer::Inputs, &words, offsets)?;
    // Members have the rows of the longest; what is missing is another word, which nobody reads.
    let longest = spans.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
    if spans.iter().any(|span| span.len() < longest) {
        let padded = spans.iter().flat_map(|span| {
            (0..longest).map(|row| (span.start + row.min(span.len().saturating_sub(1))) as u32)
        });
        words = gather(&words, &padded.collect::<Vec<u32>>())?;
    }
    Ok((recurrent_states(pass, "gru", &words, offsets, reading)?, offsets.to_vec()))
}

/// The ids of the words of captions, and the first word of each: all of them below `known`.
pub(crate) fn checked_words(texts: &Texts, known: usize) -> Result<(&[u32], &[usize]), Error> {
    let Texts::Words { ids, offsets } = texts else {
        return Err(Error::Shape {
            what: "the captions".to_owned(),
            found: "vectors".to_owned(),
            expected: "words".to_owned(),
        });
    };
    for (caption, span) in offsets.windows(2).enumerate() {
        if span[0] == span[1] {
            return Err(Error::NoWords { caption });
        }
        if let Some(&id) = ids[span[0]..span[1]].iter().find(|&&id| id as usize >= known) {
            return Err(Error::UnknownWord { caption, id, words: known });
        }
    }
    Ok((ids, offsets))
}
