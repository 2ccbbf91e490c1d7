//! Strategies that give every item a score of its own, and take the highest.

use super::Sharded;
use crate::picks::keep_best;
use crate::{Error, Partial, Pick, Picks, Problem, Progress};

/// Scores items one by one, whatever else is in the pool.
pub(super) trait ScoresItems: Send + Sync {
    /// The scores of the problem's items, in order.
    fn scores(&self, problem: &Problem, progress: &dyn Progress) -> Result<Vec<f64>, Error>;
}

impl<S: ScoresItems> Sharded for S {
    fn score(
        &self,
        problem: &Problem,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Partial, Error> {
        let scores = self.scores(problem, progress)?;
        let picks = problem.items().zip(scores).map(|(item, score)| Pick::new(item, score));
        Ok(Partial {
            items: std::iter::once(problem.items()).collect(),
            keep: budget,
            best: keep_best(picks, budget),
            hard_negatives: None,
            anchors: Vec::new(),
            thresholds: Vec::new(),
            own: Vec::new(),
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
        Ok(Picks::of(picks, problem.pool()))
    }
}
