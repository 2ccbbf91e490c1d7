//! What can be measured before the first caption is bought: how far the model has learned its pairs by heart, and
//! how the pool lies. `report --compare` holds it against what captions turned out to be worth.

use nextpair_data::{Matrix, draw};
use nextpair_models::Evaluation;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Most items that recall on train and on dev is measured with.
pub(crate) const COMPARED: usize = 500;
/// Most pool items that neighbours are looked for among, and most whose neighbours are looked for.
pub(crate) const AMONG: usize = 5_000;
const ASKED: usize = 200;

/// Keeps these draws apart from others with the same seed.
pub(crate) const TRAIN: u64 = 0x071;
pub(crate) const DEV: u64 = 0x072;
pub(crate) const POOL: u64 = 0x073;
const QUERY: u64 = 0x074;

/// What was known before the first batch. A part that could not be measured is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outset {
    /// Recall on pairs of train and of dev; without a dev split there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<Learned>,
    /// The shape of the pool; captions that are words have no vectors of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Shape>,
}

/// Recall of one model on equally many items of train and of dev.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Learned {
    /// Recall on pairs that it was trained on.
    pub train: Evaluation,
    /// Recall on pairs that it was not.
    pub dev: Evaluation,
}

impl Learned {
    /// Returns the R@1 on train less that on dev, text and image added up: what was learned by heart.
    pub fn gap(&self) -> f64 {
        let r1 = |of: &Evaluation| of.text.r1 + of.image.r1;
        r1(&self.train) - r1(&self.dev)
    }
}

/// How vectors lie, after their mean is taken off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// How much nearer the nearest other item is than a random one: 1 less the ratio of mean squared
    /// distances. 0: neighbours tell nothing; 1: every item has a copy.
    pub redundancy: f64,
    /// The number of dimensions that items spread over: `(tr C)² / tr C²` for the covariance `C`.
    pub dimensions: f64,
}

impl Shape {
    /// Measures the rows of a matrix, one vector each, by the neighbours of some. Returns `None` if there are
    /// fewer than three or all are the same.
    pub(crate) fn of(vectors: &Matrix, seed: u64) -> Option<Self> {
        let (count, dim) = (vectors.rows(), vectors.dim());
        if count < 3 {
            return None;
        }
        let asked = draw::sample(seed, QUERY, count, ASKED);
        let mut rows = vec![0.0; count * dim];
        rows.par_chunks_mut(dim).enumerate().for_each(|(row, out)| vectors.read_f64(row, out));
        centre(&mut rows, dim);
        let squares: Vec<f64> = rows.par_chunks(dim).map(|row| dot(row, row)).collect();
        let of_query = |&query: &u32| {
            let query = query as usize;
            let own = &rows[query * dim..][..dim];
            let (mut nearest, mut products) = (f64::INFINITY, 0.0);
            for (other, row) in rows.chunks(dim).enumerate().filter(|&(other, _)| other != query) {
                let product = dot(own, row);
                products += product * product;
                nearest = nearest.min(squares[query] + squares[other] - 2.0 * product);
            }
            (nearest.max(0.0), products / (count - 1) as f64)
        };
        // In order, so that sums have the same bits for any number of threads.
        let found: Vec<(f64, f64)> = asked.par_iter().map(of_query).collect();
        let mean = |sum: f64| sum / found.len() as f64;
        let nearest = mean(found.iter().map(|(nearest, _)| nearest).sum());
        let products = mean(found.iter().map(|(_, products)| products).sum());
        // Without their mean, two random items are apart by twice the variance.
        let variance = squares.iter().sum::<f64>() / (count - 1) as f64;
        (variance > 0.0 && products > 0.0).then(|| Shape {
            redundancy: (1.0 - nearest / (2.0 * variance)).clamp(0.0, 1.0),
            dimensions: variance * variance / products,
        })
    }
}

fn centre(rows: &mut [f64], dim: usize) {
    let count = (rows.len() / dim) as f64;
    let mut mean = vec![0.0; dim];
    for row in rows.chunks(dim) {
        mean.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    mean.iter_mut().for_each(|sum| *sum /= count);
    rows.par_chunks_mut(dim)
        .for_each(|row| row.iter_mut().zip(&mean).for_each(|(value, mean)| *value -= mean));
}

/// Sums eight lanes, which compilers make vectors of.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b;
        }
    }
    lanes.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use nextpair_data::draw::Draws;

    use super::*;

    fn normal(rows: usize, dim: usize, scale: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut draws = Draws::new(7);
        (0..rows * dim).map(|at| 3.0 + draws.normal() * scale(at % dim)).collect()
    }

    #[test]
    fn isotropic_vectors_spread_over_all_dimensions() {
        let shape = Shape::of(&Matrix::from_f64(32, &normal(3_000, 32, |_| 0.5)), 0).unwrap();
        assert!((shape.dimensions - 32.0).abs() < 1.5, "{shape:?}");
        // In few dimensions neighbours are near.
        let flat = |at: usize| if at < 2 { 1.0 } else { 1e-3 };
        let flat = Shape::of(&Matrix::from_f64(32, &normal(3_000, 32, flat)), 0).unwrap();
        assert!((flat.dimensions - 2.0).abs() < 0.2, "{flat:?}");
        assert!(flat.redundancy > 0.99 && shape.redundancy < 0.7, "{flat:?} {shape:?}");
    }

    #[test]
    fn copies_are_redundant_and_nothing_has_no_shape() {
        let once = normal(400, 64, |_| 1.0);
        let twice: Vec<f64> = once.iter().chain(&once).copied().collect();
        let copied = Shape::of(&Matrix::from_f64(64, &twice), 0).unwrap();
        assert!(copied.redundancy > 1.0 - 1e-9, "{copied:?}");
        assert_eq!(Shape::of(&Matrix::from_f64(4, &[1.0; 40]), 0), None);
        assert_eq!(Shape::of(&Matrix::from_f64(4, &[1.0; 8]), 0), None);
    }
}
