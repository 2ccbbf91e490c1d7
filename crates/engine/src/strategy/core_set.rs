//! Items far from everything paired and from each other (Sener and Savarese, ICLR 2018).

use super::nearest::with_nearest_paired;
use super::{Needs, Sharded, Strategy};
use crate::kcenter::k_center;
use crate::parameters::parameters;
use crate::problem::{PAIRED_FEATURES, POOL_FEATURES};
use crate::{Error, ItemFeatures, Pick, Picks, Problem, Progress, Size, Vectors};

parameters! {
    /// Items far from everything paired and from each other (k-center greedy; Sener and Savarese, ICLR 2018).
    pub struct CoreSet {
        /// The vectors that distances are measured by: the mean of an item's own, a bag of 300 visual words, or what a model
        /// makes of the item
        features: ItemFeatures = ItemFeatures::Mean,
    }
}

impl Strategy for CoreSet {
    fn select(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error> {
        let chosen = far_apart(problem, budget, progress)?;
        let picks = chosen.into_iter().map(|(item, distance)| Pick::new(item, distance));
        with_nearest_paired(Picks::of(picks.collect(), problem.pool()), problem, progress)
    }

    fn name(&self) -> &'static str {
        "core-set"
    }

    fn needs(&self) -> Needs {
        Needs { features: Some(self.features), ..Needs::default() }
    }

    fn memory(&self, size: &Size) -> usize {
        size.k_center(size.pool)
    }

    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        Err("every pick depends on the distances of the whole pool to all earlier picks")
    }
}

/// `count` items, each as far as possible from everything paired and from those before it, with
/// its distance.
pub(super) fn far_apart(
    problem: &Problem,
    count: usize,
    progress: &dyn Progress,
) -> Result<Vec<(u32, f64)>, Error> {
    let features = problem.features()?;
    let pool = Vectors::new(features.pool.clone(), POOL_FEATURES)?.on(problem.device());
    let centres = Vectors::new(features.paired.clone(), PAIRED_FEATURES)?.on(problem.device());
    k_center(&centres, &pool, count, progress)
}
