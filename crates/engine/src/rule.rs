//! Which pairs take part in a selection, and how hits count.

use std::collections::HashSet;

use nextpair_core::draw;

use crate::{Error, IndexSet};

/// Weight of one hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weight {
    /// How far the similarity exceeds the threshold.
    #[default]
    Surplus,
    /// One.
    Count,
}

/// Guards against likely false negatives: hits to ignore. Names and meaning as in
/// sentence-transformers' `mine_hard_negatives`, with `p` the similarity of the anchor's own pair.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Guards {
    /// Ignore similarities above this.
    pub max_score: Option<f64>,
    /// Ignore similarities above `p` minus this.
    pub absolute_margin: Option<f64>,
    /// Ignore similarities above `p` minus this share of `|p|`.
    pub relative_margin: Option<f64>,
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

    /// Whether any guard is on.
    pub fn any(&self) -> bool {
        *self != Guards::default()
    }
}

/// How to fill a batch if fewer items have a hit than the budget asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fill {
    /// The items that come closest to a hit.
    #[default]
    NearestMiss,
    /// The first items of the pool.
    Index,
}

/// Which pairs are anchors and which are rivals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All pairs are both.
    #[default]
    Full,
    /// A seeded draw of this many pairs, as both.
    Mini(usize),
    /// These pairs.
    Given {
        /// Pairs whose anchors count.
        anchors: Vec<usize>,
        /// Pairs whose rivals set the thresholds.
        rivals: Vec<usize>,
    },
}

/// The settings of a selection, as typed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which pairs take part.
    pub scope: Scope,
    /// The threshold is the k-th largest rival.
    pub top_k: usize,
    /// Weight of a hit.
    pub weight: Weight,
    /// One label per pair; pairs with the same label are never rivals. [`group_labels`] computes
    /// them from the images and texts that pairs share.
    ///
    /// [`group_labels`]: crate::group_labels
    pub groups: Option<Vec<u32>>,
    /// Likely false negatives to ignore.
    pub guards: Guards,
    /// Seed of every draw.
    pub seed: u64,
    /// How many of the strongest hits to report for each pick.
    pub explain: usize,
    /// How to fill a batch when the hits run out.
    pub fill: Fill,
    /// Number of points that `herding` and `novelty` cover, drawn from the pool and the paired set.
    pub points: usize,
    /// Width of their kernel, as a squared distance between directions. By default, the median
    /// squared distance of an item to its nearest neighbour.
    pub bandwidth: Option<f64>,
    /// Temperature of the entropy of similarities. By default 0.05 for cosines.
    pub temperature: Option<f64>,
}

impl Settings {
    /// Fails if a number is impossible for any paired set.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.points == 0 {
            return Err(Error::NotPositive { setting: "points", value: 0.0 });
        }
        for (setting, value) in
            [("bandwidth", self.bandwidth), ("entropy-temperature", self.temperature)]
        {
            if let Some(value) = value.filter(|value| !(value.is_finite() && *value > 0.0)) {
                return Err(Error::NotPositive { setting, value });
            }
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            scope: Scope::Full,
            top_k: 1,
            weight: Weight::Surplus,
            groups: None,
            guards: Guards::default(),
            seed: 0,
            explain: 3,
            fill: Fill::default(),
            points: 2000,
            bandwidth: None,
            temperature: None,
        }
    }
}

/// Settings checked against a paired set.
#[derive(Clone, Debug)]
pub struct Rule {
    anchors: Vec<u32>,
    rivals: Vec<u32>,
    groups: Option<Vec<u32>>,
    top_k: usize,
    weight: Weight,
    guards: Guards,
    explain: usize,
}

/// Purpose of the mini-batch draw, which keeps it apart from other draws of the same seed.
const MINI_BATCH: u64 = 1;

impl Rule {
    /// Checks `settings` for a paired set of `pairs`.
    pub fn new(settings: &Settings, pairs: usize) -> Result<Self, Error> {
        if pairs == 0 {
            return Err(Error::EmptyPaired);
        }
        if settings.top_k == 0 {
            return Err(Error::ZeroTopK);
        }
        if let Some(groups) = &settings.groups
            && groups.len() != pairs
        {
            return Err(Error::GroupCount { labels: groups.len(), pairs });
        }
        let guards = settings.guards;
        guards.check()?;
        let (anchors, rivals) = match &settings.scope {
            Scope::Full => {
                let all: Vec<u32> = (0..pairs as u32).collect();
                (all.clone(), all)
            }
            Scope::Mini(0) => return Err(Error::EmptyIndexSet { set: IndexSet::SampledPairs }),
            &Scope::Mini(sample) if sample > pairs => {
                return Err(Error::SampleTooLarge { sample, pairs });
            }
            &Scope::Mini(sample) => {
                let drawn = draw::sample(settings.seed, MINI_BATCH, pairs, sample);
                (drawn.clone(), drawn)
            }
            Scope::Given { anchors, rivals } => (
                checked_set(anchors, pairs, IndexSet::Anchors)?,
                checked_set(rivals, pairs, IndexSet::Rivals)?,
            ),
        };
        let rule = Rule {
            anchors,
            rivals,
            groups: settings.groups.clone(),
            top_k: settings.top_k,
            weight: settings.weight,
            guards,
            explain: settings.explain,
        };
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

    /// The threshold is the k-th largest rival.
    pub fn top_k(&self) -> usize {
        self.top_k
    }

    /// Weight of a hit.
    pub fn weight(&self) -> Weight {
        self.weight
    }

    /// Likely false negatives to ignore.
    pub fn guards(&self) -> Guards {
        self.guards
    }

    /// How many of the strongest hits to report for each pick.
    pub fn explain(&self) -> usize {
        self.explain
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
            if count < self.top_k {
                return Err(Error::TooFewRivals { anchor: anchor as usize, k: self.top_k, count });
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
