//! Any items, by a seeded draw: the baseline every other strategy must beat.

use nextpair_core::draw::draw_of;

use super::by_score::ScoresItems;
use super::{Needs, Sharded, Strategy};
use crate::parameters::parameters;
use crate::{Error, Problem, Progress, Size};

parameters! {
    /// Any items: the baseline.
    pub struct Random {}
}

/// Purpose of these draws, which keeps them apart from other draws of the same seed.
const PICKS: u64 = 2;

impl Strategy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn memory(&self, size: &Size) -> usize {
        8 * size.pool
    }

    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        Ok(self)
    }
}

impl ScoresItems for Random {
    /// An item's draw depends on the seed and its index alone.
    fn scores(&self, problem: &Problem, _: &dyn Progress) -> Result<Vec<f64>, Error> {
        let seed = problem.seed();
        let draw =
            |item| (draw_of(seed, PICKS, u64::from(item)) >> 11) as f64 / (1u64 << 53) as f64;
        Ok(problem.items().map(draw).collect())
    }
}
