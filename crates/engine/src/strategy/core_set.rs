//! Items far from everything paired and from each other (Sener and Savarese, ICLR 2018).

use super::{Needs, PAIRED_FEATURES, POOL_FEATURES, Sharded, Strategy};
use crate::kcenter::k_center;
use crate::picks::Pick;
use crate::{Error, Picks, Question, Size, Vectors};

pub(super) struct CoreSet;

impl Strategy for CoreSet {
    fn select(&self, question: &Question<'_>, budget: usize) -> Result<Picks, Error> {
        let features = question.features("core-set")?;
        let pool = Vectors::new(features.pool.clone(), POOL_FEATURES)?;
        let centres = Vectors::new(features.paired.clone(), PAIRED_FEATURES)?;
        let chosen = k_center(&centres, &pool, budget, question.progress)?;
        let pick = |(index, score)| Pick { index, score, hits: None, why: Vec::new() };
        Ok(Picks {
            picks: chosen.into_iter().map(pick).collect(),
            pool: pool.len(),
            hard_negatives: None,
            thresholds: Vec::new(),
        })
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
