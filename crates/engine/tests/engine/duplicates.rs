//! Duplicates against the plain version.

use nextpair_core::{Matrix, Progress};
use nextpair_engine::{Alike, Distinct, Draws, Error, distinct, reference};
use proptest::prelude::*;

use crate::case::{Numbers, config, vectors};

/// A pool with copies and near copies of its items and of paired ones.
fn world(seed: u64, pairs: usize, items: usize, dim: usize, numbers: Numbers) -> [Vec<f64>; 2] {
    let mut draws = Draws::new(seed);
    let paired = vectors(&mut draws, numbers, pairs, dim);
    let mut pool = vectors(&mut draws, numbers, items, dim);
    for item in 1..items {
        let source = match draws.below(5) {
            0 => paired[draws.below(pairs) * dim..][..dim].to_vec(),
            1 | 2 => pool[draws.below(item) * dim..][..dim].to_vec(),
            _ => continue,
        };
        let jitter = [0.0, 0.02, 0.2][draws.below(3)];
        for (value, source) in pool[item * dim..][..dim].iter_mut().zip(source) {
            *value = (source * (1.0 + jitter * draws.normal())) as f32 as f64;
        }
    }
    [paired, pool]
}

fn rows(values: &[f64], dim: usize) -> Vec<Vec<f64>> {
    values.chunks(dim).map(<[f64]>::to_vec).collect()
}

fn single(values: &[f64], dim: usize) -> Matrix {
    Matrix::from_vec(dim, values.iter().map(|&v| v as f32).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn what_is_kept_is_what_the_plain_version_keeps(
        seed in any::<u64>(),
        (pairs, items, dim) in (1usize..30, 1usize..120, 1usize..40),
        numbers in prop::sample::select(vec![Numbers::Isotropic, Numbers::Falling, Numbers::Whole]),
        cosine in prop::sample::select(vec![None, Some(0.5), Some(0.9), Some(0.98), Some(1.0)]),
    ) {
        let [paired, pool] = world(seed, pairs, items, dim, numbers);
        let expected = reference::distinct(&rows(&pool, dim), &rows(&paired, dim), cosine);
        let alike = cosine.map_or(Alike::Exact, Alike::Cosine);
        let (pool, paired) = (single(&pool, dim), single(&paired, dim));
        for threads in [1, 3] {
            let threads = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let found = threads.install(|| distinct(&pool, &paired, alike, &())).unwrap();
            let kept: Vec<usize> = found.kept.iter().map(|&item| item as usize).collect();
            prop_assert_eq!(&kept, &expected);
            prop_assert_eq!(kept.len() + found.like_paired + found.like_earlier, items);
        }
    }
}

#[test]
fn large_pools_are_thinned_out_chunk_by_chunk() {
    let dim = 16;
    let [paired, pool] = world(3, 40, 5000, dim, Numbers::Isotropic);
    let expected = reference::distinct(&rows(&pool, dim), &rows(&paired, dim), Some(0.97));
    let found =
        distinct(&single(&pool, dim), &single(&paired, dim), Alike::Cosine(0.97), &()).unwrap();
    assert_eq!(found.kept.iter().map(|&i| i as usize).collect::<Vec<_>>(), expected);
    assert!(found.like_paired > 500 && found.like_earlier > 1000, "{:?}", found.kept.len());
}

#[test]
fn the_first_of_every_group_is_kept() {
    let paired = Matrix::from_vec(2, vec![1.0f32, 0.0]);
    let pool = Matrix::from_vec(2, vec![0.0f32, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 2.0, 1.0, 0.001]);
    let kept = |alike| distinct(&pool, &paired, alike, &()).unwrap();
    let exact = Distinct { kept: vec![0, 3, 4], like_paired: 1, like_earlier: 1 };
    assert_eq!(kept(Alike::Exact), exact);
    let near = Distinct { kept: vec![0], like_paired: 2, like_earlier: 2 };
    assert_eq!(kept(Alike::Cosine(0.98)), near);
}

#[test]
fn what_has_no_cosine_is_refused() {
    let zero = Matrix::from_vec(2, vec![0.0f32, 0.0, 1.0, 0.0]);
    let one = Matrix::from_vec(2, vec![1.0f32, 1.0]);
    assert_eq!(distinct(&zero, &one, Alike::Exact, &()).unwrap().kept, [0, 1]);
    for bad in [0.0, -0.5, 1.5, f64::NAN] {
        let error = distinct(&one, &one, Alike::Cosine(bad), &()).unwrap_err();
        assert!(matches!(error, Error::NotACosine { .. }), "{error}");
    }
    let error = distinct(&zero, &one, Alike::Cosine(0.9), &()).unwrap_err();
    assert!(matches!(error, Error::ZeroVector { row: 0, .. }), "{error}");
    let wide = Matrix::from_vec(3, vec![1.0f32; 3]);
    let error = distinct(&wide, &one, Alike::Cosine(0.9), &()).unwrap_err();
    assert!(matches!(error, Error::DimensionMismatch { .. }), "{error}");
}

#[test]
fn the_search_can_be_stopped() {
    struct Stop;
    impl Progress for Stop {
        fn start(&self, _: &'static str, _: u64) {}
        fn advance(&self, _: u64) {}
        fn stopped(&self) -> bool {
            true
        }
    }
    let pool = Matrix::from_vec(2, vec![1.0f32, 1.0, 2.0, 1.0]);
    let stopped = distinct(&pool, &pool, Alike::Exact, &Stop);
    assert!(matches!(stopped, Err(Error::Stopped)));
}
