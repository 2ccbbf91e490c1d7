//! Core-set first, then margin: of items far from each other, those between two anchors (the
//! order of Zhang and Zhu, arXiv 2510.03247).

use super::core_set::far_apart;
use super::margin::{self, margins};
use super::{Needs, Strategy};
use crate::picks::{Pick, keep_best};
use crate::{Error, Picks, Problem, Progress, Size};

pub(super) struct CoreSetMargin;

/// Candidates for each pick.
const CANDIDATES: usize = 3;

impl Strategy for CoreSetMargin {
    fn name(&self) -> &'static str {
        "core-set-margin"
    }

    fn needs(&self) -> Needs {
        Needs { matching: true, features: true, ..Needs::default() }
    }

    fn select(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Picks, Error> {
        let candidates = problem.pool().min(CANDIDATES * budget);
        let mut items: Vec<u32> =
            far_apart(problem, candidates, progress)?.into_iter().map(|(item, _)| item).collect();
        items.sort_unstable();
        let gaps = margins(problem, &items, progress)?;
        let picks = items.into_iter().zip(gaps).map(|(item, gap)| Pick::new(item, 0.0 - gap));
        Ok(Picks::of(keep_best(picks, budget), problem.pool()))
    }

    fn memory(&self, size: &Size) -> usize {
        let candidates = Size { budget: CANDIDATES * size.budget, ..*size };
        // Norms of the features, beside those of the embeddings.
        8 * size.pool + candidates.k_center(size.pool).max(margin::memory(size))
    }
}
