use std::ops::Range;
use std::sync::Arc;

use nextpair_engine::{BuiltIn, Picks, Problem};
use nextpair_kernels::{Encoded, Tensor};

use super::*;
use crate::{Config, Imram, Inputs, Model, Texts};

/// The scores of a small model do not depend on who holds them, and the CPU stands in for a GPU.
#[test]
fn a_search_remembers_what_it_found() {
    let mut imram = Imram::default();
    (imram.encoders.dim, imram.encoders.word_dim) = (16, 8);
    let inputs = Inputs { image: 10, text: 30 };
    let model = Model::new(Config::Imram(imram), inputs, 3, Device::Cpu).unwrap();
    let features = (0..9 * 4 * 10).map(|at| ((at * 37) % 23) as f32 / 23.0).collect();
    let features = Tensor::new(features, &[9, 4, 10], Device::Cpu).unwrap();
    let words: Vec<Vec<u32>> =
        (0..7).map(|c| (0..2 + c % 4).map(|w| 3 * c + w).collect()).collect();
    let images = Encodings::of(&model.encode_images(&features).unwrap()).unwrap();
    let texts = Encodings::of(&model.encode_texts(&Texts::words(&words).unwrap()).unwrap());
    let texts = texts.unwrap();
    for side in [Side::Image, Side::Text] {
        let (rows, columns) = side.own_and_other(&images, &texts);
        let plain = model.similarity(side, rows, columns).unwrap();
        let both = (rows.clone(), columns.clone());
        let scorer = Scorer { comparison: model.comparison().unwrap(), device: Device::Cpu };
        let tiles = GpuTiles::new(scorer, None, side, both);
        let (some, every): (Vec<u32>, Vec<u32>) =
            (vec![5, 0, 3], (0..columns.len() as u32).collect());
        let mut expected = vec![0.0; some.len() * every.len()];
        plain.tile(&some, &every, &mut expected).unwrap();
        let cut = f64::from(expected[4]);
        let found = {
            let sieve = tiles.sieve(&every, None).unwrap();
            let found = sieve.above(&some, &vec![cut.next_down(); every.len()]).unwrap();
            assert_eq!(tiles.last().len(), 1);
            let mut values = vec![0.0; found.len()];
            tiles.exact_pairs(&some, &every, &found, &mut values).unwrap();
            for (&(row, column), value) in found.iter().zip(&values) {
                let at = row as usize * every.len() + column as usize;
                assert_eq!(f64::from(expected[at]), *value);
            }
            assert_eq!(sieve.seen(&some).unwrap()[..], expected);
            assert!(sieve.seen(&some[1..]).is_none());
            found
        };
        let above = expected.iter().filter(|&&score| f64::from(score) >= cut).count();
        assert!(found.len() == above && above > 0 && above < expected.len());
        // Forgotten with the search; other pairs are computed.
        assert!(tiles.last().is_empty());
        let mut values = vec![0.0; 2];
        tiles.exact_pairs(&some, &every, &[(0, 1), (2, 4)], &mut values).unwrap();
        let of = |row: usize, column: usize| f64::from(expected[row * every.len() + column]);
        assert!((values[0] - of(0, 1)).abs() < 1e-6 && (values[1] - of(2, 4)).abs() < 1e-6);
    }
}

/// Stands in for a GPU: scores of all pairs are rough, those of some are canonical.
struct Rough {
    inner: Box<dyn Comparison>,
    /// The error of a score, by what the score is.
    noise: fn(f32) -> f32,
}

impl Comparison for Rough {
    fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        self.inner.pair_scores(images, texts, pairs, known)
    }

    fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        let scores = self.inner.scores(images, texts)?;
        Ok(scores.into_iter().map(|score| score + (self.noise)(score)).collect())
    }

    fn similarity(
        self: Box<Self>,
        _: Side,
        _: Encodings,
        _: Encodings,
        _: Device,
    ) -> Result<Box<dyn Similarity>, Error> {
        unreachable!("tests make tiles themselves")
    }
}

/// A number between -1 and 1 that is different for scores that differ in the last bit.
fn hash(score: f32) -> f32 {
    let mixed = score.to_bits().wrapping_mul(0x9e37_79b9).rotate_left(13).wrapping_mul(0x85eb_ca6b);
    mixed as f32 / (u32::MAX / 2) as f32 - 1.0
}

