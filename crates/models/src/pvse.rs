//! PVSE (Song and Soleymani, CVPR 2019, <https://arxiv.org/abs/1906.04402>): several vectors per image and
//! caption, of which the two most alike count. A vector is that of the whole item plus what a head of
//! attention finds in its regions or words.

use nextpair_data::Side;
use nextpair_kernels::ops::{
    add, attend, columns, concat_columns, discrepancy, gather, layer_norm, linear, mean_rows,
    overlap, scale, sigmoid, softmax_spans, tanh, unit_rows,
};
use nextpair_kernels::{Encoded, Tensor};
use serde::{Deserialize, Serialize};

use crate::config::check_size;
use crate::encoder::{
    Reading, checked_words, layer, recurrent_halves, recurrent_layers, region_rows,
};
use crate::max_dot::MaxDot;
use crate::published::Options;
use crate::training::{OptimiserName, Reduction};
use crate::weights::Start;
use crate::{
    Architecture, Batch, Comparison, Declared, Dot, Error, Inputs, Layer, Pass, Setting, Texts,
    Training, Weights,
};

/// Settings of PVSE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pvse {
    /// Dimensions of the joint space; an even number.
    pub dim: usize,
    /// Dimensions of a word.
    pub word_dim: usize,
    /// Vectors of an item, each with a head of attention.
    pub heads: usize,
    /// Whether images have attention; those of several heads must.
    pub attend_images: bool,
    /// Whether captions have attention; those of several heads must.
    pub attend_texts: bool,
    /// Whether the backward half of a caption has read its last word alone, as in published
    /// checkpoints.
    pub legacy: bool,
    /// Whether the word table is trained. The published training keeps pre-trained vectors; there are
    /// none here.
    pub train_words: bool,
    /// The weight of the loss of heads that see the same.
    pub diversity: f64,
    /// The weight of the loss of images and captions that lie apart as sets.
    pub discrepancy: f64,
}

impl Default for Pvse {
    fn default() -> Self {
        Pvse {
            dim: 1024,
            word_dim: 300,
            heads: 2,
            attend_images: true,
            attend_texts: true,
            legacy: false,
            train_words: true,
            diversity: 0.1,
            discrepancy: 0.01,
        }
    }
}

/// A side with the names of its weights.
#[derive(Clone, Copy)]
struct Half {
    side: Side,
    name: &'static str,
    residual: &'static str,
}

const IMAGES: Half = Half { side: Side::Image, name: "img_pie", residual: "image residuals" };
const TEXTS: Half = Half { side: Side::Text, name: "txt_pie", residual: "text residuals" };

