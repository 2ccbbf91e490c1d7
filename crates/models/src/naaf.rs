//! NAAF (Zhang, Mao, Wang and Zhang, CVPR 2022, <https://arxiv.org/abs/2203.16239>): words that no
//! region matches count against a caption. What matches is above a threshold, which training finds
//! between the products of words with matched and with mismatched images.

mod compare;
mod mining;

use std::sync::Mutex;

use nextpair_kernels::{Encoded, Tensor};
use serde::{Deserialize, Serialize};

use crate::composed::Composed;
use crate::config::check_positive;
use crate::encoder::Encoders;
use crate::published::Options;
use crate::{
    Architecture, Comparison, Declared, Error, Inputs, Pass, Setting, Texts, Training, Weights,
};
use compare::{Mined, Thresholded, Thresholds};

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
        let thresholds = Thresholds::Smoothed(threshold);
        let model = Thresholded { temperature: self.temperature, thresholds };
        Ok(Box::new(Composed { model, weights: weights.clone() }))
    }

    fn training_comparisons<'a>(
        &self,
        pass: &'a Pass<'_>,
    ) -> Result<Vec<Box<dyn Comparison + 'a>>, Error> {
        let (temperature, penalty) = (self.temperature, self.penalty.into());
        Ok(vec![Box::new(Mined { pass, temperature, penalty, thresholds: Mutex::default() })])
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
