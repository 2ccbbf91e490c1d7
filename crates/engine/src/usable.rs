//! Which items can be paired at all, learned from what annotators accepted and refused.
//!
//! A logistic regression on an item's direction and on two numbers more: the logarithms of the mean squared cosine
//! with items that were accepted, and with items that were refused. Squares tell what no straight cut does: junk that
//! lies on all sides of the mean, as shuffled vectors do. Before there are enough refusals, paired items are told from the
//! pool, and the odds are a ratio of densities: how often items like this one are paired for one that is in the pool.

use std::collections::HashSet;
use std::sync::Arc;

use nextpair_core::{Matrix, draw};
use rayon::prelude::*;

use crate::canonical::{exp, ln};
use crate::centred::{Centred, mean_of};
use crate::error::unless_stopped;
use crate::packed::Packed;
use crate::{Error, Progress, Vectors};

/// Refused items below which the pool takes their place.
pub const FEWEST_REFUSED: usize = 10;
/// Pairs, and pool items, below which they are not told from each other: of fewer than 50, a third of a pool without junk
/// looked like nothing paired.
const FEWEST_OF_RATIO: usize = 100;

/// Most examples of each kind.
const LEARNED_FROM: usize = 1000;
/// Most items of each kind to compare others with.
const COMPARED: usize = 128;
/// Purposes of the draws of those.
const SAMPLED: u64 = 11;
const COMPARED_WITH: u64 = 23;
/// The penalty on weights.
const PENALTY: f64 = 0.01;
/// Steps of gradient descent: the penalty makes the problem well conditioned.
const STEPS: usize = 300;
/// A squared cosine from which on two items are the same: an item is no evidence of itself.
const SAME: f64 = 1.0 - 1e-9;
/// The mean squared cosine of items that have nothing in common with any.
const LEAST: f64 = 1e-9;
/// The probability from which on an item counts as usable.
const USABLE: f64 = 0.5;
/// Rows that are multiplied at once.
const BLOCK: usize = 64;

/// How likely an item is to be usable, as far as features tell.
pub struct Usability {
    /// The weights of the direction, of the two energies, and the bias.
    weights: Vec<f64>,
    mean: Arc<[f64]>,
    energies: Energies,
    /// Whether pairs were told from the pool.
    is_ratio: bool,
}

/// The mean squared cosine with items that were accepted and with others, as logarithms, standardised.
struct Energies {
    directions: Packed,
    /// Items of the first kind.
    accepted: usize,
    /// The mean of each, and 1 over its deviation.
    scale: [(f64, f64); 2],
}

/// A number of examples: their directions, their energies, whether they are usable, and how much each counts.
struct Examples {
    directions: Vec<f64>,
    energies: Vec<[f64; 2]>,
    accepted: usize,
    weights: [f64; 2],
}

