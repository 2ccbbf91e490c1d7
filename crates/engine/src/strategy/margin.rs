//! Items between two anchors: the smaller the gap between their two highest similarities, the less
//! the model knows which one they belong to.

use nextpair_core::Amount;

use super::by_score::ScoresItems;
use super::{Needs, Sharded, Strategy, sampled};
use crate::highest::highest;
use crate::parameters::parameters;
use crate::{Error, Problem, Progress, ROW_BLOCK, Size};

parameters! {
    /// Items whose two most similar anchors are nearly as similar (margin sampling, with anchors as labels; Scheffer,
    /// Decomain and Wrobel, IDA 2001).
    pub struct Margin {
        /// Pairs of the mini batch that the pool is compared with, drawn by the seed: a count, or a share of all
        sample: Option<Amount> = None,
    }
}

impl Strategy for Margin {
    fn name(&self) -> &'static str {
        "margin"
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

impl ScoresItems for Margin {
    /// Minus the gap.
    fn scores(&self, problem: &Problem, progress: &dyn Progress) -> Result<Vec<f64>, Error> {
        let items: Vec<u32> = problem.items().collect();
        Ok(margins(problem, &items, progress)?.into_iter().map(|gap| 0.0 - gap).collect())
    }
}

/// Memory of the highest similarities of a pool.
pub(super) fn memory(size: &Size) -> usize {
    (8 + 2 * 4) * size.pool + size.threads * 8 * (ROW_BLOCK + 512) * (size.dim + 512)
}

/// The gap between the two highest similarities of some items; of a single anchor, its similarity.
pub(super) fn margins(
    problem: &Problem,
    items: &[u32],
    progress: &dyn Progress,
) -> Result<Vec<f64>, Error> {
    let gap = |values: &[f64]| values[0] - values.get(1).copied().unwrap_or(0.0);
    of_highest(problem, items, 2, gap, progress)
}

/// What `of_item` makes of the `count` highest similarities of some items to the anchors, highest
/// first.
pub(super) fn of_highest(
    problem: &Problem,
    items: &[u32],
    count: usize,
    of_item: impl Fn(&[f64]) -> f64 + Sync,
    progress: &dyn Progress,
) -> Result<Vec<f64>, Error> {
    let matching = problem.matching()?;
    let anchors = matching.rule.anchors();
    let rows: Vec<u32> = items.iter().map(|&item| problem.row(item)).collect();
    progress.start("similarities", rows.len() as u64 * anchors.len() as u64);
    highest(&*matching.pool, &rows, anchors, count, of_item, progress)
}
