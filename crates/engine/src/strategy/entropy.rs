//! Items that the model cannot place: the entropy of their similarities to the anchors.
//!
//! With `p = softmax(similarities / temperature)`, an item that is like one anchor alone has an
//! entropy near 0, and one that is like all of them the logarithm of their number.

use nextpair_core::{Amount, draw};

use super::by_score::ScoresItems;
use super::{Needs, Sharded, Strategy, above_zero, sampled};
use crate::canonical::{exp, ln};
use crate::highest::by_block;
use crate::parameters::parameters;
use crate::similarity::exact_block;
use crate::widest::widest;
use crate::{Error, Problem, Progress, ROW_BLOCK, Size};

parameters! {
    /// Items that the model finds similar to many anchors alike (entropy sampling, with anchors as labels; Settles,
    /// Active Learning Literature Survey, 2009).
    pub struct Entropy {
        /// Pairs of the mini batch that the pool is compared with, drawn by the seed: a count, or a share of all
        sample: Option<Amount> = None,
        /// Temperature of the similarities, whose entropy counts [default: 0.05 for cosines]
        temperature: Option<f64> = None,
    }
}

/// Purpose of the draw of anchors.
const ANCHORS: u64 = 7;
/// Anchors that are compared with every item: more would take longer than everything else, and the
/// order of entropies hardly depends on it.
const AT_MOST: usize = 2000;
/// Items that are compared at once: enough that preparing the anchors takes no time beside it.
const ROWS: usize = 4 * ROW_BLOCK;
/// The temperature, relative to a high similarity.
const TEMPERATURE: f64 = 0.05;

impl Strategy for Entropy {
    fn name(&self) -> &'static str {
        "entropy"
    }

    fn needs(&self) -> Needs {
        Needs { matching: sampled(self.sample), ..Needs::default() }
    }

    fn check(&self) -> Result<(), Error> {
        above_zero("entropy-temperature", self.temperature)
    }

    fn memory(&self, size: &Size) -> usize {
        memory(size)
    }

    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        Ok(self)
    }
}

impl ScoresItems for Entropy {
    fn scores(&self, problem: &Problem, progress: &dyn Progress) -> Result<Vec<f64>, Error> {
        entropies(problem, self.temperature, progress)
    }
}

/// Memory of the entropies of a pool.
pub(super) fn memory(size: &Size) -> usize {
    let anchors = size.pairs.min(AT_MOST);
    (8 + 4) * size.pool + size.threads * 8 * (ROWS * (size.dim + anchors) + anchors * size.dim)
}

/// The entropy of every item of a problem.
pub(super) fn entropies(
    problem: &Problem,
    temperature: Option<f64>,
    progress: &dyn Progress,
) -> Result<Vec<f64>, Error> {
    let matching = problem.matching()?;
    let anchors = matching.rule.anchors();
    let drawn = draw::sample(problem.seed(), ANCHORS, anchors.len(), AT_MOST);
    let anchors: Vec<u32> = drawn.into_iter().map(|at| anchors[at as usize]).collect();
    // By the scale of the pairs, which all shards of a pool share.
    let scale = matching.paired.scale();
    let temperature = temperature.unwrap_or(TEMPERATURE * scale);
    let items = problem.items();
    progress.start("entropy", items.len() as u64 * anchors.len() as u64);
    let rows: Vec<u32> = items.map(|item| problem.row(item)).collect();
    by_block((&rows, ROWS), &anchors, progress, |rows, found| {
        let mut values = exact_block(&*matching.pool, rows, &anchors)?;
        for (found, values) in found.iter_mut().zip(values.chunks_exact_mut(anchors.len())) {
            *found = entropy(values, temperature);
        }
        Ok(())
    })
}

/// The entropy of `softmax(values / temperature)`. With `z` the values over the temperature less
/// their maximum, and `Z` the sum of `exp(z)`, it is `ln Z - sum(z exp(z)) / Z`.
fn entropy(values: &mut [f64], temperature: f64) -> f64 {
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    values.iter_mut().for_each(|value| *value = (*value - highest) / temperature);
    let mut powers = values.to_vec();
    exponentials(&mut powers);
    let (mut sum, mut weighted) = (0.0, 0.0);
    for (z, power) in values.iter().zip(&powers) {
        sum += power;
        weighted += z * power;
    }
    (ln(sum) - weighted / sum).max(0.0)
}

widest! {
    /// `exp` of every value.
    exponentials(values: &mut [f64]) -> () {
        values.iter_mut().for_each(|value| *value = exp(*value));
    }
}
