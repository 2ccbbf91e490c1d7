//! The paper's strategy: the items with the highest hard-negative scores (Algorithm 2).

use super::{Finish, Needs, Sharded, Strategy};
use crate::score::Scorer;
use crate::{Error, Matching, Partial, Picks, Progress, Question, Shard, Size, Weight};

pub(super) struct HardNegative;

impl Strategy for HardNegative {
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
        shard: Shard,
        budget: usize,
    ) -> Result<Partial, Error> {
        let matching = question.matching("hard-negative")?;
        best_by_score(matching, question.progress, shard, matching.rule.weight, budget)
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
    shard: Shard,
    weight: Weight,
    keep: usize,
) -> Result<Partial, Error> {
    let scorer = Scorer::new(matching, progress)?;
    let scores = scorer.score()?;
    let mut best = scores.best(weight, keep);
    scorer.explain(&mut best)?;
    best.iter_mut().for_each(|pick| pick.index += shard.first);
    Ok(Partial {
        items: shard.items(matching.pool.rows()),
        keep,
        best,
        hard_negatives: Some(scores.hard_negatives()),
        anchors: matching.rule.anchors.clone(),
        thresholds: scorer.into_thresholds(),
        hits: Vec::new(),
    })
}
