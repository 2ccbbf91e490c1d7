//! Which items can be paired at all: a logistic regression on what annotators accepted and refused.

use std::sync::Arc;

use nextpair_core::{Matrix, draw};
use rayon::prelude::*;

use crate::canonical::exp;
use crate::centred::{Centred, mean_of};
use crate::error::unless_stopped;
use crate::{Error, Progress, Vectors};

/// Refused items below which nothing can be learned.
pub const FEWEST_REFUSED: usize = 10;

/// Accepted and refused items to learn from, at most, of each.
const LEARNED_FROM: usize = 2000;
/// Purpose of the draw of those.
const SAMPLED: u64 = 11;
/// The penalty on weights.
const PENALTY: f64 = 0.01;
/// Steps of gradient descent: the penalty makes the problem well conditioned.
const STEPS: usize = 300;

/// How likely an item is to be usable, as far as features tell.
pub struct Usability {
    weights: Vec<f64>,
    bias: f64,
    mean: Arc<[f64]>,
}

impl Usability {
    /// Learns from the features of accepted and refused items, which count alike in sum, or returns
    /// `None` if there are fewer than [`FEWEST_REFUSED`] refused items.
    pub fn learn(
        accepted: &Matrix,
        refused: &Matrix,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<Option<Self>, Error> {
        if refused.rows() < FEWEST_REFUSED || accepted.rows() == 0 {
            return Ok(None);
        }
        let accepted = Vectors::new(accepted.clone(), "the accepted items")?;
        let refused = Vectors::new(refused.clone(), "the refused items")?;
        let [some, others] =
            [&accepted, &refused].map(|set| draw::sample(seed, SAMPLED, set.len(), LEARNED_FROM));
        let mean = mean_of(&[(&accepted, &some), (&refused, &others)], accepted.dim());
        let mut examples = Vec::with_capacity(some.len() + others.len());
        for (set, items, usable) in [(&accepted, &some, true), (&refused, &others, false)] {
            let centred = Centred::new(&set.matrix().gather(items), &mean, set.device());
            let weight = 0.5 / items.len() as f64;
            examples.extend((0..items.len()).map(|at| (direction(&centred, at), usable, weight)));
        }
        // The loss is the mean of both halves. Directions have length 1 and the bias counts as one
        // more dimension, so its curvature is at most 2 / 4.
        let step = 1.0 / (0.5 + PENALTY);
        let ratio = (PENALTY / (0.5 + PENALTY)).sqrt();
        let momentum = (1.0 - ratio) / (1.0 + ratio);
        let dim = accepted.dim();
        let (mut now, mut before) = (vec![0.0; dim + 1], vec![0.0; dim + 1]);
        for _ in 0..STEPS {
            unless_stopped(progress)?;
            // Nesterov's accelerated gradient, summed in the order of the examples.
            let ahead: Vec<f64> = now
                .iter()
                .zip(&before)
                .map(|(now, before)| now + momentum * (now - before))
                .collect();
            let mut gradient: Vec<f64> = ahead.iter().map(|weight| PENALTY * weight).collect();
            gradient[dim] = 0.0;
            for (x, usable, weight) in &examples {
                let score = dot(x, &ahead[..dim]) + ahead[dim];
                let slope = weight * (logistic(score) - f64::from(*usable));
                gradient.iter_mut().zip(x).for_each(|(gradient, x)| *gradient += slope * x);
                gradient[dim] += slope;
            }
            before = now;
            now =
                ahead.iter().zip(&gradient).map(|(weight, slope)| weight - step * slope).collect();
        }
        let bias = now.pop().unwrap_or(0.0);
        Ok(Some(Usability { weights: now, bias, mean }))
    }

    /// The probability that each item is usable, if as many are usable as are not.
    pub fn of(&self, items: &Matrix) -> Result<Vec<f64>, Error> {
        let items = Vectors::new(items.clone(), "the pool's features")?;
        if items.dim() != self.weights.len() {
            return Err(Error::DimensionMismatch {
                left: "the pool's features",
                left_dim: items.dim(),
                right: "the features of earlier picks",
                right_dim: self.weights.len(),
            });
        }
        let centred = Centred::new(items.matrix(), &self.mean, items.device());
        let score = |at| dot(&direction(&centred, at), &self.weights) + self.bias;
        Ok((0..items.len()).into_par_iter().map(|at| logistic(score(at))).collect())
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
        let likely = probabilities.iter().filter(|&&probability| probability >= 0.5).count();
        order.truncate(likely.max(order.len().div_ceil(2)).max(least));
        order.sort_unstable();
        Ok(order)
    }
}

/// A vector less the mean, at unit length.
fn direction(centred: &Centred, at: usize) -> Vec<f64> {
    let mut x = centred.differences(&[at as u32]);
    let length = centred.length(at);
    x.iter_mut().for_each(|x| *x = if length > 0.0 { *x / length } else { 0.0 });
    x
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
        let learned = Usability::learn(&good, &junk, 0, &()).unwrap().unwrap();
        let pool = around(&mut draws, 1.0, 300).followed_by(&around(&mut draws, -1.0, 100));
        let pool = pool.unwrap();
        let kept = learned.usable(&pool, 10).unwrap();
        let junk_kept = kept.iter().filter(|&&item| item >= 300).count();
        assert!(kept.len() >= 280 && junk_kept <= 8, "{} {junk_kept}", kept.len());
        assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
        // Never so few that a batch could not be filled.
        assert_eq!(learned.usable(&pool, 390).unwrap().len(), 390);
    }

    #[test]
    fn a_few_refusals_teach_nothing() {
        let mut draws = Draws::new(4);
        let (good, junk) = (around(&mut draws, 1.0, 50), around(&mut draws, -1.0, 9));
        assert!(Usability::learn(&good, &junk, 0, &()).unwrap().is_none());
    }
}
