//! Heads on frozen embeddings, for vectors of CLIP, SigLIP, MiniLM or any other encoder. One linear
//! layer or a small perceptron per side, then the cosine. Adapters (after Gao et al., 2021,
//! <https://arxiv.org/abs/2110.04544>) add what the perceptron says to the vectors, which already have a
//! joint space: at first they change nothing.

use nextpair_data::Side;
use nextpair_kernels::ops::{add, relu, unit_rows};
use nextpair_kernels::{Encoded, Tensor};
use serde::{Deserialize, Serialize};

use crate::config::check_size;
use crate::encoder::{layer, mean_regions};
use crate::weights::Start;
use crate::{
    Architecture, Comparison, Criterion, Declared, Dot, Error, Inputs, Layer, Pass, Setting, Texts,
    Training, Weights,
};

/// Settings of heads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Heads {
    /// Dimensions of the joint space.
    pub dim: usize,
    /// Units of a hidden layer between features and joint space; 0 for a linear head.
    pub hidden: usize,
    /// Whether what the head says is added to the vectors, which then have the dimensions of the joint
    /// space.
    pub adapter: bool,
}

impl Default for Heads {
    fn default() -> Self {
        Heads { dim: 256, hidden: 0, adapter: false }
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
        let given = rows;
        let rows = pass.dropout(Layer::Inputs, side, rows)?;
        let rows = match self.hidden {
            0 => rows,
            _ => pass.dropout(Layer::Hidden, side, &relu(&layer(&rows, "hidden")?)?)?,
        };
        let mut states = pass.dropout(Layer::States, side, &layer(&rows, "out")?)?;
        if self.adapter {
            self.check_dim(&of, given)?;
            states = add(&states, given)?;
        }
        Ok(Encoded::uniform(unit_rows(&states, 1e-8)?, 1)?)
    }
}

impl Heads {
    /// Refuses vectors that nothing can be added to.
    fn check_dim(&self, side: &str, rows: &Tensor) -> Result<(), Error> {
        let found = rows.matrix_shape()?.1;
        if found == self.dim {
            return Ok(());
        }
        Err(Error::Shape {
            what: format!("the {side} features of an adapter"),
            found: format!("{found} numbers each"),
            expected: format!("{}, the dimensions of the joint space (--dim)", self.dim),
        })
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
                let zero = Start::Constant(0.0);
                let bound = match self.adapter && name == "out" {
                    true => zero,
                    false => Start::Uniform((6.0 / (from + to) as f64).sqrt()),
                };
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

    fn comparison(&self, weights: &Weights) -> Result<Box<dyn Comparison>, Error> {
        Ok(Box::new(Dot { members: weights.members() }))
    }

    fn trains_together(&self) -> bool {
        true
    }

    /// Heads have few pairs and strong features, so they learn their pairs by heart unless most of the
    /// features are dropped. `experiments/heads_defaults.py` compares this with settings tuned for each
    /// number of pairs.
    fn training(&self) -> Training {
        Training {
            epochs: 120,
            batch: 128,
            rate: 1e-3,
            decay_every: 100,
            loss: Criterion::InfoNce,
            loss_temperature: 0.05,
            dropout_inputs: 0.7,
            validate_last: 1,
            ..Training::default()
        }
    }

    fn set(&mut self, setting: Setting) -> bool {
        match setting {
            Setting::Dim(dim) => self.dim = dim,
            Setting::Hidden(units) => self.hidden = units,
            Setting::Adapter(on) => self.adapter = on,
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use nextpair_data::Draws;

    use super::*;
    use crate::{Batch, Device, Model, Trainer};

    #[test]
    fn an_adapter_changes_nothing_at_first_and_needs_vectors_of_the_joint_space() {
        let heads = Heads { dim: 3, hidden: 4, adapter: true };
        let model = |text: usize| {
            let inputs = Inputs { image: 3, text };
            Model::new(crate::Config::Heads(heads.clone()), inputs, 1, Device::Cpu).unwrap()
        };
        let images = Tensor::new(vec![0.6, 0.0, 0.8], &[1, 1, 3], Device::Cpu).unwrap();
        let found = model(3).encode_images(&images).unwrap().to_f32s().unwrap();
        for (found, expected) in found.iter().zip([0.6, 0.0, 0.8]) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        let texts = Texts::vectors(vec![0.0; 5], 5, Device::Cpu).unwrap();
        let error = model(5).encode_texts(&texts).unwrap_err().to_string();
        assert!(error.contains("the text features of an adapter"), "{error}");
    }

    /// Images and captions of the same things, `count` of each: features are what they have in common,
    /// mixed, among noise.
    fn pairs(count: usize, draws: &mut Draws) -> (Tensor, Texts) {
        const COMMON: usize = 12;
        let mut mixing = Draws::new(1);
        let mut normals = |count: usize| (0..count).map(|_| mixing.normal()).collect::<Vec<f64>>();
        let mixed = [64, 32].map(|dim| normals(COMMON * dim));
        let things: Vec<f64> = (0..count * COMMON).map(|_| draws.normal()).collect();
        let [images, texts] = mixed.map(|mixed| {
            let dim = mixed.len() / COMMON;
            let mut rows = Vec::new();
            for thing in things.chunks(COMMON) {
                rows.extend((0..dim).map(|at| {
                    let common = thing.iter().zip(mixed[at..].iter().step_by(dim));
                    let common: f64 = common.map(|(thing, weight)| thing * weight).sum();
                    (common + 4.0 * draws.normal()) as f32
                }));
            }
            rows
        });
        let images = Tensor::new(images, &[count, 1, 64], Device::Cpu).unwrap();
        (images, Texts::vectors(texts, 32, Device::Cpu).unwrap())
    }

    /// The share of 300 new captions that find their image first, after a training on 300 pairs.
    fn found(training: Training) -> f64 {
        training.check().unwrap();
        let mut draws = Draws::new(2);
        let Training { epochs, batch, .. } = training;
        let batches: Vec<Batch> = [batch, batch, 300 - 2 * batch]
            .map(|size| pairs(size, &mut draws))
            .map(|(images, texts)| Batch::new(images, texts))
            .into();
        let (images, texts) = pairs(300, &mut draws);
        let config = crate::Config::named("heads").unwrap();
        let model = Model::new(config, Inputs { image: 64, text: 32 }, 3, Device::Cpu).unwrap();
        let mut trainer = Trainer::new(model, training.clone()).unwrap();
        for epoch in 0..epochs {
            for batch in &batches {
                trainer.step(batch, epoch).unwrap();
            }
        }
        let model = trainer.model();
        let images = model.encode_images(&images).unwrap().to_f32s().unwrap();
        let texts = model.encode_texts(&texts).unwrap().to_f32s().unwrap();
        let score = |caption: &[f32], image: &[f32]| {
            caption.iter().zip(image).map(|(a, b)| f64::from(a * b)).sum::<f64>()
        };
        let first = |at: &usize| {
            let caption = &texts[at * 256..][..256];
            let own = score(caption, &images[at * 256..][..256]);
            images.chunks(256).all(|image| score(caption, image) <= own)
        };
        (0..300).filter(first).count() as f64 / 300.0
    }

    #[test]
    fn few_pairs_are_enough_by_default() {
        let usual = Heads::default().training();
        let plain = Training { dropout_inputs: 0.0, ..usual.clone() };
        let published = Training { batch: usual.batch, ..Training::default() };
        let [usual, plain, published] = [usual, plain, published].map(found);
        assert!(usual > 1.2 * plain && usual > 1.2 * published, "{usual} {plain} {published}");
    }
}
