//! SGRAF (Diao, Zhang, Ma and Lu, AAAI 2021, <https://arxiv.org/abs/2101.01368>): vectors say how the
//! words of a caption differ from what they attend to in an image, and how the two differ as a whole. A
//! graph reasons over these vectors (SGR), or attention filters them (SAF). The score of SGRAF is the
//! mean of those of an SGR and an SAF, which share nothing.

mod compare;
mod whole;

use nextpair_kernels::ops::{concat, gather, unit_rows};
use nextpair_kernels::{Encoded, Tensor};
use serde::{Deserialize, Serialize};

use crate::composed::Composed;
use crate::config::check_size;
use crate::encoder::{EPSILON, Reading, image_layer, layer, region_rows, word_layers, word_states};
use crate::normalise::batch_norm_layer;
use crate::published::Options;
use crate::weights::Start;
use crate::{
    Architecture, Comparison, Declared, Error, Inputs, Pass, Setting, Texts, Training, Weights,
};
use compare::{InTraining, Reasoning};

/// Settings of SGRAF.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sgraf {
    /// What becomes of similarity vectors.
    pub module: Module,
    /// Dimensions of the joint space.
    pub dim: usize,
    /// Dimensions of a word before the recurrent unit.
    pub word_dim: usize,
    /// Dimensions of similarity vectors.
    pub similarity_dim: usize,
    /// Steps of graph reasoning.
    pub steps: usize,
    /// Regions of an image. Each has a batch norm of its own, so all images have as many.
    pub regions: usize,
    /// Whether to scale regions to unit norm.
    pub normalise_images: bool,
    /// Whether to scale words to unit norm.
    pub normalise_texts: bool,
}

/// The modules of SGRAF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Module {
    /// Similarity graph reasoning.
    #[default]
    Graph,
    /// Similarity attention filtration.
    Filter,
    /// A model of each, with weights and a loss of its own; their scores are averaged.
    Both,
}

impl Default for Sgraf {
    fn default() -> Self {
        Sgraf {
            module: Module::Graph,
            dim: 1024,
            word_dim: 300,
            similarity_dim: 256,
            steps: 3,
            regions: 36,
            normalise_images: true,
            normalise_texts: true,
        }
    }
}

/// An SGR or an SAF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Graph,
    Filter,
}

