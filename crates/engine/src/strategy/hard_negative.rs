//! The paper's strategy: the items with the highest hard-negative scores (Algorithm 2).

use std::ops::Range;

use super::{Finish, Needs, Sharded, Strategy, select_whole};
use crate::score::Scorer;
use crate::{Error, Matching, Partial, Picks, Progress, Question, Size, Weight};

pub(super) struct HardNegative;

impl Strategy for HardNegative {
    fn select(&self, question: &Question<'_>, budget: usize) -> Result<Picks, Error> {
        select_whole(self, question, budget)
    }

    fn needs(&self) -> Needs {
        Needs { matching: true, features: false }
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
        question: &Question<'_>,
        items: Range<u32>,
        budget: usize,
    ) -> Result<Partial, Error> {
        let matching = question.matching("hard-negative")?;
        best_by_score(matching, question.progress, items, matching.rule.weight, budget)
    }

    fn finish(&self, whole: Partial, rest: &Finish<'_>, budget: usize) -> Result<Picks, Error> {
        let mut picks = whole.best;
        picks.truncate(budget);
        Ok(Picks {
            picks,
            pool: rest.pool,
            hard_negatives: whole.hard_negatives,
            thresholds: whole.thresholds,
        })
    }
}

/// The `keep` items with the highest scores, explained.
pub(super) fn best_by_score(
    matching: Matching<'_>,
    progress: &dyn Progress,
    items: Range<u32>,
    weight: Weight,
    keep: usize,
) -> Result<Partial, Error> {
    let scorer = Scorer::new(matching, progress)?;
    let scores = scorer.score(items.clone())?;
    let mut best = scores.best(weight, keep);
    scorer.explain(&mut best)?;
    Ok(Partial {
        items: vec![items],
        keep,
        best,
        hard_negatives: Some(scores.hard_negatives()),
        anchors: matching.rule.anchors.clone(),
        thresholds: scorer.into_thresholds(),
        hits: Vec::new(),
    })
}
