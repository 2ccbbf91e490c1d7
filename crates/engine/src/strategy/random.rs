//! Any items, by a seeded draw: the baseline every other strategy must beat.

use nextpair_core::draw::draw_of;

use super::{Needs, Sharded, Strategy};
use crate::picks::{Pick, keep_best};
use crate::{Error, Partial, Picks, Problem, Progress};

pub(super) struct Random;

/// Purpose of these draws, which keeps them apart from other draws of the same seed.
const PICKS: u64 = 2;

impl Strategy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn needs(&self) -> Needs {
        Needs { matching: false, features: false }
    }

    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        Ok(self)
    }
}

impl Sharded for Random {
    /// The items with the largest draws; an item's draw depends on the seed and its index alone.
    fn score(&self, problem: &Problem, budget: usize, _: &dyn Progress) -> Result<Partial, Error> {
        let (seed, items) = (problem.seed(), problem.items());
        let pick = |index: u32| Pick {
            index,
            score: (draw_of(seed, PICKS, index as u64) >> 11) as f64 / (1u64 << 53) as f64,
            hits: None,
            why: Vec::new(),
        };
        Ok(Partial {
            items: std::iter::once(items.clone()).collect(),
            keep: budget,
            best: keep_best(items.map(pick), budget),
            hard_negatives: None,
            anchors: Vec::new(),
            thresholds: Vec::new(),
            hits: Vec::new(),
        })
    }

    fn finish(
        &self,
        whole: Partial,
        problem: &Problem,
        budget: usize,
        _: &dyn Progress,
    ) -> Result<Picks, Error> {
        let mut picks = whole.best;
        picks.truncate(budget);
        Ok(Picks { picks, pool: problem.pool(), hard_negatives: None, thresholds: Vec::new() })
    }
}
