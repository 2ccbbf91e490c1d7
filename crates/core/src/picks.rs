//! The answer of a selection: the items to pair next, and why.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// The items to pair next.
#[derive(Clone, Debug, PartialEq)]
pub struct Picks {
    /// The picked items, most wanted first.
    pub picks: Vec<Pick>,
    /// Items in the pool that the strategy chose from.
    pub pool: usize,
    /// Pool items left out because they look like refused ones. `None` if that was not asked for.
    pub left_out: Option<usize>,
    /// Pool items with at least one hit, for strategies that look at hits.
    pub hard_negatives: Option<u64>,
    /// Pool items left out as duplicates. `None` if that was not asked for.
    pub duplicates: Option<usize>,
    /// The thresholds of the anchors; empty for strategies without hits.
    pub thresholds: Vec<f64>,
    /// The similarities of the anchors' own pairs, in the same order.
    pub own: Vec<f64>,
    /// Whether scores are gains, so that picks with a score of 0 tell nothing.
    pub gains: bool,
    /// What the picks change together, for strategies that measure it.
    pub effect: Option<Effect>,
}

/// The effect of a batch on the measure of its strategy: less is better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    /// What is measured.
    pub measure: Measure,
    /// Its value before the batch.
    pub before: f64,
    /// Its value once the picks are paired.
    pub after: f64,
    /// Its value if as many items drawn at random were paired instead.
    pub random: f64,
}

/// What a batch lowers. The score of a pick is by how much it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// The mean variance of predictions for all items.
    Uncertainty,
    /// How much of the points of a cover is covered by nothing.
    Uncovered,
}

impl Measure {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Uncertainty => "uncertainty",
            Measure::Uncovered => "uncovered",
        }
    }
}

impl std::fmt::Display for Effect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Three digits of the smallest number.
        let least = self.before.min(self.after).min(self.random).max(0.0);
        let digits = (2.0 - least.log10().floor()).clamp(3.0, 9.0) as usize;
        let Effect { measure, before, after, random } = self;
        write!(
            f,
            "{} {before:.digits$} before, {after:.digits$} after; a random batch of the same size leaves {random:.digits$}",
            measure.name()
        )
    }
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
            gains: false,
            effect: None,
        }
    }

    /// The same picks from a part of a pool, by their places in the whole: `kept` holds the places of
    /// the part.
    pub fn among(mut self, kept: &[u32]) -> Self {
        for pick in &mut self.picks {
            pick.index = kept[pick.index as usize];
            for near in &mut pick.near {
                if let Neighbour::Pool(item) = &mut near.item {
                    *item = kept[*item as usize];
                }
            }
        }
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

    /// Picks without a gain, which only fill the budget.
    pub fn without_gain(&self) -> Option<usize> {
        self.gains.then(|| self.picks.iter().filter(|pick| pick.score == 0.0).count())
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
    /// Items near it, for strategies that measure distances: the paired item most like it, if there is one, then the
    /// pool items that learn most from its pair.
    pub near: Vec<Near>,
}

/// An item near a pick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Near {
    /// Which one.
    pub item: Neighbour,
    /// Of a paired item, its cosine with the pick; of a pool item, the share of its uncertainty (or of its distance to
    /// what is paired) that the pick takes away.
    pub value: f64,
}

/// An item by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// A paired item, by the number of a pair that it is in.
    Paired(u32),
    /// An item of the pool.
    Pool(u32),
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
        Pick { index, score, hits: None, why: Vec::new(), facts: Vec::new(), near: Vec::new() }
    }

    /// The order of picks: falling score, then rising index.
    pub fn before(&self, other: &Pick) -> Ordering {
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
