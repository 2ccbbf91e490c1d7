//! VSE-infinity (Chen, Hu, Wang, Jiang and Lin, CVPR 2021, <https://arxiv.org/abs/2011.04305>) on region
//! features: VSE++ whose regions and words are pooled by [learned weights of their ranks](Gpo).

use nextpair_data::{Draws, Side};
use nextpair_kernels::ops::{Groups, add, concat, filled, gather, linear, relu, unit_rows};
use nextpair_kernels::{Encoded, Tensor};
use serde::{Deserialize, Serialize};

use crate::config::check_size;
use crate::encoder::{
    Reading, checked_words, image_layer, layer, region_rows, word_layers, word_states,
};
use crate::published::Options;
use crate::training::OptimiserName;
use crate::weights::Start;
use crate::{
    Architecture, Comparison, Declared, Dot, Error, Gpo, Inputs, Layer, Pass, Setting, Texts,
    Training, Weights, batch_norm_layer,
};

/// Settings of VSE-infinity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VseInfinity {
    /// Dimensions of the joint space; half as many has the hidden layer of images.
    pub dim: usize,
    /// Dimensions of a word before the recurrent unit.
    pub word_dim: usize,
    /// Numbers of the code of a rank.
    pub rank_code: usize,
    /// Dimensions of the recurrent units that weigh ranks.
    pub rank_dim: usize,
    /// Whether to scale images to unit norm.
    pub normalise_images: bool,
    /// Whether to scale captions to unit norm.
    pub normalise_texts: bool,
    /// Whether the word table has a last row for words that training hides.
    pub mask_word: bool,
    /// The share of regions that training leaves out, and of words that it hides, changes or leaves
    /// out.
    pub augmentation: f64,
}

impl Default for VseInfinity {
    fn default() -> Self {
        VseInfinity {
            dim: 1024,
            word_dim: 300,
            rank_code: 32,
            rank_dim: 32,
            normalise_images: true,
            normalise_texts: true,
            mask_word: true,
            augmentation: 0.2,
        }
    }
}

/// Added to norms.
const EPSILON: f32 = 1e-8;

/// Purpose of the draws of augmentation.
const AUGMENT: u64 = 0;