impl Sgraf {
    pub(crate) fn presets() -> [(&'static str, Self); 3] {
        // The whole family is called as the model of both.
        [("sgraf", Module::Both), ("sgr", Module::Graph), ("saf", Module::Filter)]
            .map(|(name, module)| (name, Sgraf { module, ..Sgraf::default() }))
    }

    /// Settings of a published training of SGR or SAF.
    pub(crate) fn from_published(options: &Options<'_>) -> Result<Self, Error> {
        let default = Sgraf::default();
        let module = match options.text("module_name") {
            "SGR" => Module::Graph,
            "SAF" => Module::Filter,
            other => return Err(Options::refused(format!("module_name is '{other}'"))),
        };
        if options.0["bi_gru"] == false {
            return Err(Options::refused("bi_gru is off: captions are read in one direction"));
        }
        Ok(Sgraf {
            module,
            dim: options.size("embed_size")?,
            word_dim: options.size("word_dim")?,
            similarity_dim: options.size("sim_dim").unwrap_or(default.similarity_dim),
            steps: options.size("sgr_step").unwrap_or(default.steps),
            regions: options.size("num_region").unwrap_or(default.regions),
            normalise_images: !options.flag("no_imgnorm"),
            normalise_texts: !options.flag("no_txtnorm"),
        })
    }

    /// The models it consists of, and how the names of their weights begin.
    fn halves(&self) -> &'static [(&'static str, Half)] {
        match self.module {
            Module::Graph => &[("", Half::Graph)],
            Module::Filter => &[("", Half::Filter)],
            Module::Both => &[("graph.", Half::Graph), ("filter.", Half::Filter)],
        }
    }

    /// The weights of a half.
    fn declare_half(&self, half: Half, inputs: Inputs) -> Vec<Declared> {
        let (dim, size) = (self.dim, self.similarity_dim);
        let mut all = image_layer(inputs.image, dim, false);
        all.extend(word_layers(inputs.text, self.word_dim, dim, Reading::BothWays));
        let mut add = |name: &str, outputs: usize, inputs: usize| {
            let bound = Start::Uniform((6.0 / (inputs + outputs) as f64).sqrt());
            all.push(Declared::new(format!("{name}.weight"), &[outputs, inputs], bound));
            all.push(Declared::new(format!("{name}.bias"), &[outputs], Start::Constant(0.0)));
        };
        for side in ["v_sa", "t_sa"] {
            add(&format!("{side}.local"), dim, dim);
            add(&format!("{side}.global"), dim, dim);
            add(&format!("{side}.common"), 1, dim);
        }
        add("sim_loc", size, dim);
        add("sim_glo", size, dim);
        match half {
            Half::Graph => {
                for (step, part) in steps_of(self.steps) {
                    add(&format!("sgr.{step}.{part}"), size, size);
                }
            }
            Half::Filter => add("saf.attn", 1, size),
        }
        add("sim_eval", 1, size);
        all.extend(batch_norm_layer("v_sa.local_bn", self.regions, 1.0));
        all.extend(batch_norm_layer("v_sa.global_bn", dim, 1.0));
        if half == Half::Filter {
            all.extend(batch_norm_layer("saf.bn", 1, 1.0));
        }
        all
    }

    /// Regions of a half, and the image as a whole before them.
    fn images_of_half(&self, pass: &Pass<'_>, features: &Tensor) -> Result<Encoded, Error> {
        let (rows, regions) = region_rows(features)?;
        if regions != self.regions {
            return Err(Error::Shape {
                what: "the image features".to_owned(),
                found: format!("{regions} regions an image"),
                expected: format!("{}, as in training", self.regions),
            });
        }
        let (weight, bias) = (pass.weight("img_fc.weight")?, pass.weight("img_fc.bias")?);
        let rows = layer(&rows, weight, bias, "image", "a region")?;
        let rows = if self.normalise_images { unit_rows(&rows, EPSILON)? } else { rows };
        let regions = Encoded::uniform(rows, regions)?;
        let whole = whole::of_images(pass, &regions)?;
        with_wholes(&whole, &regions)
    }

    /// Words of a half, and the caption as a whole before them.
    fn texts_of_half(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Encoded, Error> {
        let (rows, offsets) = word_states(pass, texts, Reading::BothWays)?;
        let rows = if self.normalise_texts { unit_rows(&rows, EPSILON)? } else { rows };
        let words = Encoded { rows, offsets };
        let whole = whole::of_texts(pass, &words)?;
        with_wholes(&whole, &words)
    }

    /// Encodes with each half: the rows of an item are those of the first, then those of the second.
    fn encode(
        &self,
        pass: &Pass<'_>,
        encode: impl Fn(&Pass<'_>) -> Result<Encoded, Error>,
    ) -> Result<Encoded, Error> {
        let halves = self.halves().iter().map(|(prefix, _)| pass.within(prefix, &encode));
        let mut halves = halves.collect::<Result<Vec<_>, Error>>()?;
        match halves.len() {
            1 => Ok(halves.remove(0)),
            _ => compare::joined(&halves[0], &halves[1]),
        }
    }

    /// How some halves compare.
    fn reasoning(
        &self,
        weights: &Weights,
        halves: impl Iterator<Item = (usize, &'static str, Half)>,
    ) -> Composed<Reasoning> {
        let (of, steps) = (self.halves().len(), self.steps);
        let model = Reasoning { halves: halves.collect(), of, steps };
        Composed { model, weights: weights.clone() }
    }

    /// All halves, with their places.
    fn placed_halves(&self) -> impl Iterator<Item = (usize, &'static str, Half)> {
        self.halves().iter().enumerate().map(|(at, &(prefix, half))| (at, prefix, half))
    }
}

/// The layers of the steps of graph reasoning.
fn steps_of(steps: usize) -> impl Iterator<Item = (usize, &'static str)> {
    (0..steps).flat_map(|step| ["query", "key", "graph"].map(|part| (step, part)))
}

/// Puts a row for the whole of every item before its rows.
fn with_wholes(wholes: &Tensor, items: &Encoded) -> Result<Encoded, Error> {
    let count = items.len();
    let mut order = Vec::with_capacity(count + items.offsets[count]);
    for (item, span) in items.offsets.windows(2).enumerate() {
        order.push(item as u32);
        order.extend((span[0]..span[1]).map(|row| (count + row) as u32));
    }
    let rows = gather(&concat(&[wholes, &items.rows], 0)?, &order)?;
    let offsets = items.offsets.iter().enumerate().map(|(item, at)| item + at).collect();
    Ok(Encoded { rows, offsets })
}

impl Architecture for Sgraf {
    fn name(&self) -> &str {
        match self.module {
            Module::Graph => "sgr",
            Module::Filter => "saf",
            Module::Both => "sgraf",
        }
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
        check_size("similarity_dim", self.similarity_dim)?;
        check_size("steps", self.steps)?;
        check_size("regions", self.regions)
    }

    fn declare(&self, inputs: Inputs) -> Vec<Declared> {
        let half = |&(prefix, half): &(&str, Half)| {
            let own = self.declare_half(half, inputs).into_iter();
            own.map(|weight| Declared { name: format!("{prefix}{}", weight.name), ..weight })
                .collect::<Vec<_>>()
        };
        self.halves().iter().flat_map(half).collect()
    }

    fn encode_images(&self, pass: &Pass<'_>, features: &Tensor) -> Result<Encoded, Error> {
        self.encode(pass, |pass| self.images_of_half(pass, features))
    }

    fn encode_texts(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Encoded, Error> {
        self.encode(pass, |pass| self.texts_of_half(pass, texts))
    }

    fn comparison(&self, weights: &Weights) -> Result<Box<dyn Comparison>, Error> {
        Ok(Box::new(self.reasoning(weights, self.placed_halves())))
    }

    fn losses(&self) -> usize {
        self.halves().len()
    }

    fn training_comparisons<'a>(
        &self,
        pass: &'a Pass<'_>,
    ) -> Result<Vec<Box<dyn Comparison + 'a>>, Error> {
        let half = |placed: (usize, &'static str, Half)| -> Box<dyn Comparison + 'a> {
            let reasoning = self.reasoning(pass.weights(), std::iter::once(placed));
            match placed {
                (_, _, Half::Graph) => Box::new(reasoning),
                (_, prefix, Half::Filter) => Box::new(InTraining { pass, reasoning, prefix }),
            }
        };
        Ok(self.placed_halves().map(half).collect())
    }

    fn fit(&mut self, regions: usize) {
        self.regions = regions;
    }

    fn training(&self) -> Training {
        let (epochs, decay_every) = match self.module {
            Module::Filter => (30, 20),
            Module::Graph | Module::Both => (40, 30),
        };
        Training {
            epochs,
            decay_every,
            batch: 128,
            dropout_inputs: 0.4,
            dropout_states: 0.4,
            ..Training::default()
        }
    }

    fn set(&mut self, setting: Setting) -> bool {
        match setting {
            Setting::Dim(dim) => self.dim = dim,
            Setting::WordDim(dim) => self.word_dim = dim,
            Setting::Steps(steps) if self.module != Module::Filter => self.steps = steps,
            _ => return false,
        }
        true
    }
}
