//! CAMP (Wang, Liu, Li, Sheng, Yan, Wang and Shao, ICCV 2019, <https://arxiv.org/abs/1909.05506>): regions
//! and words send each other messages, gates say how much of them is taken in, and a pair is judged
//! right or wrong by cross entropy.

mod compare;

use nextpair_kernels::{Encoded, Tensor};
use serde::{Deserialize, Serialize};

use crate::composed::Composed;
use crate::config::check_size;
use crate::corpus::Choice;
use crate::encoder::Encoders;
use crate::published::Options;
use crate::training::Criterion;
use crate::weights::Start;
use crate::{
    Architecture, Comparison, Declared, Error, Inputs, Pass, Setting, Texts, Training, Weights,
};

/// Settings of CAMP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Camp {
    /// What becomes of messages.
    pub messages: Messages,
    /// Dimensions of the joint space.
    pub dim: usize,
    /// Dimensions of a word before the recurrent unit.
    pub word_dim: usize,
    /// Softmaxes of a pool.
    pub heads: usize,
    /// Words that captions are padded to. Only the mean of `cross-attention-new` sees them.
    pub padded: usize,
}

/// The forms of CAMP, by the names of the release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Messages {
    /// The whole model: messages attend to each other, and are fused through gates.
    #[default]
    GateFusionNew,
    /// Means of messages that attend to each other are compared; it was trained first.
    CrossAttentionNew,
    /// Messages are fused through gates; as in the paper.
    GateFusion,
    /// Pooled messages are compared.
    CrossAttention,
}

impl Default for Camp {
    fn default() -> Self {
        Camp { messages: Messages::default(), dim: 1024, word_dim: 300, heads: 4, padded: 50 }
    }
}

/// How the names of weights begin on each side.
const SIDES: [&str; 2] = ["img", "txt"];

impl Camp {
    pub(crate) fn presets() -> [(&'static str, Self); 4] {
        [
            ("camp", Messages::GateFusionNew),
            ("camp-cross", Messages::CrossAttentionNew),
            ("camp-old", Messages::GateFusion),
            ("camp-cross-old", Messages::CrossAttention),
        ]
        .map(|(name, messages)| (name, Camp { messages, ..Camp::default() }))
    }

    /// Settings of a published training.
    pub(crate) fn from_published(options: &Options<'_>) -> Result<Self, Error> {
        let default = Camp::default();
        let messages = match options.text("measure") {
            "gate_fusion_new" => Messages::GateFusionNew,
            "cross_attention_new" => Messages::CrossAttentionNew,
            "gate_fusion" => Messages::GateFusion,
            "cross_attention" => Messages::CrossAttention,
            other => return Err(Options::refused(format!("measure is '{other}'"))),
        };
        Ok(Camp {
            messages,
            dim: options.size("embed_size")?,
            word_dim: options.size("word_dim")?,
            heads: options.size("heads").unwrap_or(default.heads),
            padded: options.size("pad_to").unwrap_or(default.padded),
        })
    }

    /// Whether messages attend to each other, are fused, and are pooled.
    fn parts(&self) -> (bool, bool, bool) {
        match self.messages {
            Messages::GateFusionNew => (true, true, true),
            Messages::CrossAttentionNew => (true, false, false),
            Messages::GateFusion => (false, true, true),
            Messages::CrossAttention => (false, false, true),
        }
    }

    /// Neither regions nor words are scaled to unit norm.
    fn encoders(&self) -> Encoders {
        Encoders {
            dim: self.dim,
            word_dim: self.word_dim,
            normalise_images: false,
            normalise_texts: false,
            weight_norm: false,
        }
    }
}

impl Architecture for Camp {
    fn name(&self) -> &str {
        match self.messages {
            Messages::GateFusionNew => "camp",
            Messages::CrossAttentionNew => "camp-cross",
            Messages::GateFusion => "camp-old",
            Messages::CrossAttention => "camp-cross-old",
        }
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn reads_words(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), Error> {
        self.encoders().check()?;
        check_size("heads", self.heads)?;
        check_size("padded", self.padded)
    }

    fn declare(&self, inputs: Inputs) -> Vec<Declared> {
        let dim = self.dim;
        let (mixes, fuses, pools) = self.parts();
        let mut all = self.encoders().declare(inputs);
        // The release draws from one range whatever the shape, and from PyTorch's default elsewhere.
        let (wide, usual) = ((3.0 / dim as f64).sqrt(), 1.0 / (dim as f64).sqrt());
        let mut add = |name: String, shape: &[usize], start: Start| {
            all.push(Declared::new(name, shape, start));
        };
        for side in SIDES {
            add(format!("{side}_key.weight"), &[dim, dim], Start::Uniform(wide));
            if mixes {
                for name in [
                    format!("{side}_query"),
                    format!("msg_{side}_query"),
                    format!("msg_{side}_key"),
                ] {
                    add(format!("{name}.weight"), &[dim, dim], Start::Uniform(usual));
                }
            }
            if fuses {
                add(format!("fuse_{side}.weight"), &[dim, 2 * dim], Start::Uniform(wide));
            }
            if self.messages == Messages::GateFusion {
                add(format!("fuse_{side}.bias"), &[dim], Start::Constant(0.0));
            }
            if pools {
                for (layer, outputs) in [("l1", dim), ("l2", self.heads)] {
                    let name = format!("pool_{side}.{layer}");
                    add(format!("{name}.weight"), &[outputs, dim], Start::Uniform(usual));
                    add(format!("{name}.bias"), &[outputs], Start::Uniform(usual));
                }
            }
        }
        if fuses {
            for (layer, outputs, inputs) in [("score1", dim, 2 * dim), ("score2", 1, dim)] {
                add(format!("{layer}.weight"), &[outputs, inputs], Start::Uniform(wide));
                add(format!("{layer}.bias"), &[outputs], Start::Constant(0.0));
            }
        }
        all
    }

    fn encode_images(&self, pass: &Pass<'_>, features: &Tensor) -> Result<Encoded, Error> {
        self.encoders().images(pass, features)
    }

    fn encode_texts(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Encoded, Error> {
        self.encoders().texts(pass, texts)
    }

    fn comparison(&self, weights: &Weights) -> Result<Box<dyn Comparison>, Error> {
        Ok(Box::new(Composed { model: self.clone(), weights: weights.clone() }))
    }

    /// Of the stages of the release those that begin with fresh weights: whoever has weights of the first
    /// stage goes on with SGD.
    fn training(&self) -> Training {
        let (batch, rate, decay_every) = match self.messages {
            Messages::GateFusionNew | Messages::CrossAttentionNew => (256, 1e-3, 50),
            Messages::GateFusion | Messages::CrossAttention => (128, 2e-4, 75),
        };
        Training {
            epochs: 300,
            batch,
            rate,
            decay_every,
            loss: Criterion::CrossEntropy,
            captions: Choice::Random,
            ..Training::default()
        }
    }

    fn set(&mut self, setting: Setting) -> bool {
        match setting {
            Setting::Dim(dim) => self.dim = dim,
            Setting::WordDim(dim) => self.word_dim = dim,
            _ => return false,
        }
        true
    }
}
