//! Scores of all pairs, of some pairs and of the engine's similarity are the same.

use std::ops::Range;
use std::sync::Arc;

use nextpair_data::Side;
use nextpair_engine::{
    BuiltIn, Coverage, Entropy, HardNegative, Margin, Picks, Problem, Similarity,
};
use nextpair_models::{
    Config, Device, Directions, Encoders, Encodings, Imram, Precision, Pvse, Scan,
};

use crate::small;

/// Images and captions: more pairs than are computed at once.
const COUNT: usize = 7;

#[test]
fn every_way_to_a_score_gives_the_same() {
    let pairs: Vec<(u32, u32)> = vec![(0, 0), (3, 1), (3, 4), (4, 2)];
    for (name, config) in small::configs() {
        let scored = |device: Device| {
            let model = small::model(&config, 1, device);
            let batch = small::batch(&config, COUNT, 2, device);
            let images = model.encode_images(&batch.images).unwrap();
            let texts = model.encode_texts(&batch.texts).unwrap();
            let comparison = model.comparison().unwrap();
            let some =
                comparison.pair_scores(&images, &texts, &pairs, None).unwrap().to_f32s().unwrap();
            let all = comparison.scores(&images, &texts).unwrap();
            (model, images, texts, some, all)
        };
        let (_, _, _, plain, _) = scored(Device::Reference);
        for device in Device::available() {
            let (model, images, texts, some, all) = scored(device);
            for (((image, text), some), plain) in pairs.iter().zip(&some).zip(&plain) {
                let one = all[*image as usize * COUNT + *text as usize];
                assert!((one - some).abs() <= 1e-6, "{name}: {one} {some}");
                assert!((one - plain).abs() <= 4e-6, "{name} on {device}: {one} {plain}");
            }
            let (images, texts) = (Encodings::of(&images).unwrap(), Encodings::of(&texts).unwrap());
            for side in [Side::Image, Side::Text] {
                let (rows, columns) = side.own_and_other(&images, &texts);
                let similarity = model.similarity(side, rows, columns).unwrap();
                let every: Vec<u32> = (0..COUNT as u32).collect();
                let mut tile = vec![0.0; COUNT * COUNT];
                similarity.tile(&every, &every, &mut tile).unwrap();
                let error = similarity.tile_error(&every, &every);
                for row in 0..COUNT as u32 {
                    let mut exact = [0.0; 2];
                    similarity.exact(row, &[4, 1], &mut exact).unwrap();
                    for (column, exact) in [4, 1].into_iter().zip(exact) {
                        let at = row as usize * COUNT + column;
                        assert!((f64::from(tile[at]) - exact).abs() <= error, "{name} {side}");
                        let (image, text) = side.image_and_text(row as usize, column);
                        let score = f64::from(all[image * COUNT + text]);
                        assert!((score - exact).abs() <= 1e-6, "{name} {side} {score} {exact}");
                    }
                }
            }
        }
    }
}

/// The picks of a selection with a model of the size that matrix units take, in a precision of a GPU.
fn picks(config: &Config, device: Device, strategy: BuiltIn, (pairs, pool): (u32, u32)) -> Picks {
    // As for every selection, encoders run in single precision.
    let exact = device.with_precision(Precision::Fp32);
    let encoder = small::model(config, 1, exact);
    let batch = small::batch(config, (pairs + pool) as usize, 2, exact);
    let images = Encodings::of(&encoder.encode_images(&batch.images).unwrap()).unwrap();
    let texts = Encodings::of(&encoder.encode_texts(&batch.texts).unwrap()).unwrap();
    let model = small::model(config, 1, device);
    let anchors = texts.arranged((0..pairs).collect());
    let rows = |items: Range<u32>| -> Arc<dyn Similarity> {
        let rows = images.clone().arranged(items.collect());
        model.similarity(Side::Image, &rows, &anchors).unwrap().into()
    };
    let problem = Problem::of_similarities(rows(pairs..pairs + pool), rows(0..pairs));
    problem.build().unwrap().select(&strategy, pool as usize / 4, &()).unwrap()
}

/// Asserts that a GPU picks in every precision as in single precision. Its sums are in another order for
/// other tiles, which changes the last digits.
fn compare_picks(config: &Config, strategies: &[BuiltIn], size: (u32, u32)) {
    let gpus = Device::available().into_iter().filter(|device| matches!(device, Device::Cuda(_)));
    for (device, &strategy) in gpus.flat_map(|gpu| strategies.iter().map(move |name| (gpu, name))) {
        let exact = picks(config, device, strategy, size);
        for precision in [Precision::Tf32, Precision::Fp16] {
            let found = picks(config, device.with_precision(precision), strategy, size);
            assert_eq!(found.picks.len(), exact.picks.len());
            for (found, exact) in found.picks.iter().zip(&exact.picks) {
                let near = (found.score - exact.score).abs() <= 2e-5;
                assert!(near, "{config:?} {strategy} {precision}: {found:?} {exact:?}");
            }
        }
    }
}

#[test]
fn every_precision_picks_as_single_precision() {
    let encoders = || Encoders { dim: 256, word_dim: 9, ..Encoders::default() };
    let imram = |mode| Config::Imram(Imram { encoders: encoders(), mode, ..Imram::default() });
    let scan = Config::Scan(Scan { encoders: encoders(), ..Scan::default() });
    let pvse = Config::Pvse(Pvse { dim: 256, word_dim: 9, ..Pvse::default() });
    for config in [imram(Directions::Text), imram(Directions::Full), scan, pvse] {
        let strategies = [
            HardNegative::default().into(),
            Coverage::default().into(),
            Margin::default().into(),
            Entropy::default().into(),
        ];
        compare_picks(&config, &strategies, (60, 90));
    }
}

#[test]
fn models_of_pairs_pick_in_every_precision_as_in_single_precision() {
    let names = ["sgraf Both", "naaf 20", "camp GateFusionNew", "camp CrossAttention"];
    for (name, config) in small::configs() {
        if names.contains(&&name[..]) {
            compare_picks(&config, &[HardNegative::default().into()], (20, 30));
        }
    }
}
