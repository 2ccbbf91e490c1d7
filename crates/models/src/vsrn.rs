//! VSRN (Li, Zhang, Li, Li and Fu, ICCV 2019, <https://arxiv.org/abs/1909.02701>): graph layers relate
//! the regions of an image, a recurrent unit reads them, and captions are those of VSE++. Training also
//! learns to [write the captions](Captioner).

mod captions;

use nextpair_data::Side;
use nextpair_kernels::ops::{
    Groups, Tables, abs, add, gather, linear, scale, unit_columns, unit_rows,
};
use nextpair_kernels::{Encoded, Tensor};
use serde::{Deserialize, Serialize};

use crate::config::check_size;
use crate::encoder::{
    Reading, image_layer, layer, recurrent_layers, recurrent_states, region_rows, word_layers,
    word_states,
};
use crate::published::Options;
use crate::vse::Measure;
use crate::weights::Start;
use crate::{
    Architecture, Batch, Comparison, Declared, Dot, Error, Inputs, Layer, Order, Pass, Setting,
    Texts, Training, Weights, batch_norm_layer,
};
pub use captions::Captioner;

/// Settings of VSRN. The defaults are those of its training on COCO, and on any dataset but Flickr30K.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Vsrn {
    /// Dimensions of the joint space.
    pub dim: usize,
    /// Dimensions of a word before the recurrent unit.
    pub word_dim: usize,
    /// Graph layers.
    pub layers: usize,
    /// Whether columns of regions are scaled to unit norm before the graph: not on Flickr30K.
    pub unit_regions: bool,
    /// Whether images go through a batch norm at the end: on Flickr30K.
    pub batch_norm: bool,
    /// Whether to scale images to unit norm.
    pub normalise_images: bool,
    /// Whether to take absolute values.
    pub absolute: bool,
    /// How to compare images and captions.
    pub measure: Measure,
    /// Whether training also learns to write captions.
    pub caption_loss: bool,
    /// The part that does so.
    pub captioner: Captioner,
}

impl Default for Vsrn {
    fn default() -> Self {
        Vsrn {
            dim: 2048,
            word_dim: 300,
            layers: 4,
            unit_regions: true,
            batch_norm: false,
            normalise_images: true,
            absolute: false,
            measure: Measure::Cosine,
            caption_loss: true,
            captioner: Captioner::default(),
        }
    }
}

/// The name under which the regions are kept for the captioner.
const REGIONS: &str = "regions";

/// The layers of a graph layer.
const GRAPH: [&str; 4] = ["g", "theta", "phi", "out"];

impl Vsrn {
    pub(crate) fn presets() -> [(&'static str, Self); 1] {
        [("vsrn", Vsrn::default())]
    }

    /// The settings of the published implementation, where the name of the data decides.
    pub(crate) fn from_published(options: &Options<'_>) -> Result<Self, Error> {
        let flickr30k = options.text("data_name") == "f30k_precomp";
        // Checkpoints have no captioner.
        let caption_loss = options.flag("caption_loss");
        let captioner = match caption_loss {
            true => Captioner::from_published(options)?,
            false => Captioner::default(),
        };
        Ok(Vsrn {
            dim: options.size("embed_size")?,
            word_dim: options.size("word_dim")?,
            unit_regions: !flickr30k,
            batch_norm: flickr30k,
            normalise_images: !options.flag("no_imgnorm"),
            absolute: options.flag("use_abs"),
            measure: Measure::from_published(options),
            caption_loss,
            captioner,
            ..Vsrn::default()
        })
    }

    fn signed(&self, rows: Tensor) -> Result<Tensor, Error> {
        Ok(if self.absolute { abs(&rows)? } else { rows })
    }

    /// A graph layer: what every region takes from the others, added to it.
    fn related(
        &self,
        pass: &Pass<'_>,
        (number, each): (usize, usize),
        rows: &Tensor,
    ) -> Result<Tensor, Error> {
        let part = |part: &str, rows: &Tensor| {
            let of = |kind: &str| pass.weight(&format!("gcn.{number}.{part}.{kind}"));
            Ok::<_, Error>(linear(rows, of("weight")?, of("bias")?)?)
        };
        let (queries, keys, values) = (part("theta", rows)?, part("phi", rows)?, part("g", rows)?);
        let count = rows.matrix_shape()?.0;
        let regions = Tables::within(&(0..=count).step_by(each).collect::<Vec<_>>())?;
        let affinities = scale(&regions.products(&queries, &keys)?, 1.0 / each as f64)?;
        let taken = part("out", &regions.sums(&affinities, &values)?)?;
        let taken = pass.batch_norm(&format!("gcn.{number}.bn"), &taken, &Groups::Columns)?;
        Ok(add(&taken, rows)?)
    }
}

impl Architecture for Vsrn {
    fn name(&self) -> &str {
        "vsrn"
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
        check_size("layers", self.layers)?;
        self.captioner.check()
    }

