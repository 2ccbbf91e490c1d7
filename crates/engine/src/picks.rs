//! The answer of a strategy: the items to pair next, and why.

use std::cmp::Ordering;

use crate::Partial;

/// The items to pair next.
#[derive(Clone, Debug, PartialEq)]
pub struct Picks {
    /// The picked items, most wanted first.
    pub picks: Vec<Pick>,
    /// Items in the pool that the strategy chose from.
    pub pool: usize,
    /// Pool items that it could not choose, because they look like those that annotators refused.
    /// `None` if nobody asked for that.
    pub left_out: Option<usize>,
    /// Pool items with at least one hit, for strategies that look at hits.
    pub hard_negatives: Option<u64>,
    /// Pool items that it could not choose, because they are duplicates. `None` if nobody asked for
    /// that.
    pub duplicates: Option<usize>,
    /// The thresholds of the anchors; empty for strategies without hits.
    pub thresholds: Vec<f64>,
    /// The similarities of the anchors' own pairs, in the same order.
    pub own: Vec<f64>,
}

impl Picks {
    /// Picks of a strategy that does not look at hits.
    pub fn of(picks: Vec<Pick>, pool: usize) -> Self {
        Picks {
            picks,
            pool,
            left_out: None,
            duplicates: None,
            hard_negatives: None,
            thresholds: Vec::new(),
            own: Vec::new(),
        }
    }

    /// Picks of a strategy that looks at hits, with what its merged parts know of the pool.
    pub(crate) fn of_hits(picks: Vec<Pick>, pool: usize, whole: Partial) -> Self {
        Picks {
            hard_negatives: whole.hard_negatives,
            thresholds: whole.thresholds,
            own: whole.own,
            ..Picks::of(picks, pool)
        }
    }

    /// The same picks from a part of a pool, by their places in the whole: `kept` holds the places of
    /// the part.
    pub fn among(mut self, kept: &[u32]) -> Self {
        self.picks.iter_mut().for_each(|pick| pick.index = kept[pick.index as usize]);
        self
    }

    /// Percentage of the pool with at least one hit (Table 4 of the paper).
    pub fn hard_negative_share(&self) -> Option<f64> {
        self.hard_negatives.map(|count| 100.0 * count as f64 / self.pool as f64)
    }

    /// Picks without a hit, which only fill the budget.
    pub fn without_hit(&self) -> Option<usize> {
        self.hard_negatives?;
        Some(self.picks.iter().filter(|pick| pick.hits == Some(0)).count())
    }

    /// The picked items.
    pub fn indices(&self) -> Vec<u32> {
        self.picks.iter().map(|pick| pick.index).collect()
    }
}

/// One picked item.
#[derive(Clone, Debug, PartialEq)]
pub struct Pick {
    /// Its index in the pool.
    pub index: u32,
    /// Its score at the moment it was picked.
    pub score: f64,
    /// Number of its hits, for strategies that look at hits.
    pub hits: Option<u32>,
    /// Its strongest hits.
    pub why: Vec<Reason>,
    /// More numbers about it, for strategies that have any.
    pub facts: Vec<Fact>,
}

/// A named number about a pick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fact {
    /// What it counts.
    pub name: &'static str,
    /// The number.
    pub value: f64,
}

impl Pick {
    /// A pick without hits.
    pub fn new(index: u32, score: f64) -> Self {
        Pick { index, score, hits: None, why: Vec::new(), facts: Vec::new() }
    }

    /// The order of picks: falling score, then rising index.
    pub(crate) fn before(&self, other: &Pick) -> Ordering {
        other.score.total_cmp(&self.score).then(self.index.cmp(&other.index))
    }
}

/// One hit of a picked item: the anchor it would be confused with.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// The pair whose anchor it is.
    pub anchor: u32,
    /// The item's similarity to the anchor.
    pub similarity: f64,
    /// The anchor's threshold.
    pub threshold: f64,
    /// How far the similarity exceeds it.
    pub surplus: f64,
    /// The similarity of the anchor's own pair. A pick that comes near it, or goes beyond, may well
    /// be described by the anchor: a false negative.
    pub own: f64,
}

/// The first `keep` in the order of picks, by partial selection.
pub(crate) fn keep_best(picks: impl Iterator<Item = Pick>, keep: usize) -> Vec<Pick> {
    if keep == 0 {
        return Vec::new();
    }
    let full = keep.saturating_mul(2);
    let mut best = Vec::with_capacity(full.min(1 << 16));
    // The last of those that were kept: whatever is behind it is out at once, as nearly all of a large pool are.
    let mut last: Option<Pick> = None;
    for pick in picks {
        if last.as_ref().is_some_and(|last| last.before(&pick).is_lt()) {
            continue;
        }
        best.push(pick);
        if best.len() == full {
            best.select_nth_unstable_by(keep - 1, Pick::before);
            best.truncate(keep);
            last = best.last().cloned();
        }
    }
    best.sort_unstable_by(Pick::before);
    best.truncate(keep);
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_kept_whatever_their_order() {
        // Many ties; rising, falling and mixed scores.
        let scores: [fn(u32) -> u32; 4] = [|i| i, |i| 1000 - i, |i| i * 7919 % 13, |_| 0];
        for score in scores {
            let picks: Vec<Pick> = (0..1000).map(|i| Pick::new(i, f64::from(score(i)))).collect();
            let mut sorted = picks.clone();
            sorted.sort_by(Pick::before);
            for keep in [0, 1, 2, 3, 10, 499, 500, 501, 999, 1000, 1001, usize::MAX] {
                let best = keep_best(picks.iter().cloned(), keep);
                assert_eq!(best, sorted[..keep.min(1000)], "{keep}");
            }
        }
    }
}