impl VseInfinity {
    pub(crate) fn presets() -> [(&'static str, Self); 1] {
        [("vse-infinity", VseInfinity::default())]
    }

    /// The settings of the published implementation. Its table has the hidden word among the others.
    pub(crate) fn from_published(options: &Options<'_>) -> Result<Self, Error> {
        let defaults = VseInfinity::default();
        let rank = |at: usize, usual: usize| options.list("gpo_dims", at).unwrap_or(usual);
        Ok(VseInfinity {
            dim: options.size("embed_size")?,
            word_dim: options.size("word_dim")?,
            rank_code: rank(0, defaults.rank_code),
            rank_dim: rank(1, defaults.rank_dim),
            normalise_images: !options.flag("no_imgnorm"),
            normalise_texts: !options.flag("no_txtnorm"),
            mask_word: false,
            augmentation: 0.0,
        })
    }

    fn pooling<'a>(&self, name: &'a str) -> Gpo<'a> {
        Gpo { name, code: self.rank_code, dim: self.rank_dim }
    }

    /// The captions of a training step, with words hidden, changed and left out.
    fn augmented(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Option<Texts>, Error> {
        let Texts::Words { ids, offsets } = texts else { return Ok(None) };
        if self.augmentation == 0.0 || pass.draws(AUGMENT, Side::Text, 0).is_none() {
            return Ok(None);
        }
        let table = pass.weight("embed.weight")?.shape()[0];
        let captions = offsets.windows(2).enumerate().map(|(row, span)| {
            let words = &ids[span[0]..span[1]];
            match pass.draws(AUGMENT, Side::Text, row) {
                Some(draws) => changed_words(words, table, self.augmentation, draws),
                None => words.to_vec(),
            }
        });
        Texts::words(&captions.collect::<Vec<_>>()).map(Some)
    }

    /// The regions of images as rows, equally many of each, and how many of them count. What follows
    /// these is zeros: in features that come so, and where training leaves regions out.
    fn regions(&self, pass: &Pass<'_>, features: &Tensor) -> Result<(Tensor, Vec<usize>), Error> {
        let (rows, regions) = region_rows(features)?;
        let (count, dim) = rows.matrix_shape()?;
        let lengths = match pass.regions() {
            Some(known) => known.iter().map(|&length| length.max(1)).collect(),
            None => lengths(&rows, regions)?,
        };
        if self.augmentation == 0.0 || pass.draws(AUGMENT, Side::Image, 0).is_none() {
            return Ok((rows, lengths));
        }
        let kept = lengths.iter().enumerate().map(|(image, &length)| {
            let left = match pass.draws(AUGMENT, Side::Image, image) {
                Some(draws) => kept_regions(length, self.augmentation, draws),
                None => (0..length).collect(),
            };
            left.into_iter().map(|region| image * regions + region).collect()
        });
        let kept: Vec<Vec<usize>> = kept.collect();
        let longest = kept.iter().map(Vec::len).max().unwrap_or(0);
        let padded = kept
            .iter()
            .flat_map(|own| (0..longest).map(|at| own.get(at).map_or(count, |&row| row) as u32));
        let with_zeros = concat(&[&rows, &Tensor::zeros(&[1, dim], rows.device())?], 0)?;
        let rows = gather(&with_zeros, &padded.collect::<Vec<_>>())?;
        Ok((rows, kept.iter().map(Vec::len).collect()))
    }
}

/// Regions of every image before those that are all zeros; at least one.
fn lengths(rows: &Tensor, regions: usize) -> Result<Vec<usize>, Error> {
    let (count, dim) = rows.matrix_shape()?;
    let images = rows.reshaped(&[count / regions.max(1), regions * dim])?;
    let numbers = filled(&images)?;
    Ok(numbers.into_iter().map(|numbers| numbers.div_ceil(dim.max(1)).max(1)).collect())
}

/// The regions that are left if each is dropped with probability `share`: at least the one with the
/// largest draw.
fn kept_regions(regions: usize, share: f64, mut draws: Draws) -> Vec<usize> {
    let drawn: Vec<f64> = (0..regions).map(|_| draws.unit()).collect();
    let largest = (0..regions).max_by(|&a, &b| drawn[a].total_cmp(&drawn[b]));
    (0..regions).filter(|&at| drawn[at] >= share || Some(at) == largest).collect()
}

/// The words of a caption of which a `share` is changed: half of these become the last word of the
/// table, which hides them, a tenth any word, and the others go. At least one word is left.
fn changed_words(words: &[u32], table: usize, share: f64, mut draws: Draws) -> Vec<u32> {
    let mut left = Vec::with_capacity(words.len());
    for &word in words {
        let drawn = draws.unit() / share;
        match drawn {
            _ if drawn >= 1.0 => left.push(word),
            _ if drawn < 0.5 => left.push(table as u32 - 1),
            _ if drawn < 0.6 => left.push(draws.below(table) as u32),
            _ => {}
        }
    }
    if left.is_empty() { words[..1].to_vec() } else { left }
}

impl Architecture for VseInfinity {
    fn name(&self) -> &str {
        "vse-infinity"
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
        check_size("rank_code", self.rank_code)?;
        check_size("rank_dim", self.rank_dim)?;
        if self.dim == 1 {
            return Err(Error::setting("dim", "is 1; half of it must be at least 1"));
        }
        if self.rank_code % 2 == 1 {
            let what = format!("{} is odd; sines and cosines come in pairs", self.rank_code);
            return Err(Error::setting("rank_code", what));
        }
        if !(0.0..1.0).contains(&self.augmentation) {
            let what = format!("{} is not from 0 to below 1", self.augmentation);
            return Err(Error::setting("augmentation", what));
        }
        if self.augmentation > 0.0 && !self.mask_word {
            return Err(Error::setting("augmentation", "needs mask_word, which hides words"));
        }
        Ok(())
    }

