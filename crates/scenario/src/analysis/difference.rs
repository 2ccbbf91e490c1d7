//! Differences between a strategy and the baseline, seed by seed.

use serde::Serialize;

use super::Recalls;
use super::arm::{r1, recall, sum};
use crate::Round;
use crate::statistics::{Estimate, mean};

/// Differences to the baseline in percentage points, over the seeds that both finished.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// Number of seeds.
    pub seeds: usize,
    /// Differences of R@1, by round.
    pub rounds: Vec<Recalls>,
    /// Difference of the R@1-sum, the R@1 summed over all rounds. It decides which strategy is
    /// better.
    pub sum: Estimate,
    /// Difference of the R@5-sum.
    pub r5_sum: Estimate,
    /// Difference of the R@10-sum.
    pub r10_sum: Estimate,
    /// R@1 of the strategy with these seeds.
    pub own: Reached,
    /// R@1 of the baseline with these seeds.
    pub baseline: Reached,
}

/// Means of R@1, text plus image.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reached {
    /// Sum over all rounds.
    pub sum: f64,
    /// Value after the last round.
    pub last: f64,
}

impl Reached {
    fn of(lanes: &[&[&Round]]) -> Option<Self> {
        let mean_of = |value: &dyn Fn(&[&Round]) -> f64| {
            mean(&lanes.iter().map(|lane| value(lane)).collect::<Vec<_>>())
        };
        let last = |lane: &[&Round]| lane.last().map_or(0.0, |round| r1(round));
        Some(Reached { sum: mean_of(&|lane| sum(lane, 1))?, last: mean_of(&last)? })
    }
}

impl Difference {
    pub(super) fn of(pairs: &[(&[&Round], &[&Round])], rounds: usize) -> Option<Self> {
        let at_round = |at: usize| {
            let difference = |(one, other): &(&[&Round], &[&Round])| {
                let (one, other) = (recall(one[at], 1), recall(other[at], 1));
                (one.0 - other.0, one.1 - other.1)
            };
            Recalls::of(&pairs.iter().map(difference).collect::<Vec<_>>())
        };
        let of_sums = |k: usize| {
            let differences = pairs.iter().map(|(one, other)| sum(one, k) - sum(other, k));
            Estimate::of(&differences.collect::<Vec<_>>())
        };
        let (own, baseline): (Vec<&[&Round]>, Vec<&[&Round]>) = pairs.iter().copied().unzip();
        Some(Difference {
            seeds: pairs.len(),
            rounds: (0..=rounds).map(at_round).collect::<Option<_>>()?,
            sum: of_sums(1)?,
            r5_sum: of_sums(5)?,
            r10_sum: of_sums(10)?,
            own: Reached::of(&own)?,
            baseline: Reached::of(&baseline)?,
        })
    }
}
