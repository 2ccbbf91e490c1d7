//! Items unlike every anchor: their highest similarity is low.

use super::by_score::ScoresItems;
use super::margin::{memory, of_highest};
use super::{Needs, Sharded, Strategy};
use crate::{Error, Problem, Progress, Size};

pub(super) struct LeastSimilar;

impl Strategy for LeastSimilar {
    fn name(&self) -> &'static str {
        "least-similar"
    }

    fn needs(&self) -> Needs {
        Needs { matching: true, ..Needs::default() }
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
