//! Turns the options of the published implementations into our settings.

use nextpair_kernels::{Aggregation, Normaliser};
use serde_json::Value;

use crate::encoder::Encoders;
use crate::imram::{Directions, Imram};
use crate::pvse::Pvse;
use crate::scan::{Asks, Scan};
use crate::vse::{Measure, Vse};
use crate::vse_infinity::VseInfinity;
use crate::vsrn::Vsrn;
use crate::{Camp, Config, Error, Naaf, Sgraf};

/// Name of the options in errors.
const OPTIONS: &str = "options of the checkpoint";

/// Options of a published training.
pub(crate) struct Options<'a>(pub(crate) &'a Value);

impl Options<'_> {
    /// A text, empty if there is none.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or("")
    }

    /// A flag, off if there is none.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.0[key].as_bool().unwrap_or(false)
    }

    /// A number.
    pub(crate) fn number(&self, key: &str) -> Result<f64, Error> {
        let what = || format!("{key} is missing or no number");
        self.0[key].as_f64().ok_or_else(|| Error::setting(OPTIONS, what()))
    }

    /// A number of things.
    pub(crate) fn size(&self, key: &str) -> Result<usize, Error> {
        self.number(key).map(|number| number as usize)
    }

    /// The error of an option.
    pub(crate) fn refused(what: impl Into<String>) -> Error {
        Error::setting(OPTIONS, what)
    }

    /// A number of a list, if there is one.
    pub(crate) fn list(&self, key: &str, at: usize) -> Option<usize> {
        self.0[key][at].as_u64().map(|number| number as usize)
    }
}

impl Config {
    /// The model of a `family`, such as `SCAN` or `VSRN`, trained with these options, which have the
    /// names of the published implementations.
    pub fn from_published(family: &str, options: &Value) -> Result<Self, Error> {
        let options = &Options(options);
        match family {
            "VSE_INF" => return VseInfinity::from_published(options).map(Config::VseInfinity),
            "VSRN" => return Vsrn::from_published(options).map(Config::Vsrn),
            "PVSE" => return Pvse::from_published(options).map(Config::Pvse),
            "SGRAF" => return Sgraf::from_published(options).map(Config::Sgraf),
            "NAAF" => return Naaf::from_published(options).map(Config::Naaf),
            "CAMP" => return Camp::from_published(options).map(Config::Camp),
            _ => {}
        }
        let unknown = |what: String| Error::setting(OPTIONS, what);
        let text = |key: &str| options.text(key);
        let flag = |key: &str| options.flag(key);
        let number = |key: &str| options.number(key);
        let (dim, word_dim) = (number("embed_size")? as usize, number("word_dim")? as usize);
        if family == "VSE++" {
            let measure = Measure::from_published(options);
            let normalise_images = !flag("no_imgnorm");
            let absolute = flag("use_abs");
            let vse = Vse { dim, word_dim, normalise_images, absolute, measure, ..Vse::default() };
            return Ok(Config::Vse(vse));
        }
        let encoders = Encoders {
            dim,
            word_dim,
            normalise_images: !flag("no_imgnorm"),
            normalise_texts: !flag("no_txtnorm"),
            weight_norm: text("precomp_enc_type") == "weight_norm",
        };
        let temperature = number("lambda_softmax")? as f32;
        let normaliser = match text("raw_feature_norm") {
            "clipped_l2norm" => Normaliser::ClippedL2,
            "l2norm" => Normaliser::L2,
            "clipped_l1norm" => Normaliser::ClippedL1,
            "l1norm" => Normaliser::L1,
            "clipped" => Normaliser::Clipped,
            "softmax" => Normaliser::Softmax,
            "no_norm" => Normaliser::None,
            other => return Err(unknown(format!("raw_feature_norm is '{other}'"))),
        };
        match family {
            "SCAN" => {
                let aggregation = match text("agg_func") {
                    "Mean" => Aggregation::Mean,
                    "Sum" => Aggregation::Sum,
                    "Max" => Aggregation::Max,
                    "LogSumExp" => Aggregation::LogSumExp(number("lambda_lse")? as f32),
                    other => return Err(unknown(format!("agg_func is '{other}'"))),
                };
                let direction = match text("cross_attn") {
                    "t2i" => Asks::Words,
                    "i2t" => Asks::Regions,
                    other => return Err(unknown(format!("cross_attn is '{other}'"))),
                };
                let scan = Scan { encoders, direction, temperature, normaliser, aggregation };
                Ok(Config::Scan(scan))
            }
            "IMRAM" => {
                let mode = match text("model_mode") {
                    "text_IMRAM" => Directions::Text,
                    "image_IMRAM" => Directions::Image,
                    "full_IMRAM" => Directions::Full,
                    other => return Err(unknown(format!("model_mode is '{other}'"))),
                };
                let steps = number("iteration_step")? as usize;
                let normalise_memory = !flag("no_IMRAM_norm");
                let imram =
                    Imram { encoders, mode, steps, temperature, normaliser, normalise_memory };
                Ok(Config::Imram(imram))
            }
            other => Err(unknown(format!("there is no family '{other}'"))),
        }
    }
}
