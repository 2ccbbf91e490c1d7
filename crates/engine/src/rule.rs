//! Which pairs take part in a selection, and how hits count.

use std::collections::HashSet;

use nextpair_core::{Amount, draw};

use crate::parameters::{choice, parameters};
use crate::{Error, IndexSet};

choice! {
    /// Weight of one hit.
    pub enum Weight: Surplus {
        /// How far the similarity exceeds the threshold.
        Surplus = "surplus",
        /// One.
        Count = "count",
    }
}

choice! {
    /// How to fill a batch if fewer items have a hit than the budget asks for.
    pub enum Fill: NearestMiss {
        /// The items that come closest to a hit.
        NearestMiss = "nearest-miss",
        /// The first items of the pool.
        Index = "index",
    }
}

parameters! {
    /// Guards against likely false negatives: hits to ignore. Names and meaning as in sentence-transformers'
    /// `mine_hard_negatives`, with `p` the similarity of the anchor's own pair.
    pub struct Guards {
        /// Ignore similarities above this as likely false negatives
        max_score: Option<f64> = None,
        /// Ignore similarities above the own pair's minus this
        absolute_margin: Option<f64> = None,
        /// Ignore similarities above the own pair's minus this share of it
        relative_margin: Option<f64> = None,
    }
}

impl Guards {
    /// The highest similarity that still counts, for an anchor with own pair `positive`.
    pub fn ceiling(&self, positive: f64) -> f64 {
        let limits = [
            self.max_score,
            self.absolute_margin.map(|m| positive - m),
            self.relative_margin.map(|m| positive - m * positive.abs()),
        ];
        limits.into_iter().flatten().fold(f64::INFINITY, f64::min)
    }

    /// Fails if a guard is NaN or infinite.
    pub fn check(&self) -> Result<(), Error> {
        for (guard, value) in [
            ("max-score", self.max_score),
            ("absolute-margin", self.absolute_margin),
            ("relative-margin", self.relative_margin),
        ] {
            if let Some(value) = value.filter(|v| !v.is_finite()) {
                return Err(Error::BadGuard { guard, value });
            }
        }
        Ok(())
    }
}

/// How a strategy compares the pool with the pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hits {
    /// A seeded draw of so many pairs takes part, as anchors and rivals; or all pairs.
    pub sample: Option<Amount>,
    /// The threshold is the k-th largest rival.
    pub top_k: usize,
    /// Likely false negatives to ignore.
    pub guards: Guards,
    /// How to fill a batch when the hits run out.
    pub fill: Fill,
}

impl Default for Hits {
    fn default() -> Self {
        Hits { sample: None, top_k: 1, guards: Guards::default(), fill: Fill::default() }
    }
}

impl Hits {
    /// Fails if they are impossible for any pairs.
    pub fn check(&self) -> Result<(), Error> {
        if self.top_k == 0 {
            return Err(Error::ZeroTopK);
        }
        self.guards.check()
    }
}

/// Pairs by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Pairs whose anchors count.
    pub anchors: Vec<usize>,
    /// Pairs whose rivals set the thresholds.
    pub rivals: Vec<usize>,
}

/// The settings of a selection that are no strategy's own.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The pairs that take part; all, unless the strategy draws a [sample](Hits::sample).
    pub scope: Option<Scope>,
    /// One label per pair; pairs with the same label are never rivals. [`group_labels`] computes
    /// them from the images and texts that pairs share.
    ///
    /// [`group_labels`]: crate::group_labels
    pub groups: Option<Vec<u32>>,
    /// Seed of every draw.
    pub seed: u64,
    /// How many of the strongest hits to report for each pick.
    pub explain: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { scope: None, groups: None, seed: 0, explain: 3 }
    }
}

/// The rule of a strategy: which pairs it compares with and how, checked against a paired set.
#[derive(Clone, Debug)]
pub struct Rule {
    anchors: Vec<u32>,
    rivals: Vec<u32>,
    groups: Option<Vec<u32>>,
    hits: Hits,
}

/// Purpose of the mini-batch draw, which keeps it apart from other draws of the same seed.
const MINI_BATCH: u64 = 1;

impl Rule {
    /// Checks `hits` for a paired set of `pairs`.
    pub fn new(hits: Hits, settings: &Settings, pairs: usize) -> Result<Self, Error> {
        if pairs == 0 {
            return Err(Error::EmptyPaired);
        }
        hits.check()?;
        if let Some(groups) = &settings.groups
            && groups.len() != pairs
        {
            return Err(Error::GroupCount { labels: groups.len(), pairs });
        }
        let (anchors, rivals) =
            match (hits.sample.map(|sample| sample.whole_of(pairs)), &settings.scope) {
                (None, None) => {
                    let all: Vec<u32> = (0..pairs as u32).collect();
                    (all.clone(), all)
                }
                (Some(0), _) => return Err(Error::EmptyIndexSet { set: IndexSet::SampledPairs }),
                (Some(sample), _) if sample > pairs => {
                    return Err(Error::SampleTooLarge { sample, pairs });
                }
                (Some(_), Some(_)) => return Err(Error::SampledScope),
                (Some(sample), None) => {
                    let drawn = draw::sample(settings.seed, MINI_BATCH, pairs, sample);
                    (drawn.clone(), drawn)
                }
                (None, Some(Scope { anchors, rivals })) => (
                    checked_set(anchors, pairs, IndexSet::Anchors)?,
                    checked_set(rivals, pairs, IndexSet::Rivals)?,
                ),
            };
        let rule = Rule { anchors, rivals, groups: settings.groups.clone(), hits };
        rule.check_rivals()?;
        Ok(rule)
    }

    /// The pairs whose anchors count, ascending.
    pub fn anchors(&self) -> &[u32] {
        &self.anchors
    }

    /// The pairs whose rivals set the thresholds, ascending.
    pub fn rivals(&self) -> &[u32] {
        &self.rivals
    }

    /// How hits are counted.
    pub fn hits(&self) -> &Hits {
        &self.hits
    }

    /// The label of a pair's group; pairs of one group are never rivals.
    pub fn group(&self, pair: u32) -> u32 {
        self.groups.as_ref().map_or(pair, |groups| groups[pair as usize])
    }

    /// Fails unless every anchor has `top_k` groups of rivals.
    fn check_rivals(&self) -> Result<(), Error> {
        let groups: HashSet<u32> = self.rivals.iter().map(|&r| self.group(r)).collect();
        for &anchor in &self.anchors {
            let count = groups.len() - usize::from(groups.contains(&self.group(anchor)));
            if count < self.hits.top_k {
                return Err(Error::TooFewRivals {
                    anchor: anchor as usize,
                    k: self.hits.top_k,
                    count,
                });
            }
        }
        Ok(())
    }
}

/// Returns an index set in ascending order, once all indices are distinct and in range.
fn checked_set(indices: &[usize], len: usize, set: IndexSet) -> Result<Vec<u32>, Error> {
    if indices.is_empty() {
        return Err(Error::EmptyIndexSet { set });
    }
    if let Some((position, &index)) = indices.iter().enumerate().find(|(_, i)| **i >= len) {
        return Err(Error::IndexOutOfRange { set, position, index, len });
    }
    let mut sorted: Vec<u32> = indices.iter().map(|&i| i as u32).collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::DuplicateIndex { set, index: pair[0] as usize }),
        None => Ok(sorted),
    }
}