    fn declare(&self, inputs: Inputs) -> Vec<Declared> {
        let dim = self.dim;
        let mut all = image_layer(inputs.image, dim, false);
        let bound = Start::Uniform(1.0 / (dim as f64).sqrt());
        for number in 0..self.layers {
            for part in GRAPH {
                let of = |kind: &str| format!("gcn.{number}.{part}.{kind}");
                all.push(Declared::new(of("weight"), &[dim, dim], bound));
                all.push(Declared::new(of("bias"), &[dim], bound));
            }
            // At first a graph layer adds nothing.
            all.extend(batch_norm_layer(&format!("gcn.{number}.bn"), dim, 0.0));
        }
        all.extend(recurrent_layers("img_gru", dim, dim, Reading::Forwards));
        if self.batch_norm {
            all.extend(batch_norm_layer("img_bn", dim, 1.0));
        }
        all.extend(word_layers(inputs.text, self.word_dim, dim, Reading::Forwards));
        if self.caption_loss {
            all.extend(self.captioner.declare(dim, inputs.text));
        }
        all
    }

    fn encode_images(&self, pass: &Pass<'_>, features: &Tensor) -> Result<Encoded, Error> {
        let (rows, each) = region_rows(features)?;
        let rows = pass.dropout(Layer::Inputs, Side::Image, &rows)?;
        let (weight, bias) = (pass.weight("img_fc.weight")?, pass.weight("img_fc.bias")?);
        let mut rows = layer(&rows, weight, bias, "image", "a region")?;
        let regions: Vec<(usize, usize)> = vec![(each, self.dim); rows.matrix_shape()?.0 / each];
        if self.unit_regions {
            rows = unit_columns(&rows, &regions, 0.0)?;
        }
        for number in 0..self.layers {
            rows = self.related(pass, (number, each), &rows)?;
        }
        // Over the regions of an image, not over the numbers of a region, as published.
        let rows = unit_columns(&rows, &regions, 0.0)?;
        let count = rows.matrix_shape()?.0;
        let offsets: Vec<usize> = (0..=count).step_by(each).collect();
        let states = recurrent_states(pass, "img_gru", &rows, &offsets, Reading::Forwards)?;
        if self.caption_loss {
            pass.remember(REGIONS, rows);
        }
        let last: Vec<u32> = offsets[1..].iter().map(|&end| end as u32 - 1).collect();
        let mut images = gather(&states, &last)?;
        if self.batch_norm {
            images = pass.batch_norm("img_bn", &images, &Groups::Columns)?;
        }
        let images = pass.dropout(Layer::States, Side::Image, &images)?;
        let images = if self.normalise_images { unit_rows(&images, 0.0)? } else { images };
        Ok(Encoded::uniform(self.signed(images)?, 1)?)
    }

    fn encode_texts(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Encoded, Error> {
        let (states, offsets) = word_states(pass, texts, Reading::Forwards)?;
        let last: Vec<u32> = offsets[1..].iter().map(|&end| end as u32 - 1).collect();
        let states = pass.dropout(Layer::States, Side::Text, &gather(&states, &last)?)?;
        Ok(Encoded::uniform(self.signed(unit_rows(&states, 0.0)?)?, 1)?)
    }

    fn comparison(&self, _weights: &Weights) -> Result<Box<dyn Comparison>, Error> {
        Ok(match self.measure {
            Measure::Cosine => Box::new(Dot { members: 1 }),
            Measure::Order => Box::new(Order { members: 1 }),
        })
    }

    fn auxiliary_loss(
        &self,
        pass: &Pass<'_>,
        batch: &Batch,
        _images: &Encoded,
        _texts: &Encoded,
    ) -> Result<Option<Tensor>, Error> {
        if !self.caption_loss {
            return Ok(None);
        }
        self.captioner.loss(pass, &pass.recall(REGIONS)?, &batch.texts).map(Some)
    }

    fn training(&self) -> Training {
        Training { epochs: 30, batch: 128, decay_every: 15, ..Training::default() }
    }

    fn set(&mut self, setting: Setting) -> bool {
        match setting {
            Setting::Dim(dim) => self.dim = dim,
            Setting::WordDim(dim) => self.word_dim = dim,
            Setting::CaptionLoss(on) => self.caption_loss = on,
            _ => return false,
        }
        true
    }
}
