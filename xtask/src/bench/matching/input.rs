//! The shared input: a seeded file in the oracle's format, see `bench/matching.py`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

use super::{Case, folder};

/// Number of regions per image.
pub(super) const REGIONS: usize = 36;
/// Number of words per caption, including both markers.
pub(super) const LENGTH: usize = 14;
/// Feature dimensions of a region.
const FEATURES: usize = 2048;
const VOCABULARY: usize = 8481;
const WORD_DIM: usize = 300;

/// Returns the settings of the model and its training.
pub(super) fn config(case: &Case) -> Value {
    json!({
        "family": "IMRAM",
        "model_mode": "text_IMRAM",
        "img_dim": FEATURES,
        "embed_size": case.dim,
        "vocab_size": VOCABULARY,
        "word_dim": WORD_DIM,
        "num_layers": 1,
        "bi_gru": true,
        "no_imgnorm": false,
        "no_txtnorm": false,
        "precomp_enc_type": "basic",
        "raw_feature_norm": "clipped_l2norm",
        "iteration_step": 3,
        "lambda_softmax": 9.0,
        "margin": 0.2,
        "no_IMRAM_norm": true,
        "lr": 2e-4,
        "grad_clip": 2.0,
    })
}

/// Returns the file of a case, writing it if necessary.
pub(super) fn file(case: &Case, seed: u64) -> Result<PathBuf> {
    let folder = folder();
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let Case { run, pairs, dim, .. } = case;
    let path = folder.join(format!("{run}-{pairs}x{dim}-seed{seed}.safetensors"));
    if !path.exists() {
        eprintln!("{}: generating {}", case.name, path.display());
        let mut input = Input { random: seed, tensors: Vec::new() };
        match *run {
            "step" => input.training(*pairs, *dim),
            _ => input.embeddings(*pairs, *dim),
        }
        // Partial data never has the final name.
        let half = path.with_extension("half");
        input.write(&half, &config(case))?;
        std::fs::rename(&half, &path).with_context(|| path.display().to_string())?;
    }
    Ok(path)
}

/// Tensors to write, and the state of the random numbers.
struct Input {
    random: u64,
    tensors: Vec<(String, Dtype, Vec<usize>, Vec<u8>)>,
}

impl Input {
    /// Adds a batch and the initial parameters of a training.
    fn training(&mut self, pairs: usize, dim: usize) {
        let images = self.uniform(pairs * REGIONS * FEATURES, 1.0);
        // Half of them zero, like features after a ReLU.
        let images: Vec<f32> = images.into_iter().map(|value| value.max(0.0)).collect();
        self.floats("in.images", &[pairs, REGIONS, FEATURES], &images);
        self.captions(pairs);
        self.lengths(pairs);

        let of = |count: usize| (1.0 / count as f32).sqrt();
        let image = (6.0 / (FEATURES + dim) as f32).sqrt();
        self.parameter("img_fc.weight", &[dim, FEATURES], image);
        self.floats("param.img_fc.bias", &[dim], &vec![0.0; dim]);
        self.parameter("embed.weight", &[VOCABULARY, WORD_DIM], 0.1);
        for direction in ["", "_reverse"] {
            for (what, size) in [("ih", WORD_DIM), ("hh", dim)] {
                let name = format!("gru.weight_{what}_l0{direction}");
                self.parameter(&name, &[3 * dim, size], of(dim));
                self.parameter(&format!("gru.bias_{what}_l0{direction}"), &[3 * dim], of(dim));
            }
        }
        self.memory("t2i", dim);
        self.memory("i2t", dim);
    }

    /// Adds encoded regions and words.
    fn embeddings(&mut self, pairs: usize, dim: usize) {
        for (name, rows) in [("image_emb", REGIONS), ("caption_emb", LENGTH)] {
            let mut values = self.uniform(pairs * rows * dim, 1.0);
            for row in values.chunks_exact_mut(dim) {
                let norm = row.iter().map(|value| value * value).sum::<f32>().sqrt();
                row.iter_mut().for_each(|value| *value /= norm);
            }
            self.floats(&format!("in.{name}"), &[pairs, rows, dim], &values);
        }
        self.lengths(pairs);
        self.memory("t2i", dim);
    }

    fn memory(&mut self, direction: &str, dim: usize) {
        let scale = (0.5 / dim as f32).sqrt();
        for layer in ["linear", "gate"] {
            let name = format!("mem_{direction}.{layer}");
            self.parameter(&format!("{name}.weight"), &[dim, 2 * dim], scale);
            self.parameter(&format!("{name}.bias"), &[dim], scale);
        }
    }

    /// Draws the words between the markers from all but the first four.
    fn captions(&mut self, pairs: usize) {
        let mut words = Vec::with_capacity(pairs * LENGTH);
        for _ in 0..pairs {
            words.push(1);
            words.extend((2..LENGTH).map(|_| (4 + self.draw() % (VOCABULARY as u64 - 4)) as i64));
            words.push(2);
        }
        self.integers("in.captions", &[pairs, LENGTH], &words);
    }

    fn lengths(&mut self, pairs: usize) {
        self.integers("in.lengths", &[pairs], &vec![LENGTH as i64; pairs]);
    }

    fn parameter(&mut self, name: &str, shape: &[usize], scale: f32) {
        let values = self.uniform(shape.iter().product(), scale);
        self.floats(&format!("param.{name}"), shape, &values);
    }

    fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensors.push((name.into(), Dtype::F32, shape.to_vec(), bytes));
    }

    fn integers(&mut self, name: &str, shape: &[usize], values: &[i64]) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensors.push((name.into(), Dtype::I64, shape.to_vec(), bytes));
    }

    /// Draws numbers uniformly from -scale to scale.
    fn uniform(&mut self, count: usize, scale: f32) -> Vec<f32> {
        let unit = |bits: u64| (bits >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
        (0..count).map(|_| scale * unit(self.draw())).collect()
    }

    /// Draws the next number of SplitMix64.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn write(&self, path: &Path, config: &Value) -> Result<()> {
        let mut views = Vec::new();
        for (name, dtype, shape, bytes) in &self.tensors {
            views.push((name.as_str(), TensorView::new(*dtype, shape.clone(), bytes)?));
        }
        let metadata = HashMap::from([("config".to_string(), config.to_string())]);
        safetensors::serialize_to_file(views, Some(metadata), path)
            .with_context(|| path.display().to_string())
    }
}
