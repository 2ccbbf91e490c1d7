//! Whether a pool looks like the other half of the pairs, where the two halves lie apart.

use nextpair_core::{Matrix, draw};

use crate::ahead::fetch;

/// Vectors of each kind, at most.
const SAMPLE: usize = 1000;
/// Pairs below which nothing is said.
const FEWEST: usize = 40;
/// Purposes of the draws.
const PAIRS: u64 = 24;
const POOL: u64 = 25;
/// The share of vectors that must lie on their side.
const CLEAR: f64 = 0.9;

/// Whether both halves of the pairs lie apart, so that either is told by the nearer mean, and the pool
/// lies with the other half.
///
/// Means come of one half of a sample, and the other half shows whether they tell the sides apart:
/// in many dimensions, vectors are always nearer to a mean that they are a part of.
pub(super) fn looks_like_other(pool: &Matrix, own: &Matrix, other: &Matrix, seed: u64) -> bool {
    let (dim, pairs) = (own.dim(), own.rows().min(other.rows()));
    let flat = [pool, own, other].iter().all(|matrix| matrix.locals() == 1 && matrix.dim() == dim);
    if !flat || pairs < FEWEST || pool.rows() == 0 {
        return false;
    }
    let sampled = draw::sample(seed, PAIRS, pairs, pairs.min(SAMPLE));
    let (fitted, tested) = sampled.split_at(sampled.len() / 2);
    let (mine, theirs) = (mean(own, fitted), mean(other, fitted));
    let axis: Vec<f64> = theirs.iter().zip(&mine).map(|(theirs, mine)| theirs - mine).collect();
    let middle: f64 =
        axis.iter().zip(theirs.iter().zip(&mine)).map(|(a, (t, m))| a * (t + m) / 2.0).sum();
    let with_other = |matrix: &Matrix, rows: &[u32]| {
        let beyond = |&&row: &&u32| {
            let direction = direction(matrix, row);
            axis.iter().zip(direction).map(|(axis, value)| axis * value).sum::<f64>() > middle
        };
        rows.iter().filter(beyond).count() as f64 / rows.len() as f64
    };
    let of_pool = draw::sample(seed, POOL, pool.rows(), pool.rows().min(SAMPLE));
    fetch(pool, &of_pool);
    with_other(own, tested) <= 1.0 - CLEAR
        && with_other(other, tested) >= CLEAR
        && with_other(pool, &of_pool) >= CLEAR
}

fn direction(matrix: &Matrix, row: u32) -> Vec<f64> {
    let mut values = vec![0.0; matrix.dim()];
    matrix.read_f64(row as usize, &mut values);
    let norm = values.iter().map(|value| value * value).sum::<f64>().sqrt();
    if norm > 0.0 {
        values.iter_mut().for_each(|value| *value /= norm);
    }
    values
}

fn mean(matrix: &Matrix, rows: &[u32]) -> Vec<f64> {
    let mut sum = vec![0.0; matrix.dim()];
    for &row in rows {
        for (sum, value) in sum.iter_mut().zip(direction(matrix, row)) {
            *sum += value / rows.len() as f64;
        }
    }
    sum
}
