//! The paper's strategy: the items with the highest hard-negative scores (Algorithm 2).

use super::{Needs, Sharded, Strategy};
use crate::score::Scorer;
use crate::{Error, Partial, Picks, Problem, Progress, Size, Weight};

pub(super) struct HardNegative;

impl Strategy for HardNegative {
    fn name(&self) -> &'static str {
        "hard-negative"
    }

    fn needs(&self) -> Needs {
        Needs { matching: true, ..Needs::default() }
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
        best_by_score(problem, problem.weight(), budget, progress)
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
        Ok(Picks::of_hits(picks, problem.pool(), whole))
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
