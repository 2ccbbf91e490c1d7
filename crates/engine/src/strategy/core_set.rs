//! Items far from everything paired and from each other (Sener and Savarese, ICLR 2018).

use super::{Needs, Sharded, Strategy};
use crate::kcenter::k_center;
use crate::picks::Pick;
use crate::problem::{PAIRED_FEATURES, POOL_FEATURES};
use crate::{Error, Picks, Problem, Progress, Size, Vectors};

pub(super) struct CoreSet;

impl Strategy for CoreSet {
    fn select(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error> {
        let features = problem.features()?;
        let pool = Vectors::new(features.pool.clone(), POOL_FEATURES)?;
        let centres = Vectors::new(features.paired.clone(), PAIRED_FEATURES)?;
        let chosen = k_center(&centres, &pool, budget, progress)?;
        let pick = |(index, score)| Pick { index, score, hits: None, why: Vec::new() };
        Ok(Picks {
            picks: chosen.into_iter().map(pick).collect(),
            pool: pool.len(),
            hard_negatives: None,
            thresholds: Vec::new(),
        })
    }

    fn name(&self) -> &'static str {
        "core-set"
    }

    fn needs(&self) -> Needs {
        Needs { matching: false, features: true }
    }

    fn memory(&self, size: &Size) -> usize {
        size.k_center(size.pool)
    }

    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        Err("every pick depends on the distances of the whole pool to all earlier picks")
    }
}
