//! Herding that asks the model: an item counts more if the model cannot place it, and what is
//! paired covers less than it could.

use nextpair_core::Amount;

use super::entropy::{self, entropies};
use super::herding::{WHOLE_POOL, check_cover, picks};
use super::{Needs, Strategy, above_zero, sampled};
use crate::cover::{Cover, Weights};
use crate::parameters::parameters;
use crate::points::Points;
use crate::{Error, Fact, ItemFeatures, Picks, Problem, Progress, Size};

parameters! {
    /// Items that stand for many others, as by herding, where those count more that the model cannot place (ours).
    pub struct Novelty {
        /// Pairs of the mini batch that the pool is compared with, drawn by the seed: a count, or a share of all
        sample: Option<Amount> = None,
        /// The vectors that distances are measured by: the mean of an item's own, a bag of 300 visual words, or what a model
        /// makes of the item
        features: ItemFeatures = ItemFeatures::Mean,
        /// Items whose cover is measured, drawn from pool and pairs
        points: usize = 2000,
        /// Squared distance at which an item stands for another [default: the median to the nearest neighbour]
        bandwidth: Option<f64> = None,
        /// Temperature of the similarities, whose entropy counts [default: 0.05 for cosines]
        temperature: Option<f64> = None,
    }
}

/// The weight of the item with the lowest entropy, and of everything paired. The item with the
/// highest entropy weighs one more.
const LOWEST: f64 = 0.5;

impl Strategy for Novelty {
    fn name(&self) -> &'static str {
        "novelty"
    }

    fn needs(&self) -> Needs {
        let (matching, features) = (sampled(self.sample), Some(self.features));
        Needs { matching, features, queries: true, ..Needs::default() }
    }

    fn check(&self) -> Result<(), Error> {
        check_cover(self.points, self.bandwidth)?;
        above_zero("entropy-temperature", self.temperature)
    }

    fn select(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error> {
        let ranks = ranks(&entropies(problem, self.temperature, progress)?);
        let weights = ranks.iter().map(|rank| LOWEST + rank).collect();
        let points = Points::new(problem, (self.points, self.bandwidth), progress)?;
        let weights = Weights { pool: Some(weights), paired: LOWEST };
        let cover = Cover::new(&points, &weights, progress)?;
        let novelty = |item: u32| vec![Fact { name: "novelty", value: ranks[item as usize] }];
        picks(problem, cover, budget, novelty, progress)
    }

    fn memory(&self, size: &Size) -> usize {
        24 * size.pool + size.cover().max(entropy::memory(size))
    }

    fn shards(&self) -> Result<&'static dyn super::Sharded, &'static str> {
        Err(WHOLE_POOL)
    }
}

/// Ranks from 0 for the lowest value to 1 for the highest; of equal values, the first is lower.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    order.sort_by(|&a, &b| values[a as usize].total_cmp(&values[b as usize]).then(a.cmp(&b)));
    let mut ranks = vec![0.0; values.len()];
    let last = values.len().saturating_sub(1).max(1) as f64;
    for (rank, item) in order.into_iter().enumerate() {
        ranks[item as usize] = rank as f64 / last;
    }
    ranks
}
