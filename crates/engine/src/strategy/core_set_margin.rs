//! Core-set first, then margin: of items far from each other, those between two anchors (the
//! order of Zhang and Zhu, arXiv 2510.03247).

use nextpair_core::Amount;

use super::core_set::far_apart;
use super::margin::{self, margins};
use super::{Needs, Strategy, sampled};
use crate::parameters::parameters;
use crate::picks::keep_best;
use crate::{Error, ItemFeatures, Pick, Picks, Problem, Progress, Size};

parameters! {
    /// The smallest margins among items far from each other (Zhang and Zhu, arXiv 2510.03247).
    pub struct CoreSetMargin {
        /// Pairs of the mini batch that the pool is compared with, drawn by the seed: a count, or a share of all
        sample: Option<Amount> = None,
        /// The vectors that distances are measured by: the mean of an item's own, a bag of 300 visual words, or what a model
        /// makes of the item
        features: ItemFeatures = ItemFeatures::Mean,
    }
}

/// Candidates for each pick.
const CANDIDATES: usize = 3;

impl Strategy for CoreSetMargin {
    fn name(&self) -> &'static str {
        "core-set-margin"
    }

    fn needs(&self) -> Needs {
        let (matching, features) = (sampled(self.sample), Some(self.features));
        Needs { matching, features, ..Needs::default() }
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