    fn declare(&self, inputs: Inputs) -> Vec<Declared> {
        let (image, hidden) = (inputs.image, self.dim / 2);
        let mut all = image_layer(image, self.dim, false);
        // PyTorch's default for linear layers.
        let mut usual = |name: &str, from: usize, to: usize| {
            let bound = Start::Uniform(1.0 / (from as f64).sqrt());
            all.push(Declared::new(format!("{name}.weight"), &[to, from], bound));
            all.push(Declared::new(format!("{name}.bias"), &[to], bound));
        };
        usual("img_mlp.0", image, hidden);
        usual("img_mlp.1", hidden, self.dim);
        all.extend(batch_norm_layer("img_mlp.bn0", hidden, 1.0));
        // Published checkpoints have it, and nothing reads it.
        all.extend(batch_norm_layer("img_mlp.bn1", self.dim, 1.0));
        all.extend(self.pooling("img_gpo").declare());
        let words = inputs.text + usize::from(self.mask_word);
        all.extend(word_layers(words, self.word_dim, self.dim, Reading::BothWays));
        all.extend(self.pooling("txt_gpo").declare());
        all
    }

    fn encode_images(&self, pass: &Pass<'_>, features: &Tensor) -> Result<Encoded, Error> {
        let (rows, lengths) = self.regions(pass, features)?;
        let rows = pass.dropout(Layer::Inputs, Side::Image, &rows)?;
        let part = |name: &str| {
            let of = |part: &str| pass.weight(&format!("{name}.{part}"));
            Ok::<_, Error>((of("weight")?, of("bias")?))
        };
        let (weight, bias) = part("img_fc")?;
        let plain = layer(&rows, weight, bias, "image", "a region")?;
        let (weight, bias) = part("img_mlp.0")?;
        // The padding counts in the statistics of a batch, as it does in the published code.
        let hidden =
            pass.batch_norm("img_mlp.bn0", &linear(&rows, weight, bias)?, &Groups::Columns)?;
        let (weight, bias) = part("img_mlp.1")?;
        let states = add(&plain, &linear(&relu(&hidden)?, weight, bias)?)?;
        let (states, offsets) = without_padding(&states, &lengths)?;
        let pooled = self.pooling("img_gpo").pool(pass, &states, &offsets)?;
        let pooled = pass.dropout(Layer::States, Side::Image, &pooled)?;
        let pooled = if self.normalise_images { unit_rows(&pooled, EPSILON)? } else { pooled };
        Ok(Encoded::uniform(pooled, 1)?)
    }

    fn encode_texts(&self, pass: &Pass<'_>, texts: &Texts) -> Result<Encoded, Error> {
        let known = pass.weight("embed.weight")?.shape()[0] - usize::from(self.mask_word);
        checked_words(texts, known)?;
        let augmented = self.augmented(pass, texts)?;
        let (states, offsets) =
            word_states(pass, augmented.as_ref().unwrap_or(texts), Reading::BothWays)?;
        let pooled = self.pooling("txt_gpo").pool(pass, &states, &offsets)?;
        let pooled = pass.dropout(Layer::States, Side::Text, &pooled)?;
        let pooled = if self.normalise_texts { unit_rows(&pooled, EPSILON)? } else { pooled };
        Ok(Encoded::uniform(pooled, 1)?)
    }

    fn comparison(&self, _weights: &Weights) -> Result<Box<dyn Comparison>, Error> {
        Ok(Box::new(Dot { members: 1 }))
    }