impl Usability {
    /// Learns from the features of accepted and refused items, which count alike in sum; with fewer than
    /// [`FEWEST_REFUSED`] refused ones, from accepted items and the pool. Returns `None` if there are too few accepted
    /// items too.
    pub fn learn(
        accepted: &Matrix,
        refused: Option<&Matrix>,
        pool: &Matrix,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<Option<Self>, Error> {
        let refused = refused.filter(|refused| refused.rows() >= FEWEST_REFUSED);
        let (is_ratio, fewest) =
            (refused.is_none(), if refused.is_none() { FEWEST_OF_RATIO } else { 1 });
        let others = refused.unwrap_or(pool);
        // Only the examples are read.
        let [some, other] = [accepted, others]
            .map(|set| set.gather(&draw::sample(seed, SAMPLED, set.rows(), LEARNED_FROM)));
        if distinct(&some) < fewest || distinct(&other) < fewest {
            return Ok(None);
        }
        let what = if is_ratio { "the pool's features" } else { "the refused items" };
        let accepted = Vectors::new(some, "the accepted items")?;
        let others = Vectors::new(other, what)?;
        let every = [&accepted, &others].map(|set| (0..set.len() as u32).collect::<Vec<u32>>());
        let mean = mean_of(&[(&accepted, &every[0]), (&others, &every[1])], accepted.dim());
        let directions = [&accepted, &others]
            .map(|set| directions(&Centred::new(set.matrix(), &mean, set.device()), 0..set.len()));
        let (energies, examples) = Energies::learn(directions, accepted.dim(), seed);
        let weights = examples.fit(accepted.dim(), progress)?;
        Ok(Some(Usability { weights, mean, energies, is_ratio }))
    }

    /// The probability that each item is usable, if as many are usable as are not; or where pairs were told from the pool
    /// how often such items are paired for one in the pool, at most 1.
    pub fn of(&self, items: &Matrix) -> Result<Vec<f64>, Error> {
        let items = Vectors::new(items.clone(), "the pool's features")?;
        if items.dim() != self.mean.len() {
            return Err(Error::DimensionMismatch {
                left: "the pool's features",
                left_dim: items.dim(),
                right: "the features of the pairs",
                right_dim: self.mean.len(),
            });
        }
        let centred = Centred::new(items.matrix(), &self.mean, items.device());
        let dim = items.dim();
        let blocks = (0..items.len().div_ceil(BLOCK)).into_par_iter().map(|block| {
            let rows = block * BLOCK..items.len().min((block + 1) * BLOCK);
            let directions = directions(&centred, rows);
            let energies = self.energies.of(&directions, dim);
            let scores = directions.chunks_exact(dim).zip(&energies);
            let scores = scores.map(|(x, energies)| score(&self.weights, x, *energies));
            scores.map(|score| self.probability(score)).collect::<Vec<f64>>()
        });
        Ok(blocks.collect::<Vec<_>>().concat())
    }

    fn probability(&self, score: f64) -> f64 {
        if self.is_ratio { exp(score).min(1.0) } else { logistic(score) }
    }

    /// Items unlike everything accepted.
    pub(crate) fn strange(&self, items: &Matrix) -> Result<usize, Error> {
        Ok(self.of(items)?.into_iter().filter(|&probability| probability < USABLE).count())
    }

    /// The items to choose from, ascending: those that are usable rather than not, but at least
    /// half of them and at least `least`.
    pub fn usable(&self, items: &Matrix, least: usize) -> Result<Vec<u32>, Error> {
        let probabilities = self.of(items)?;
        let mut order: Vec<u32> = (0..probabilities.len() as u32).collect();
        let falling = |a: &u32, b: &u32| {
            let (a_value, b_value) = (probabilities[*a as usize], probabilities[*b as usize]);
            b_value.total_cmp(&a_value).then(a.cmp(b))
        };
        order.sort_by(falling);
        let likely = probabilities.iter().filter(|&&probability| probability >= USABLE).count();
        order.truncate(likely.max(order.len().div_ceil(2)).max(least));
        order.sort_unstable();
        Ok(order)
    }
}

impl Energies {
    /// Draws the items to compare with. Also returns the examples.
    fn learn([accepted, others]: [Vec<f64>; 2], dim: usize, seed: u64) -> (Self, Examples) {
        let counts = [accepted.len() / dim, others.len() / dim];
        let drawn = counts.map(|count| draw::sample(seed, COMPARED_WITH, count, COMPARED));
        let all = [accepted, others].concat();
        let places: Vec<usize> = drawn[0]
            .iter()
            .map(|&at| at as usize)
            .chain(drawn[1].iter().map(|&at| counts[0] + at as usize))
            .collect();
        let directions = Packed::new(dim, places.len(), |at, out| {
            out.copy_from_slice(&all[places[at] * dim..][..dim]);
        });
        let mut energies =
            Energies { directions, accepted: drawn[0].len(), scale: [(0.0, 1.0); 2] };
        let mut examples = Examples {
            energies: energies.of(&all, dim),
            directions: all,
            accepted: counts[0],
            weights: counts.map(|count| 0.5 / count as f64),
        };
        energies.scale = [0, 1].map(|k| {
            let values =
                || examples.energies.iter().enumerate().map(|(at, e)| (examples.weight(at), e[k]));
            let mean: f64 = values().map(|(weight, value)| weight * value).sum();
            let variance: f64 =
                values().map(|(weight, value)| weight * (value - mean) * (value - mean)).sum();
            (mean, if variance > 0.0 { 1.0 / variance.sqrt() } else { 0.0 })
        });
        let scale = energies.scale;
        examples.energies.iter_mut().for_each(|e| *e = standardised(*e, scale));
        (energies, examples)
    }

