//! Items unlike every anchor: their highest similarity is low.

use nextpair_core::Amount;

use super::by_score::ScoresItems;
use super::margin::{memory, of_highest};
use super::{Needs, Sharded, Strategy, sampled};
use crate::parameters::parameters;
use crate::{Error, Problem, Progress, Size};

parameters! {
    /// Items unlike every anchor (least confidence, with anchors as labels; Lewis and Gale, SIGIR 1994).
    pub struct LeastSimilar {
        /// Pairs of the mini batch that the pool is compared with, drawn by the seed: a count, or a share of all
        sample: Option<Amount> = None,
    }
}

impl Strategy for LeastSimilar {
    fn name(&self) -> &'static str {
        "least-similar"
    }

    fn needs(&self) -> Needs {
        Needs { matching: sampled(self.sample), ..Needs::default() }
    }

    fn memory(&self, size: &Size) -> usize {
        memory(size)
    }

    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        Ok(self)
    }
}

impl ScoresItems for LeastSimilar {
    /// Minus the highest similarity.
    fn scores(&self, problem: &Problem, progress: &dyn Progress) -> Result<Vec<f64>, Error> {
        let items: Vec<u32> = problem.items().collect();
        of_highest(problem, &items, 1, |values| 0.0 - values[0], progress)
    }
}