/// A small model, and encoded images and captions, some of which are copies of each other.
fn small_world(images: usize, texts: usize) -> (Model, Encodings, Encodings) {
    let mut imram = Imram::default();
    (imram.encoders.dim, imram.encoders.word_dim) = (16, 8);
    let inputs = Inputs { image: 10, text: 50 };
    let model = Model::new(Config::Imram(imram), inputs, 3, Device::Cpu).unwrap();
    let feature = |at: usize| {
        // Every seventh image is the one before it.
        let (item, within) = (at / 40, at % 40);
        let item = if item % 7 == 6 { item - 1 } else { item };
        ((item * 40 + within) * 7919 % 997) as f32 / 997.0
    };
    let features: Vec<f32> = (0..images * 40).map(feature).collect();
    let features = Tensor::new(features, &[images, 4, 10], Device::Cpu).unwrap();
    let words: Vec<Vec<u32>> = (0..texts as u32)
        .map(|c| (0..2 + c % 4).map(|w| (c / 5 * 5 * 11 + c % 3 * 17 + w * 7) % 50).collect())
        .collect();
    let images = Encodings::of(&model.encode_images(&features).unwrap()).unwrap();
    let texts = Encodings::of(&model.encode_texts(&Texts::words(&words).unwrap()).unwrap());
    (model, images, texts.unwrap())
}

const POOL: u32 = 70;
const PAIRS_THERE: u32 = 60;

/// The picks of all strategies that compare, with the similarities that `tiles` makes of pool and pairs.
fn picks(
    (images, texts): (&Encodings, &Encodings),
    options: &str,
    tiles: impl Fn(Encodings, Encodings) -> Box<dyn Similarity>,
) -> Result<Vec<Picks>, engine::Error> {
    let of = |items: Range<u32>| images.clone().arranged(items.collect());
    let anchors = || texts.clone().arranged((0..PAIRS_THERE).collect());
    let pool: Arc<dyn Similarity> = tiles(of(PAIRS_THERE..PAIRS_THERE + POOL), anchors()).into();
    let paired: Arc<dyn Similarity> = tiles(of(0..PAIRS_THERE), anchors()).into();
    let problem = Problem::of_similarities(pool, paired).build()?;
    let compare = ["hard-negative", "coverage"].map(|name| format!("{name}{options}"));
    let others = ["margin", "least-similar", "entropy"].map(str::to_owned);
    let select = |name: String| problem.select(&name.parse::<BuiltIn>().unwrap(), 23, &());
    compare.into_iter().chain(others).map(select).collect()
}

/// Picks by rough scores are those by canonical ones, to the last bit: with noise that says nothing,
/// noise that turns scores that are close around, and noise that is as large as it may be.
#[test]
fn rough_scores_change_no_pick() {
    let (model, images, texts) = small_world((PAIRS_THERE + POOL) as usize, PAIRS_THERE as usize);
    let noises: [fn(f32) -> f32; 5] = [
        |_| 0.0,
        |score| 1e-4 * hash(score),
        |score| 1e-4 * hash(score).signum(),
        // A little higher becomes a little lower.
        |score| 1e-3 * (0.5 - (score * 500.0).rem_euclid(1.0)),
        // Not a number, and beyond single precision.
        |score| match hash(score) {
            odd if odd > 0.95 => f32::NAN,
            odd if odd < -0.95 => f32::INFINITY,
            odd => 1e-4 * odd,
        },
    ];
    let scorer = |comparison| Scorer { comparison, device: Device::Cpu };
    for options in ["", "+top-3+count+index", "+top-40+index"] {
        let exact = picks((&images, &texts), options, |rows, columns| {
            model.similarity(Side::Image, &rows, &columns).unwrap()
        });
        let exact = exact.unwrap();
        for (at, noise) in noises.into_iter().enumerate() {
            let found = picks((&images, &texts), options, |rows, columns| {
                let inner = model.comparison().unwrap();
                let fast = scorer(Box::new(Rough { inner, noise }));
                let canonical = Some(scorer(model.comparison().unwrap()));
                Box::new(GpuTiles::new(fast, canonical, Side::Image, (rows, columns)))
            });
            assert!(found.unwrap() == exact, "noise {at} {options:?}");
        }
        // Without a second look, noise is seen: the test above says something.
        let rough = picks((&images, &texts), options, |rows, columns| {
            let inner = model.comparison().unwrap();
            let fast = scorer(Box::new(Rough { inner, noise: noises[3] }));
            Box::new(GpuTiles::new(fast, None, Side::Image, (rows, columns)))
        });
        let ids = |all: &[Picks]| all.iter().map(Picks::indices).collect::<Vec<_>>();
        assert_ne!(ids(&rough.unwrap()), ids(&exact));
    }
}

