//! A selection in pieces: the contribution of each shard of the pool, and how to merge them.

use std::ops::Range;

use crate::picks::keep_best;
use crate::score::Hit;
use crate::{Error, Pick, Picks};

/// The contribution of some shards of the pool to a selection.
///
/// [`merge`](Partial::merge) is associative, and the result does not depend on the split.
#[derive(Clone, Debug, PartialEq)]
pub struct Partial {
    /// Pool items covered, as ascending ranges.
    pub items: Vec<Range<u32>>,
    /// How many of the best items the strategy keeps.
    pub keep: usize,
    /// The best items covered, best first.
    pub best: Vec<Pick>,
    /// Items covered that have a hit, for strategies that look at hits.
    pub hard_negatives: Option<u64>,
    /// The anchors of the hits.
    pub anchors: Vec<u32>,
    /// Their thresholds.
    pub thresholds: Vec<f64>,
    /// The similarities of their own pairs.
    pub own: Vec<f64>,
    /// Every hit of every item covered, items ascending, for strategies that need them.
    pub hits: Vec<(u32, Vec<Hit>)>,
}

impl Partial {
    /// These picks of a strategy that looks at hits, with what the merged pieces know of the pool.
    pub(crate) fn into_picks(self, picks: Vec<Pick>, pool: usize) -> Picks {
        Picks {
            hard_negatives: self.hard_negatives,
            thresholds: self.thresholds,
            own: self.own,
            ..Picks::of(picks, pool)
        }
    }

    /// Merges two pieces into one.
    ///
    /// # Errors
    /// If they overlap, or come from different selections.
    pub fn merge(self, other: Partial) -> Result<Partial, Error> {
        let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        if self.anchors != other.anchors
            || bits(&self.thresholds) != bits(&other.thresholds)
            || bits(&self.own) != bits(&other.own)
        {
            return Err(Error::Parts("they were scored against different paired sets".into()));
        }
        if self.keep != other.keep
            || self.hard_negatives.is_some() != other.hard_negatives.is_some()
        {
            return Err(Error::Parts("they were made with different settings".into()));
        }
        let mut items: Vec<Range<u32>> = self.items.into_iter().chain(other.items).collect();
        items.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u32>> = Vec::with_capacity(items.len());
        for range in items.into_iter().filter(|range| !range.is_empty()) {
            match joined.last_mut() {
                Some(last) if last.end > range.start => {
                    return Err(Error::Parts(format!(
                        "item {} is in more than one of them",
                        range.start
                    )));
                }
                Some(last) if last.end == range.start => last.end = range.end,
                _ => joined.push(range),
            }
        }
        let mut hits: Vec<(u32, Vec<Hit>)> = self.hits.into_iter().chain(other.hits).collect();
        hits.sort_by_key(|(item, _)| *item);
        Ok(Partial {
            items: joined,
            keep: self.keep,
            best: keep_best(self.best.into_iter().chain(other.best), self.keep),
            hard_negatives: self.hard_negatives.zip(other.hard_negatives).map(|(a, b)| a + b),
            anchors: self.anchors,
            thresholds: self.thresholds,
            own: self.own,
            hits,
        })
    }

    /// Fails unless every item of a pool of `pool` items is covered.
    pub fn check_complete(&self, pool: usize) -> Result<(), Error> {
        let missing = match self.items.as_slice() {
            [whole] if whole.start == 0 && whole.end as usize == pool => return Ok(()),
            [first, ..] if first.start > 0 => 0..first.start,
            [first, second, ..] => first.end..second.start,
            [only] => only.end..pool as u32,
            [] => 0..pool as u32,
        };
        Err(Error::Parts(format!(
            "items {} to {} of {pool} are in none of them",
            missing.start,
            missing.end.saturating_sub(1)
        )))
    }
}