    /// The energies of items, given by their directions.
    fn of(&self, directions: &[f64], dim: usize) -> Vec<[f64; 2]> {
        let mut found = Vec::with_capacity(directions.len() / dim);
        let mut cosines = vec![0.0; BLOCK * self.directions.len()];
        for rows in directions.chunks(BLOCK * dim) {
            let count = rows.len() / dim;
            let cosines = &mut cosines[..count * self.directions.len()];
            self.directions.products(rows, cosines);
            for cosines in cosines.chunks_exact(self.directions.len()) {
                let (accepted, others) = cosines.split_at(self.accepted);
                found.push(standardised([accepted, others].map(energy), self.scale));
            }
        }
        found
    }
}

fn standardised(energies: [f64; 2], scale: [(f64, f64); 2]) -> [f64; 2] {
    [0, 1].map(|k| (energies[k] - scale[k].0) * scale[k].1)
}

/// The logarithm of the mean squared cosine, of all but the item itself. Copies of it are evidence.
fn energy(cosines: &[f64]) -> f64 {
    let own = cosines.iter().position(|cosine| cosine * cosine >= SAME);
    let others = || cosines.iter().enumerate().filter(|(at, _)| Some(*at) != own);
    let sum = others().fold(0.0, |sum, (_, cosine)| sum + cosine * cosine);
    ln(sum / others().count().max(1) as f64 + LEAST)
}

impl Examples {
    fn weight(&self, at: usize) -> f64 {
        self.weights[usize::from(at >= self.accepted)]
    }

    /// Minimises the mean loss of both kinds.
    fn fit(&self, dim: usize, progress: &dyn Progress) -> Result<Vec<f64>, Error> {
        // Directions have length 1, the energies a variance of 1 each, and the bias counts as one more dimension, so
        // the curvature is at most 4 / 4.
        let step = 1.0 / (1.0 + PENALTY);
        let ratio = (PENALTY / (1.0 + PENALTY)).sqrt();
        let momentum = (1.0 - ratio) / (1.0 + ratio);
        let bias = dim + 2;
        let (mut now, mut before) = (vec![0.0; dim + 3], vec![0.0; dim + 3]);
        for _ in 0..STEPS {
            unless_stopped(progress)?;
            // Nesterov's accelerated gradient, summed in the order of the examples.
            let ahead: Vec<f64> = now
                .iter()
                .zip(&before)
                .map(|(now, before)| now + momentum * (now - before))
                .collect();
            let mut gradient: Vec<f64> = ahead.iter().map(|weight| PENALTY * weight).collect();
            gradient[bias] = 0.0;
            let examples = self.directions.chunks_exact(dim).zip(&self.energies);
            for (at, (x, energies)) in examples.enumerate() {
                let usable = f64::from(u8::from(at < self.accepted));
                let slope = self.weight(at) * (logistic(score(&ahead, x, *energies)) - usable);
                gradient.iter_mut().zip(x).for_each(|(gradient, x)| *gradient += slope * x);
                for (gradient, energy) in gradient[dim..].iter_mut().zip(energies) {
                    *gradient += slope * energy;
                }
                gradient[bias] += slope;
            }
            before = now;
            now =
                ahead.iter().zip(&gradient).map(|(weight, slope)| weight - step * slope).collect();
        }
        Ok(now)
    }
}

/// The score of an item by the weights of its direction, of its energies, and the bias.
fn score(weights: &[f64], direction: &[f64], energies: [f64; 2]) -> f64 {
    let (of_direction, rest) = weights.split_at(direction.len());
    dot(direction, of_direction) + dot(&energies, rest) + rest[2]
}

/// The number of different rows: several captions of an image are one item.
fn distinct(matrix: &Matrix) -> usize {
    (0..matrix.rows()).map(|row| matrix.row_bytes(row)).collect::<HashSet<_>>().len()
}

/// Vectors less the mean, at unit length, one after the other.
fn directions(centred: &Centred, items: std::ops::Range<usize>) -> Vec<f64> {
    let places: Vec<u32> = items.map(|at| at as u32).collect();
    let mut all = centred.differences(&places);
    let dim = all.len() / places.len().max(1);
    for (x, &at) in all.chunks_exact_mut(dim.max(1)).zip(&places) {
        let length = centred.length(at as usize);
        x.iter_mut().for_each(|x| *x = if length > 0.0 { *x / length } else { 0.0 });
    }
    all
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).fold(0.0, |sum, (x, y)| sum + x * y)
}