/// A score that is far off where the sample had none ends a selection.
#[test]
fn a_margin_that_is_too_small_is_said() {
    let (model, images, texts) = small_world((PAIRS_THERE + POOL) as usize, PAIRS_THERE as usize);
    let scorer = |comparison| Scorer { comparison, device: Device::Cpu };
    let refused = picks((&images, &texts), "", |rows, columns| {
        let inner = model.comparison().unwrap();
        // High scores alone are off, and upwards.
        let noise = |score: f32| if hash(score) > 0.98 { 0.5 } else { 1e-4 * hash(score) };
        let fast = scorer(Box::new(Rough { inner, noise }));
        let canonical = Some(scorer(model.comparison().unwrap()));
        let tiles = GpuTiles::new(fast, canonical, Side::Image, (rows, columns));
        // As if the sample had not met one of them.
        tiles.margin.set(16e-4).unwrap();
        Box::new(tiles)
    });
    let error = refused.unwrap_err().to_string();
    let said = ["a score on cpu is off by ", ", where a sample allows for 1.6e-3: select"];
    assert!(said.iter().all(|said| error.contains(said)), "{error}");
}

#[test]
fn the_margin_follows_the_errors_of_a_sample() {
    let (model, images, texts) = small_world(200, 90);
    let scorer = |comparison| Scorer { comparison, device: Device::Cpu };
    for size in [0.0, 1e-4f32, 1e-2] {
        let noise: fn(f32) -> f32 = match size {
            0.0 => |_| 0.0,
            1e-4f32 => |score| 1e-4 * hash(score),
            _ => |score| 1e-2 * hash(score),
        };
        let inner = model.comparison().unwrap();
        let fast = scorer(Box::new(Rough { inner, noise }));
        let canonical = Some(scorer(model.comparison().unwrap()));
        let both = (images.clone(), texts.clone());
        let tiles = GpuTiles::new(fast, canonical, Side::Image, both);
        let margin = tiles.margin().unwrap();
        let seen = f64::from(size) * SAFETY;
        assert!(margin >= 0.9 * seen && margin <= 1.1 * seen + 2.0 * ORDER, "{size} {margin}");
        assert_eq!(tiles.tile_error(&[], &[]), margin);
    }
}

/// Where one row is the highest everywhere and the others hardly differ, no other could be the highest,
/// and nearly all could be nearest to it.
#[test]
fn rows_that_miss_by_about_as_much_are_counted() {
    let (rows, columns) = (10, 8);
    let score = |at: usize| if at / columns == 3 { 0.9 } else { 0.1 + 1e-5 * (at % 7) as f32 };
    let scores: Vec<f32> = (0..rows * columns).map(score).collect();
    assert_eq!(near_rivals(&scores, columns, 1e-3), 0);
    assert_eq!(near_misses(&scores, columns, 1e-3), (rows - 1) * (columns - 1));
    assert_eq!(near_rivals(&scores, columns, 1.0), (rows - 1) * columns);
    let apart: Vec<f32> =
        (0..rows * columns).map(|at| if at < columns { 0.9 } else { 0.01 * at as f32 }).collect();
    assert_eq!(near_misses(&apart, columns, 1e-3), 0);
}

/// Of a model whose scores hardly differ, nearly all pairs could matter.
#[test]
fn scores_that_hardly_differ_are_taken_as_they_are() {
    let (model, images, texts) = small_world(2600, 90);
    let scorer = |comparison| Scorer { comparison, device: Device::Cpu };
    let tiles = |noise: fn(f32) -> f32, copies: usize| {
        let fast = scorer(Box::new(Rough { inner: model.comparison().unwrap(), noise }));
        let canonical = Some(scorer(model.comparison().unwrap()));
        let many = |of: &Encodings| {
            of.clone().arranged((0..of.len() as u32).collect::<Vec<_>>().repeat(copies))
        };
        GpuTiles::new(fast, canonical, Side::Image, (many(&images), many(&texts)))
    };
    assert!(tiles(|score| 1e-7 * hash(score), 10).looks_again().unwrap());
    assert!(!tiles(|score| 0.1 * hash(score), 10).looks_again().unwrap());
    // Few pairs are worth it however close they are.
    assert!(tiles(|score| 0.1 * hash(score), 1).looks_again().unwrap());
    let rough = tiles(|score| 0.1 * hash(score), 10);
    let (rows, columns): (Vec<u32>, Vec<u32>) = ((0..40).collect(), (0..90).collect());
    let sieve = rough.sieve(&columns, None).unwrap();
    let found = sieve.above(&rows, &vec![f64::MIN; 90]).unwrap();
    let mut values = vec![0.0; found.len()];
    rough.exact_pairs(&rows, &columns, &found, &mut values).unwrap();
    let seen = sieve.seen(&rows).unwrap();
    assert!(values.iter().zip(&seen[..]).all(|(value, seen)| *value == f64::from(*seen)));
    assert_eq!((found.len(), rough.tile_error(&rows, &columns)), (3600, 0.0));
}
