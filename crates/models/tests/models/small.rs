//! Small models of every kind, and batches for them.

use nextpair_data::Draws;
use nextpair_kernels::{Aggregation, Normaliser};
use nextpair_models::{
    Asks, Batch, Config, Device, Directions, Encoders, Heads, Imram, Inputs, Kind, Measure, Model,
    Pooling, Scan, Tensor, Texts, Vse, VseInfinity,
};

pub const DIM: usize = 24;
const FEATURES: usize = 10;
const WORDS: usize = 30;
const REGIONS: usize = 7;
pub const INPUTS: Inputs = Inputs { image: FEATURES, text: WORDS };

fn encoders() -> Encoders {
    Encoders { dim: DIM, word_dim: 9, ..Encoders::default() }
}

/// Every architecture with its variants, by name.
pub fn configs() -> Vec<(String, Config)> {
    let mut all = Vec::new();
    for steps in 1..=4 {
        for mode in [Directions::Text, Directions::Image, Directions::Full] {
            for normalise_memory in [false, true] {
                let imram = Imram {
                    encoders: encoders(),
                    mode,
                    steps,
                    normalise_memory,
                    ..Imram::default()
                };
                let name = format!("imram {mode:?} K={steps} normalised={normalise_memory}");
                all.push((name, Config::Imram(imram)));
            }
        }
    }
    use Normaliser::{Clipped, ClippedL1, ClippedL2, L1, L2, None, Softmax};
    for normaliser in [ClippedL2, L2, ClippedL1, L1, Clipped, Softmax, None] {
        let imram = Imram { encoders: encoders(), normaliser, ..Imram::default() };
        all.push((format!("imram {normaliser:?}"), Config::Imram(imram)));
    }
    let unusual = Encoders {
        normalise_images: false,
        normalise_texts: false,
        weight_norm: true,
        ..encoders()
    };
    let imram = Imram { encoders: unusual, temperature: 0.5, ..Imram::default() };
    all.push(("imram without norms".to_owned(), Config::Imram(imram)));
    let lse = Aggregation::LogSumExp(6.0);
    for direction in [Asks::Words, Asks::Regions] {
        for aggregation in [Aggregation::Mean, Aggregation::Sum, Aggregation::Max, lse] {
            let scan = Scan { encoders: encoders(), direction, aggregation, ..Scan::default() };
            all.push((format!("scan {direction:?} {aggregation:?}"), Config::Scan(scan)));
        }
    }
    let vse = Vse { dim: DIM, word_dim: 9, ..Vse::default() };
    all.push(("vse++".to_owned(), Config::Vse(vse.clone())));
    all.push(("vse0".to_owned(), Config::Vse(Vse { normalise_images: false, ..vse.clone() })));
    let order = Vse { absolute: true, measure: Measure::Order, ..vse.clone() };
    all.push(("order".to_owned(), Config::Vse(order)));
    let mean = Vse { pooling: Pooling::Mean, ..vse };
    all.push(("vse++ of means".to_owned(), Config::Vse(mean)));
    for normalised in [true, false] {
        let vse = VseInfinity {
            dim: DIM,
            word_dim: 9,
            rank_code: 6,
            rank_dim: 5,
            normalise_images: normalised,
            normalise_texts: normalised,
            augmentation: 0.0,
            ..VseInfinity::default()
        };
        all.push((format!("vse-infinity normalised={normalised}"), Config::VseInfinity(vse)));
    }
    for hidden in [0, 13] {
        all.push((format!("heads {hidden}"), Config::Heads(Heads { dim: DIM, hidden })));
    }
    all
}

/// Whether the encoding of an image depends on its batch in training: models with batch norm.
pub fn depends_on_batch(config: &Config) -> bool {
    let declared = config.architecture().declare(INPUTS);
    declared.iter().any(|weight| weight.kind == Kind::Buffer)
}

/// A model with initial weights.
pub fn model(config: &Config, seed: u64, device: Device) -> Model {
    Model::new(config.clone(), INPUTS, seed, device).unwrap()
}

/// Images and captions of different lengths, for a model.
pub fn batch(config: &Config, count: usize, seed: u64, device: Device) -> Batch {
    let mut draws = Draws::new(seed);
    let mut numbers = |count: usize| (0..count).map(|_| draws.normal() as f32).collect::<Vec<_>>();
    let images = numbers(count * REGIONS * FEATURES);
    let images = Tensor::new(images, &[count, REGIONS, FEATURES], device).unwrap();
    let texts = if config.reads_words() {
        let captions: Vec<Vec<u32>> = (0..count)
            .map(|caption| {
                // A caption has at least its two markers.
                let length = 2 + (caption * 5 + seed as usize) % 8;
                (0..length).map(|_| draws.below(WORDS) as u32).collect()
            })
            .collect();
        Texts::words(&captions).unwrap()
    } else {
        Texts::vectors(numbers(count * WORDS), WORDS, device).unwrap()
    };
    Batch::new(images, texts)
}
