//! The paper's strategy: the items with the highest hard-negative scores (Algorithm 2).

use nextpair_core::Amount;

use super::{Needs, Sharded, Strategy};
use crate::parameters::parameters;
use crate::score::Scorer;
use crate::{Error, Fill, Guards, Hits, Partial, Picks, Problem, Progress, Size, Weight};

parameters! {
    /// Items that would be the hardest negatives for the paired set (the paper, Algorithm 2).
    pub struct HardNegative {
        /// Pairs of the mini batch that the pool is compared with, drawn by the seed: a count, or a share of all
        sample: Option<Amount> = None,
        /// The threshold is the k-th largest rival similarity
        top_k: usize = 1,
        /// What a hit is worth: how far it exceeds the threshold, or one
        weight: Weight = Weight::Surplus,
        /// Likely false negatives to ignore
        guards: Guards = Guards::default(),
        /// What fills the budget when fewer items have a hit: the nearest misses, or the first of the pool
        fill: Fill = Fill::NearestMiss,
    }
}

impl Strategy for HardNegative {
    fn name(&self) -> &'static str {
        "hard-negative"
    }

    fn needs(&self) -> Needs {
        let &Self { sample, top_k, guards, fill, .. } = self;
        let matching = Some(Hits { sample, top_k, guards, fill });
        Needs { matching, ..Needs::default() }
    }

    fn memory(&self, size: &Size) -> usize {
        size.scores()
    }

    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        Ok(self)
    }
}

impl Sharded for HardNegative {
    fn score(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Partial, Error> {
        best_by_score(problem, self.weight, budget, progress)
    }

    fn finish(
        &self,
        whole: Partial,
        problem: &Problem,
        budget: usize,
        _: &dyn Progress,
    ) -> Result<Picks, Error> {
        let mut whole = whole;
        let mut picks = std::mem::take(&mut whole.best);
        picks.truncate(budget);
        Ok(whole.into_picks(picks, problem.pool()))
    }
}

/// The `keep` items with the highest scores, explained.
pub(super) fn best_by_score(
    problem: &Problem,
    weight: Weight,
    keep: usize,
    progress: &dyn Progress,
) -> Result<Partial, Error> {
    let scorer = Scorer::new(problem, progress)?;
    let mut scores = scorer.score()?;
    scorer.fill(&mut scores, keep)?;
    let mut best = scores.best(weight, keep);
    scorer.explain(&mut best, problem.explain())?;
    let hard_negatives = Some(scores.hard_negatives());
    Ok(scorer.into_partial(keep, best, hard_negatives, Vec::new()))
}