impl Pvse {
    pub(crate) fn presets() -> [(&'static str, Self); 1] {
        [("pvse", Pvse::default())]
    }

    /// The settings of the published implementation.
    pub(crate) fn from_published(options: &Options<'_>) -> Result<Self, Error> {
        Ok(Pvse {
            dim: options.size("embed_size")?,
            word_dim: options.size("word_dim")?,
            heads: options.size("num_embeds")?,
            attend_images: options.flag("img_attention"),
            attend_texts: options.flag("txt_attention"),
            legacy: options.flag("legacy"),
            train_words: options.flag("txt_finetune"),
            diversity: options.number("div_weight").unwrap_or(0.0),
            discrepancy: options.number("mmd_weight").unwrap_or(0.0),
        })
    }

    /// The vectors of items: those of the whole, one each, plus what heads find in `rows`.
    fn embedded(
        &self,
        pass: &Pass<'_>,
        half: Half,
        whole: &Tensor,
        rows: &Tensor,
        offsets: &[usize],
    ) -> Result<Encoded, Error> {
        let attends = half.side.own_and_other(self.attend_images, self.attend_texts).0;
        if !attends {
            return Ok(Encoded::uniform(unit_rows(whole, 0.0)?, 1)?);
        }
        let weight = |part: &str| pass.weight(&format!("{}.{part}", half.name));
        let plain = |rows: &Tensor, weight: &Tensor| {
            let nothing = Tensor::zeros(&[weight.matrix_shape()?.0], rows.device())?;
            linear(rows, weight, &nothing)
        };
        let scores = plain(&tanh(&plain(rows, weight("w1.weight")?)?)?, weight("w2.weight")?)?;
        let found = attend(&softmax_spans(&scores, offsets)?, rows, offsets)?;
        let found = sigmoid(&linear(&found, weight("fc.weight")?, weight("fc.bias")?)?)?;
        let found = pass.dropout(Layer::Hidden, half.side, &found)?;
        pass.remember(half.residual, found.clone());
        let items = whole.matrix_shape()?.0 as u32;
        let each = (0..items).flat_map(|item| std::iter::repeat_n(item, self.heads));
        let sums = add(&gather(whole, &each.collect::<Vec<_>>())?, &found)?;
        let rows = layer_norm(&sums, weight("ln.weight")?, weight("ln.bias")?)?;
        Ok(Encoded::uniform(unit_rows(&rows, 0.0)?, self.heads)?)
    }

    /// The vectors of whole captions: the last states of both directions side by side.
    fn sentences(
        &self,
        pass: &Pass<'_>,
        words: &Tensor,
        offsets: &[usize],
    ) -> Result<Tensor, Error> {
        let states = recurrent_halves(pass, "gru", words, offsets)?;
        let last: Vec<u32> = offsets[1..].iter().map(|&end| end as u32 - 1).collect();
        let last = gather(&states, &last)?;
        if self.legacy {
            return Ok(last);
        }
        let first: Vec<u32> = offsets.iter().rev().skip(1).rev().map(|&at| at as u32).collect();
        let (first, half) = (gather(&states, &first)?, self.dim / 2);
        Ok(concat_columns(&[&columns(&last, 0..half)?, &columns(&first, half..self.dim)?])?)
    }
}

impl Architecture for Pvse {
    fn name(&self) -> &str {
        "pvse"
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn reads_words(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), Error> {
        check_size("dim", self.dim)?;
        check_size("word_dim", self.word_dim)?;
        check_size("heads", self.heads)?;
        if self.dim % 2 == 1 {
            let what = format!("{} is odd; each direction of a caption has half of it", self.dim);
            return Err(Error::setting("dim", what));
        }
        if self.heads > 1 && !(self.attend_images && self.attend_texts) {
            return Err(Error::setting("heads", "several of them need attention on both sides"));
        }
        for (name, weight) in [("diversity", self.diversity), ("discrepancy", self.discrepancy)] {
            if !(weight.is_finite() && weight >= 0.0) {
                return Err(Error::setting(name, format!("{weight} is not at least 0")));
            }
        }
        Ok(())
    }

    fn declare(&self, inputs: Inputs) -> Vec<Declared> {
        let xavier = |from: usize, to: usize| Start::Uniform((6.0 / (from + to) as f64).sqrt());
        let usual = Start::Uniform(1.0 / (inputs.image as f64).sqrt());
        let table = match self.train_words {
            true => Declared::new,
            false => Declared::fixed,
        };
        let words = [inputs.text, self.word_dim];
        let mut all = vec![
            Declared::new("img_fc.weight", &[self.dim, inputs.image], usual),
            Declared::new("img_fc.bias", &[self.dim], usual),
            table("embed.weight".to_owned(), &words, xavier(inputs.text, self.word_dim)),
        ];
        all.extend(recurrent_layers("gru", self.word_dim, self.dim / 2, Reading::BothWays));
        for (half, dim, attends) in
            [(IMAGES, inputs.image, self.attend_images), (TEXTS, self.word_dim, self.attend_texts)]
        {
            let mut part = |part: &str, shape: &[usize], start: Start| {
                if attends {
                    all.push(Declared::new(format!("{}.{part}", half.name), shape, start));
                }
            };
            let hidden = (dim / 2).max(1);
            part("w1.weight", &[hidden, dim], xavier(dim, hidden));
            part("w2.weight", &[self.heads, hidden], xavier(hidden, self.heads));
            part("fc.weight", &[self.dim, dim], xavier(dim, self.dim));
            part("fc.bias", &[self.dim], Start::Constant(0.0));
            part("ln.weight", &[self.dim], Start::Constant(1.0));
            part("ln.bias", &[self.dim], Start::Constant(0.0));
        }
        all
    }

    fn encode_images(&self, pass: &Pass<'_>, features: &Tensor) -> Result<Encoded, Error> {
        let (rows, each) = region_rows(features)?;
        let rows = pass.dropout(Layer::Inputs, Side::Image, &rows)?;
        let (weight, bias) = (pass.weight("img_fc.weight")?, pass.weight("img_fc.bias")?);
        let whole = layer(&mean_rows(&rows, each)?, weight, bias, "image", "a region")?;
        let whole = pass.dropout(Layer::States, Side::Image, &whole)?;
        let offsets: Vec<usize> = (0..=rows.matrix_shape()?.0).step_by(each).collect();
        self.embedded(pass, IMAGES, &whole, &rows, &offsets)
    }

    fn encode_texts(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Encoded, Error> {
        let table = pass.weight("embed.weight")?;
        let (ids, offsets) = checked_words(texts, table.matrix_shape()?.0)?;
        let words = pass.dropout_of_words(Layer::Inputs, &gather(table, ids)?, offsets)?;
        let whole = self.sentences(pass, &words, offsets)?;
        let whole = pass.dropout(Layer::States, Side::Text, &whole)?;
        self.embedded(pass, TEXTS, &whole, &words, offsets)
    }

    fn comparison(&self, _weights: &Weights) -> Result<Box<dyn Comparison>, Error> {
        Ok(match self.heads {
            1 => Box::new(Dot { members: 1 }),
            each => Box::new(MaxDot { each }),
        })
    }

    fn auxiliary_loss(
        &self,
        pass: &Pass<'_>,
        _batch: &Batch,
        images: &Encoded,
        texts: &Encoded,
    ) -> Result<Option<Tensor>, Error> {
        if self.heads == 1 {
            return Ok(None);
        }
        let mut parts = Vec::new();
        if self.diversity > 0.0 {
            for half in [IMAGES, TEXTS] {
                let alike = overlap(&unit_rows(&pass.recall(half.residual)?, 0.0)?, self.heads)?;
                parts.push(scale(&alike, self.diversity)?);
            }
        }
        if self.discrepancy > 0.0 {
            parts.push(scale(&discrepancy(&images.rows, &texts.rows)?, self.discrepancy)?);
        }
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else { return Ok(None) };
        parts.try_fold(first, |sum, part| Ok(add(&sum, &part)?)).map(Some)
    }

    fn training(&self) -> Training {
        Training {
            epochs: 30,
            batch: 256,
            // The released schedule halves the rate whenever dev has not become worse for so long.
            decay_every: 11,
            decay_factor: 0.5,
            optimiser: OptimiserName::Amsgrad,
            margin: 0.1,
            reduction: Reduction::Mean,
            ..Training::default()
        }
    }

    fn set(&mut self, setting: Setting) -> bool {
        match setting {
            Setting::Dim(dim) => self.dim = dim,
            Setting::WordDim(dim) => self.word_dim = dim,
            Setting::Heads(heads) => self.heads = heads,
            _ => return false,
        }
        true
    }
}
