//! Any items, by a seeded draw: the baseline every other strategy must beat.

use nextpair_core::draw::draw_of;

use super::{Finish, Needs, Sharded, Strategy};
use crate::picks::{Pick, keep_best};
use crate::{Error, Partial, Picks, Question, Shard, Size};

pub(super) struct Random;

/// What these draws are for, apart from other draws of the same seed.
const PICKS: u64 = 2;

impl Strategy for Random {
    fn needs(&self) -> Needs {
        Needs { matching: false, features: false }
    }

    fn memory(&self, _: &Size) -> usize {
        0
    }

    fn shards(&self) -> Result<&dyn Sharded, &'static str> {
        Ok(self)
    }
}

impl Sharded for Random {
    /// The items with the largest draws; an item's draw depends on the seed and its index alone.
    fn score(
        &self,
        question: &Question<'_>,
        shard: Shard,
        budget: usize,
    ) -> Result<Partial, Error> {
        let seed = question.seed;
        let items = shard.first..shard.first + question.pool as u32;
        let pick = |index: u32| Pick {
            index,
            score: (draw_of(seed, PICKS, index as u64) >> 11) as f64 / (1u64 << 53) as f64,
            hits: None,
            why: Vec::new(),
        };
        Ok(Partial {
            items: shard.items(question.pool),
            keep: budget,
            best: keep_best(items.map(pick), budget),
            hard_negatives: None,
            anchors: Vec::new(),
            thresholds: Vec::new(),
            hits: Vec::new(),
        })
    }

    fn finish(&self, whole: Partial, rest: &Finish<'_>, budget: usize) -> Result<Picks, Error> {
        let mut picks = whole.best;
        picks.truncate(budget);
        Ok(Picks { picks, pool: rest.pool, hard_negatives: None, thresholds: Vec::new() })
    }
}
