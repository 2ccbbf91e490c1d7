//! Who is copied, who is left out, and how many items nobody can caption. All of it follows from the
//! settings and the items of the source, so nothing is stored.

use std::collections::HashSet;

use nextpair_data::dataset::Items;
use nextpair_data::text::tokenize;
use nextpair_data::{Draws, draw};
use nextpair_models::Corpus;
use rayon::prelude::*;

use super::{COPIES, JUNK, Rare, World};
use nextpair_data::Amount;

/// The seed of all draws of a world: all seeds of an experiment share it.
pub(super) const SEED: u64 = 0x3011d;

/// Purposes of draws.
const STAYS: u64 = 1;
const ORDER: u64 = 2;
const SOURCES: u64 = 3;

/// The items that a world is made of.
pub(crate) struct Candidates<'a> {
    /// Items with both halves that train may have: those of train, or of all splits if they are redrawn.
    pub(crate) items: &'a [usize],
    /// How many of them train has.
    pub(crate) train: usize,
    /// How many are paired from the start.
    pub(crate) initial: Amount,
}

/// A world in numbers of items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Number of items of the source.
    pub(crate) originals: usize,
    /// Items that train does not have, because they are rare.
    pub(crate) left_out: HashSet<usize>,
    /// The source of every copy.
    pub(crate) sources: Vec<usize>,
    /// Number of items that nobody can caption.
    pub(crate) junk: usize,
    /// Number of items of train that can be captioned, copies included: exact if splits are those of
    /// the dataset, else what is expected of a seed.
    pub(crate) captionable: usize,
}

impl Layout {
    pub(crate) fn new(world: &World, corpus: &Corpus, candidates: &Candidates<'_>) -> Self {
        let items = corpus.dataset().items();
        let added =
            |split: Option<&str>| split.is_some_and(|split| [COPIES, JUNK].contains(&split));
        let originals = (0..items.len()).filter(|&item| !added(items.split_of(item))).count();
        let left_out = match &world.rare {
            Some(rare) => left_out(rare, items, candidates.items),
            None => HashSet::new(),
        };
        let kept: Vec<usize> =
            candidates.items.iter().copied().filter(|item| !left_out.contains(item)).collect();
        let sources = sources(&kept, (world.copies * kept.len() as f64).round() as usize);
        let all = (kept.len() + sources.len()) as f64;
        let share = candidates.train as f64 / candidates.items.len().max(1) as f64;
        let captionable = (all * share).round() as usize;
        let initial = candidates.initial.whole_of(captionable).min(captionable);
        let junk = world.junk / (1.0 - world.junk) * (captionable - initial) as f64;
        Layout { originals, left_out, sources, junk: junk.round() as usize, captionable }
    }

    /// Returns the items of a training set that can be captioned: those that are not left out, and the
    /// copies of these. `train` is ascending, and so is the result.
    pub(crate) fn captionable(&self, train: &[usize]) -> Vec<usize> {
        let kept = |item: &usize| !self.left_out.contains(item);
        let mut items: Vec<usize> = train.iter().copied().filter(kept).collect();
        let sources: HashSet<usize> = items.iter().copied().collect();
        let copies = (self.originals..).zip(&self.sources);
        items.extend(copies.filter(|(_, source)| sources.contains(source)).map(|(copy, _)| copy));
        items
    }

    /// Returns all copies.
    pub(crate) fn copies(&self) -> std::ops::Range<usize> {
        self.originals..self.originals + self.sources.len()
    }

    /// Returns the items that nobody can caption.
    pub(crate) fn junk(&self) -> std::ops::Range<usize> {
        let first = self.originals + self.sources.len();
        first..first + self.junk
    }
}

/// Returns the rare items that do not stay: all but a share of them, the same for every seed.
fn left_out(rare: &Rare, items: &Items, candidates: &[usize]) -> HashSet<usize> {
    let words: HashSet<String> = rare.words.iter().flat_map(|word| tokenize(word)).collect();
    let is_rare = |item: &&usize| {
        let captions = items.get(**item).captions;
        captions.iter().flat_map(|caption| tokenize(caption)).any(|word| words.contains(&word))
    };
    let mut found: Vec<(u64, usize)> = candidates
        .par_iter()
        .filter(is_rare)
        .map(|&item| (draw::draw_of(SEED, STAYS, item as u64), item))
        .collect();
    found.sort_unstable();
    let stay = (rare.keep * found.len() as f64).round() as usize;
    found.into_iter().skip(stay).map(|(_, item)| item).collect()
}

/// Draws the sources of copies. The item at rank `r` of a random order is drawn with a probability
/// proportional to `1 / r` (Zipf), so a few items have bursts of copies and most have none.
fn sources(items: &[usize], count: usize) -> Vec<usize> {
    let mut order: Vec<(u64, usize)> =
        items.iter().map(|&item| (draw::draw_of(SEED, ORDER, item as u64), item)).collect();
    order.sort_unstable();
    let mut sums = Vec::with_capacity(order.len());
    let mut sum = 0.0;
    for rank in 1..=order.len() {
        sum += 1.0 / rank as f64;
        sums.push(sum);
    }
    let mut draws = Draws::new(draw::draw_of(SEED, SOURCES, 0));
    let mut source = || {
        let at = draws.unit() * sum;
        order[sums.partition_point(|&sum| sum <= at).min(order.len() - 1)].1
    };
    let count = if items.is_empty() { 0 } else { count };
    let mut sources: Vec<usize> = (0..count).map(|_| source()).collect();
    sources.sort_unstable();
    sources
}
