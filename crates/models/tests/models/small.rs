//! Small models of every kind, and batches for them.

use nextpair_data::Draws;
use nextpair_kernels::{Aggregation, Normaliser};
use nextpair_models::{
    Asks, Batch, Camp, Captioner, Config, Device, Directions, Encoders, Heads, Imram, Inputs, Kind,
    Measure, Messages, Model, Module, Naaf, Pooling, Pvse, Scan, Sgraf, Tensor, Texts, Vse,
    VseInfinity, Vsrn,
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
    for module in [Module::Graph, Module::Filter, Module::Both] {
        let sgraf = Sgraf {
            module,
            dim: DIM,
            word_dim: 9,
            similarity_dim: 11,
            regions: REGIONS,
            ..Sgraf::default()
        };
        all.push((format!("sgraf {module:?}"), Config::Sgraf(sgraf.clone())));
        if module != Module::Both {
            let (normalise_images, normalise_texts) = (false, false);
            let unusual = Sgraf { steps: 1, normalise_images, normalise_texts, ..sgraf };
            all.push((format!("sgraf {module:?} without norms"), Config::Sgraf(unusual)));
        }
    }
    for temperature in [4.0, 20.0] {
        let naaf = Naaf { encoders: encoders(), temperature, ..Naaf::default() };
        all.push((format!("naaf {temperature}"), Config::Naaf(naaf)));
    }
    for messages in [
        Messages::GateFusionNew,
        Messages::CrossAttentionNew,
        Messages::GateFusion,
        Messages::CrossAttention,
    ] {
        let camp = Camp { messages, dim: DIM, word_dim: 9, heads: 4, padded: 9 };
        all.push((format!("camp {messages:?}"), Config::Camp(camp)));
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
    for flickr30k in [true, false] {
        let vsrn = Vsrn {
            dim: DIM,
            word_dim: 9,
            layers: 2,
            unit_regions: !flickr30k,
            batch_norm: flickr30k,
            caption_loss: false,
            ..Vsrn::default()
        };
        all.push((format!("vsrn flickr30k={flickr30k}"), Config::Vsrn(vsrn)));
    }
    let pvse = Pvse { dim: DIM, word_dim: 9, heads: 1, ..Pvse::default() };
    let plain = Pvse { attend_images: false, attend_texts: false, ..pvse.clone() };
    all.push(("pvse without attention".to_owned(), Config::Pvse(plain)));
    for legacy in [true, false] {
        let name = format!("pvse of one head legacy={legacy}");
        all.push((name, Config::Pvse(Pvse { legacy, ..pvse.clone() })));
    }
    let many = Pvse { heads: 3, diversity: 0.0, discrepancy: 0.0, ..pvse };
    all.push(("pvse of three heads".to_owned(), Config::Pvse(many)));
    for hidden in [0, 13] {
        let heads = Heads { dim: DIM, hidden, ..Heads::default() };
        all.push((format!("heads {hidden}"), Config::Heads(heads)));
    }
    all
}

/// Whether the encoding of an image depends on its batch in training: models with batch norm.
pub fn depends_on_batch(config: &Config) -> bool {
    let declared = config.architecture().declare(INPUTS);
    declared.iter().any(|weight| weight.kind == Kind::Buffer)
}

/// Models with a loss of their own, by name.
pub fn with_own_losses() -> Vec<(String, Config)> {
    let captioner = Captioner { dim: 11, word_dim: 6, longest: 7, dropout: 0.0 };
    let vsrn = Vsrn { dim: DIM, word_dim: 9, layers: 1, ..Vsrn::default() };
    let writes = Config::Vsrn(Vsrn { captioner, ..vsrn });
    let pvse = Pvse { dim: DIM, word_dim: 9, diversity: 0.5, discrepancy: 0.3, ..Pvse::default() };
    [("vsrn that writes", writes), ("pvse of two heads", Config::Pvse(pvse))]
        .map(|(name, config)| (name.to_owned(), config))
        .into()
}

/// A model with initial weights, but for gains of batch norm, which may be zeros that hide a layer.
pub fn model(config: &Config, seed: u64, device: Device) -> Model {
    let first = Model::new(config.clone(), INPUTS, seed, Device::Cpu).unwrap();
    let mut draws = Draws::new(seed);
    let weights = first.weights().iter().map(|(name, weight)| {
        let mut numbers = weight.to_f32s().unwrap();
        if name.contains("bn") && name.ends_with(".weight") {
            numbers.iter_mut().for_each(|gain| *gain = 0.5 + draws.unit() as f32);
        }
        (name.to_owned(), Tensor::new(numbers, weight.shape(), Device::Cpu).unwrap())
    });
    let weights = weights.collect();
    Model::from_tensors(config.clone(), INPUTS, &weights, "the test", device).unwrap()
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