    fn training(&self) -> Training {
        Training {
            epochs: 25,
            batch: 128,
            rate: 5e-4,
            decay_every: 15,
            optimiser: OptimiserName::Adamw,
            weight_decay: 0.01,
            sum_epochs: 1,
            drop_last: true,
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

/// The first rows of every image, and where those of each begin.
fn without_padding(rows: &Tensor, lengths: &[usize]) -> Result<(Tensor, Vec<usize>), Error> {
    let each = rows.matrix_shape()?.0 / lengths.len().max(1);
    let mut offsets = vec![0];
    lengths.iter().for_each(|length| offsets.push(offsets[offsets.len() - 1] + length));
    if lengths.iter().all(|&length| length == each) {
        return Ok((rows.clone(), offsets));
    }
    let valid = lengths.iter().enumerate();
    let valid = valid.flat_map(|(image, &n)| (0..n).map(move |at| (image * each + at) as u32));
    Ok((gather(rows, &valid.collect::<Vec<_>>())?, offsets))
}

#[cfg(test)]
mod tests {
    use nextpair_kernels::Device;

    use super::*;
    use crate::{Config, Mode, Model};

    #[test]
    fn a_share_of_regions_and_words_is_changed() {
        let (share, table) = (0.2, 50);
        let words: Vec<u32> = (0..20).collect();
        let (mut regions, mut left, mut hidden, mut other) = (0, 0, 0, 0);
        for seed in 0..2000 {
            regions += kept_regions(10, share, Draws::new(seed)).len();
            let found = changed_words(&words, table, share, Draws::new(seed));
            left += found.len();
            hidden += found.iter().filter(|&&word| word == 49).count();
            other += found.iter().filter(|&&word| (20..49).contains(&word)).count();
        }
        let near = |found: usize, expected: f64| {
            assert!((found as f64 - expected).abs() < 0.06 * expected, "{found} {expected}");
        };
        near(regions, 2000.0 * 8.0);
        near(left, 40_000.0 * (1.0 - 0.2 * 0.4));
        near(hidden, 40_000.0 * 0.2 * (0.5 + 0.1 / 50.0));
        assert!(other > 300, "words that were not there: {other}");
    }

    #[test]
    fn something_is_always_left() {
        for seed in 0..300 {
            assert!(!kept_regions(2, 0.99, Draws::new(seed)).is_empty());
            assert!(!changed_words(&[7, 8], 10, 0.99, Draws::new(seed)).is_empty());
        }
    }

    #[test]
    fn regions_that_are_known_need_not_be_looked_for() {
        let settings = VseInfinity { dim: 6, word_dim: 3, ..VseInfinity::default() };
        let (inputs, mut numbers) = (Inputs { image: 4, text: 5 }, vec![0.5f32; 24]);
        numbers[4..12].fill(0.0);
        let features = Tensor::new(numbers, &[2, 3, 4], Device::Cpu).unwrap();
        let model = Model::new(Config::VseInfinity(settings.clone()), inputs, 1, Device::Cpu);
        let model = model.unwrap();
        let encoded = |regions: Option<&[usize]>| {
            let pass = Pass::new(model.weights(), Mode::Evaluate).with_regions(regions);
            settings.encode_images(&pass, &features).unwrap().to_f32s().unwrap()
        };
        assert_eq!(encoded(None), encoded(Some(&[1, 3])));
        assert_ne!(encoded(None), encoded(Some(&[3, 3])));
    }

    #[test]
    fn zeros_at_the_end_are_padding() {
        let rows = |values: Vec<f32>| {
            let count = values.len() / 2;
            Tensor::new(values, &[count, 2], Device::Cpu).unwrap()
        };
        let two = rows(vec![1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 3.0, 0.0, 0.0]);
        assert_eq!(lengths(&two, 3).unwrap(), [2, 2]);
        assert_eq!(lengths(&rows(vec![0.0; 6]), 3).unwrap(), [1]);
    }
}
