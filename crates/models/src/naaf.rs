//! NAAF (Zhang, Mao, Wang and Zhang, CVPR 2022, <https://arxiv.org/abs/2203.16239>): words that no
//! region matches count against a caption. What matches is above a threshold, which training finds
//! between the products of words with matched and with mismatched images.

use std::sync::{Mutex, PoisonError};

use nextpair_data::Side;
use nextpair_engine::Similarity;
use nextpair_kernels::ops::{MinedBatch, Penalty, Thresholded};
use nextpair_kernels::{Device, Encoded, Precision, Tensor};
use serde::{Deserialize, Serialize};

use crate::comparison::tiles;
use crate::config::check_positive;
use crate::encoder::Encoders;
use crate::published::Options;
use crate::{
    Architecture, Comparison, Declared, Encodings, Error, Inputs, Pass, Setting, Texts, Training,
    Weights,
};

/// Settings of NAAF.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Naaf {
    /// The encoders.
    pub encoders: Encoders,
    /// Temperature of both attentions, lambda.
    pub temperature: f32,
    /// How much worse it is to take a mismatch for a match than the other way round, alpha.
    pub penalty: f32,
}

impl Default for Naaf {
    fn default() -> Self {
        Naaf { encoders: Encoders::default(), temperature: 20.0, penalty: 2.0 }
    }
}

/// The threshold of training and that of evaluation.
const THRESHOLDS: [&str; 2] = ["thres", "thres_safe"];

impl Naaf {
    pub(crate) fn presets() -> [(&'static str, Self); 1] {
        [("naaf", Naaf::default())]
    }

    /// Settings of a published training.
    pub(crate) fn from_published(options: &Options<'_>) -> Result<Self, Error> {
        let default = Naaf::default();
        let number = |key: &str, or: f32| options.number(key).map_or(or, |number| number as f32);
        let encoders = Encoders {
            dim: options.size("embed_size")?,
            word_dim: options.size("word_dim")?,
            normalise_images: !options.flag("no_imgnorm"),
            normalise_texts: !options.flag("no_txtnorm"),
            weight_norm: false,
        };
        let temperature = number("lambda_softmax", default.temperature);
        Ok(Naaf { encoders, temperature, penalty: number("alpha", default.penalty) })
    }
}

impl Architecture for Naaf {
    fn name(&self) -> &str {
        "naaf"
    }

    fn dim(&self) -> usize {
        self.encoders.dim
    }

    fn reads_words(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), Error> {
        self.encoders.check()?;
        check_positive("temperature", self.temperature)?;
        check_positive("penalty", self.penalty)
    }

    fn declare(&self, inputs: Inputs) -> Vec<Declared> {
        let mut all = self.encoders.declare(inputs);
        all.extend(THRESHOLDS.map(|name| Declared::buffer(name, &[1], 0.0)));
        all
    }

    fn encode_images(&self, pass: &Pass<'_>, features: &Tensor) -> Result<Encoded, Error> {
        self.encoders.images(pass, features)
    }

    fn encode_texts(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Encoded, Error> {
        self.encoders.texts(pass, texts)
    }

    fn comparison(&self, weights: &Weights) -> Result<Box<dyn Comparison>, Error> {
        let threshold = weights.get(THRESHOLDS[1])?.to_f32s()?[0];
        Ok(Box::new(Fixed { comparison: Thresholded::new(self.temperature)?, threshold }))
    }

    fn training_comparisons<'a>(
        &self,
        pass: &'a Pass<'_>,
    ) -> Result<Vec<Box<dyn Comparison + 'a>>, Error> {
        let comparison = Thresholded::new(self.temperature)?;
        let penalty = f64::from(self.penalty);
        Ok(vec![Box::new(Mined { pass, comparison, penalty, thresholds: Mutex::default() })])
    }

    fn training(&self) -> Training {
        Training { epochs: 20, batch: 128, rate: 5e-4, decay_every: 10, ..Training::default() }
    }

    fn set(&mut self, setting: Setting) -> bool {
        match setting {
            Setting::Temperature(temperature) => self.temperature = temperature,
            other => return self.encoders.set(other),
        }
        true
    }
}

/// Comparison in evaluation, with one threshold.
#[derive(Clone)]
struct Fixed {
    comparison: Thresholded,
    threshold: f32,
}

impl Comparison for Fixed {
    fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        let thresholds = vec![self.threshold; texts.len()];
        let how = (&thresholds[..], Penalty::Smoothed);
        Ok(self.comparison.pair_scores(images, texts, pairs, how, known)?)
    }

    fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        if images.rows.device() == Device::Reference {
            let pairs = Encoded::all_pairs(images, texts);
            let (images, texts) = (images.detached(), texts.detached());
            return Ok(self.pair_scores(&images, &texts, &pairs, None)?.to_f32s()?);
        }
        Ok(self.comparison.scores(images, texts, self.threshold)?)
    }

    fn similarity(
        self: Box<Self>,
        of_rows: Side,
        rows: Encodings,
        columns: Encodings,
        device: Device,
    ) -> Result<Box<dyn Similarity>, Error> {
        // Its scores are in single precision in any case.
        let device = device.with_precision(Precision::Fp32);
        tiles(self, |own, _| own.clone(), of_rows, (rows, columns), device)
    }
}

/// Comparison in training, where every caption has a threshold, which depends on those before it.
struct Mined<'a> {
    pass: &'a Pass<'a>,
    comparison: Thresholded,
    penalty: f64,
    /// The threshold of every caption of the batch, once it is known.
    thresholds: Mutex<Option<Vec<f32>>>,
}

impl Mined<'_> {
    /// The scores of a batch. Thresholds move on.
    fn mine(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        let [threshold, safe] = THRESHOLDS.map(|name| self.pass.weight(name));
        let (threshold, safe) = (threshold?, safe?);
        let before = [threshold.to_f64s()?[0], safe.to_f64s()?[0]];
        let MinedBatch { scores, thresholds, after } =
            self.comparison.mine(images, texts, self.penalty, before)?;
        for (name, (tensor, value)) in
            THRESHOLDS.into_iter().zip([threshold, safe].into_iter().zip(after))
        {
            self.pass.observe(name, tensor.like(vec![value])?);
        }
        *self.thresholds.lock().unwrap_or_else(PoisonError::into_inner) = Some(thresholds);
        Ok(scores)
    }
}

impl Comparison for Mined<'_> {
    fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        let found = || self.thresholds.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if found().is_none() {
            self.mine(images, texts)?;
        }
        let thresholds = found().expect("found just now");
        let how = (&thresholds[..], Penalty::Own);
        Ok(self.comparison.pair_scores(images, texts, pairs, how, known)?)
    }

    fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        self.mine(images, texts)
    }
}