fn logistic(score: f64) -> f64 {
    1.0 / (1.0 + exp(-score))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draws;

    /// Items around one of two centres.
    fn around(draws: &mut Draws, centre: f64, count: usize) -> Matrix {
        let dim = 16;
        let value = |k: usize, draws: &mut Draws| draws.normal() + if k < 4 { centre } else { 3.0 };
        let values: Vec<f64> = (0..count * dim).map(|at| value(at % dim, draws)).collect();
        Matrix::from_f64(dim, &values)
    }

    #[test]
    fn one_kind_of_junk_is_left_out() {
        let mut draws = Draws::new(4);
        let (good, junk) = (around(&mut draws, 1.0, 200), around(&mut draws, -1.0, 20));
        let pool = around(&mut draws, 1.0, 300).followed_by(&around(&mut draws, -1.0, 100));
        let pool = pool.unwrap();
        let learned = Usability::learn(&good, Some(&junk), &pool, 0, &()).unwrap().unwrap();
        let kept = learned.usable(&pool, 10).unwrap();
        let junk_kept = kept.iter().filter(|&&item| item >= 300).count();
        assert!(kept.len() >= 280 && junk_kept <= 8, "{} {junk_kept}", kept.len());
        assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
        // Never so few that a batch could not be filled.
        assert_eq!(learned.usable(&pool, 390).unwrap().len(), 390);
    }

    #[test]
    fn junk_on_all_sides_is_found_with_refusals_and_without() {
        // Items vary in a few dimensions, and junk in all of them, around the same mean.
        let items = |draws: &mut Draws, scale: fn(usize) -> f64, count: usize| {
            let values: Vec<f64> =
                (0..count * 16).map(|at| scale(at % 16) * draws.normal()).collect();
            Matrix::from_f64(16, &values)
        };
        let (of_items, of_junk) = (|k: usize| if k < 5 { 1.0 } else { 0.2 }, |_: usize| 0.6);
        let mut draws = Draws::new(5);
        let (paired, refused) = (items(&mut draws, of_items, 200), items(&mut draws, of_junk, 40));
        let pool = items(&mut draws, of_items, 400);
        let pool = pool.followed_by(&items(&mut draws, of_junk, 100)).unwrap();
        for (refused, junk_at_most) in [(Some(&refused), 0.25), (None, 0.45)] {
            let learned = Usability::learn(&paired, refused, &pool, 0, &()).unwrap().unwrap();
            let found = learned.of(&pool).unwrap();
            let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
            let (usable, junk) = (mean(&found[..400]), mean(&found[400..]));
            assert!(usable > 0.8 && junk < junk_at_most, "{usable} {junk}");
        }
    }

    #[test]
    fn copies_of_refused_items_are_refused() {
        let mut draws = Draws::new(6);
        let good = around(&mut draws, 1.0, 200);
        // All refused items are one blank picture, and so are some of the pool, nearly.
        let blank: Vec<f64> = (0..16).map(|_| draws.normal()).collect();
        let junk = Matrix::from_f64(16, &blank.repeat(20));
        let near: Vec<f64> =
            blank.repeat(10).iter().map(|value| value + 0.02 * draws.normal()).collect();
        let pool = good.followed_by(&Matrix::from_f64(16, &near)).unwrap();
        let learned = Usability::learn(&good, Some(&junk), &pool, 0, &()).unwrap().unwrap();
        let found = learned.of(&pool).unwrap();
        assert!(found[200..].iter().all(|&usable| usable < 0.2), "{:?}", &found[200..]);
        assert!(found[..200].iter().sum::<f64>() > 160.0);
    }

    #[test]
    fn too_few_teach_nothing() {
        let mut draws = Draws::new(4);
        let (good, junk) = (around(&mut draws, 1.0, 99), around(&mut draws, -1.0, 9));
        let learn = |paired: &Matrix, refused: Option<&Matrix>| {
            Usability::learn(paired, refused, &good, 0, &()).unwrap()
        };
        assert!(learn(&good, Some(&junk)).is_none() && learn(&good, None).is_none());
        let enough = around(&mut draws, 1.0, 100);
        assert!(learn(&enough, Some(&junk)).is_none(), "the pool is too small");
        let learned = Usability::learn(&enough, Some(&junk), &enough, 0, &()).unwrap();
        assert!(learned.is_some_and(|learned| learned.is_ratio));
    }
}
