//! What chance does to picks: some of the pairs play the pool, and are picked from.
//!
//! Where a model is weak or items are dense, picks above an own pair are nothing special, and where
//! all vectors lie to one side, so are hubs. What pairs show when they play the pool needs no
//! assumption about that.

use nextpair_core::{Draws, draw};

use super::Finding;
use super::pairs::{Sample, median};
use crate::{Pick, Picks, Problem};

/// Purpose of the draws.
const SPLIT: u64 = 22;
/// Reasons of a pick that count: its strongest.
pub(super) const REASONS: usize = 3;
/// Pairs below which chance cannot be told.
const FEWEST_TO_SPLIT: usize = 64;
/// How often the sample is split into pairs and pool.
const SPLITS: u64 = 16;
/// Pairs of a split, at least.
const FEWEST_IN_SPLIT: usize = 16;

/// The share of the anchors that a hub hits.
const HUB: f64 = 0.5;
/// Anchors below which nothing is called a hub.
const FEWEST_ANCHORS: usize = 40;
/// Hubs and false negatives speak from this count on, if their share exceeds that of chance by this
/// and three standard errors.
const HUBS: (usize, f64) = (3, 0.1);
const FALSE_NEGATIVES: (usize, f64) = (5, 0.4);
const ERRORS: f64 = 3.0;

/// What chance does to picks: counts among the picks of all splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance {
    /// Picks.
    pub picks: usize,
    /// Those at or above the own pair of an anchor, though that is well above its rivals.
    pub above_own: usize,
    /// Those that hit at least half of the anchors.
    pub hubs: usize,
}

/// A hit, as chance sees it.
#[derive(Clone, Copy)]
struct Found {
    surplus: f64,
    above_own: bool,
}

impl Sample {
    /// Some of the pairs play the pool, with as many items for each pair as the problem has, and the
    /// same share of them is picked by surplus. `None` if there are too few pairs for that.
    pub(super) fn chance(&self, problem: &Problem, budget: usize) -> Option<Chance> {
        let rule = &problem.matching().ok()?.rule;
        let (count, k) = (self.len(), rule.hits().top_k);
        let ratio = problem.pool() as f64 / rule.rivals().len() as f64;
        let pairs = (count as f64 / (1.0 + ratio)) as usize;
        let pairs = pairs.max(FEWEST_IN_SPLIT).max(4 * k);
        if count < FEWEST_TO_SPLIT || 4 * pairs > 3 * count {
            return None;
        }
        let picks = ((count - pairs) as f64 * budget as f64 / problem.pool() as f64).round();
        let picks = (picks as usize).clamp(1, count - pairs);
        let mut chance = Chance { picks: 0, above_own: 0, hubs: 0 };
        for split in 0..SPLITS {
            let mut draws = Draws::new(draw::draw_of(self.seed(), SPLIT, split));
            let mut order: Vec<usize> = (0..count).collect();
            for last in (1..count).rev() {
                order.swap(last, draws.below(last + 1));
            }
            let (paired, pool) = order.split_at(pairs);
            self.play(paired, pool, k, picks, &mut chance)?;
        }
        Some(chance)
    }

    /// Picks from `pool` by surplus and counts what is odd. `None` if an anchor has fewer than `k`
    /// rivals.
    fn play(
        &self,
        paired: &[usize],
        pool: &[usize],
        k: usize,
        picks: usize,
        chance: &mut Chance,
    ) -> Option<()> {
        let threshold = |&anchor: &usize| {
            let rivals = paired.iter().filter(|&&row| self.apart(row, anchor));
            let mut rivals: Vec<f64> = rivals.map(|&row| self.at(row, anchor)).collect();
            rivals.sort_unstable_by(|a, b| b.total_cmp(a));
            rivals.get(k - 1).copied()
        };
        let thresholds: Vec<f64> = paired.iter().map(threshold).collect::<Option<_>>()?;
        let own: Vec<f64> = paired.iter().map(|&pair| self.at(pair, pair)).collect();
        let usual = usual_margin(&own, &thresholds);
        let mut hits: Vec<Vec<Found>> = vec![Vec::new(); pool.len()];
        for ((&anchor, &threshold), &own) in paired.iter().zip(&thresholds).zip(&own) {
            for (&row, hits) in pool.iter().zip(&mut hits) {
                let similarity = self.at(row, anchor);
                if similarity > threshold && self.apart(row, anchor) {
                    let above_own = is_above_own(similarity, own, threshold, usual);
                    hits.push(Found { surplus: similarity - threshold, above_own });
                }
            }
        }
        hits.iter_mut().for_each(|hits| hits.sort_by(|a, b| b.surplus.total_cmp(&a.surplus)));
        let score = |hits: &Vec<Found>| hits.iter().map(|hit| hit.surplus).sum::<f64>();
        let mut order: Vec<(f64, usize)> = hits.iter().map(score).zip(0..).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for hits in order.iter().take(picks).map(|&(_, at)| &hits[at]) {
            chance.picks += 1;
            chance.above_own += usize::from(hits.iter().take(REASONS).any(|hit| hit.above_own));
            chance.hubs += usize::from(is_hub(hits.len(), paired.len()));
        }
        Some(())
    }
}

impl Chance {
    pub(super) fn hubs(&self, picks: &Picks) -> Option<Finding> {
        let anchors = picks.thresholds.len();
        let hits = |pick: &Pick| pick.hits.unwrap_or(0);
        let hubs = || picks.picks.iter().filter(|pick| is_hub(hits(pick) as usize, anchors));
        let most = hubs().max_by_key(|pick| hits(pick))?;
        let (count, of) = (hubs().count(), picks.picks.len());
        let told = anchors >= FEWEST_ANCHORS && self.is_exceeded((self.hubs, count), of, HUBS);
        let example = (most.index, hits(most));
        told.then_some(Finding::Hubs { picks: count, of, example, anchors })
    }

    /// `explained` are the picks with their strongest reasons.
    pub(super) fn false_negatives(&self, picks: &Picks, explained: &[Pick]) -> Option<Finding> {
        let usual = usual_margin(&picks.own, &picks.thresholds);
        let above = |pick: &Pick| {
            let mut reasons = pick.why.iter().take(REASONS);
            let above =
                reasons.find(|why| is_above_own(why.similarity, why.own, why.threshold, usual))?;
            Some((pick.index, above.anchor))
        };
        let mut found = explained.iter().filter_map(above);
        let example = found.next()?;
        let (count, of) = (1 + found.count(), explained.len());
        let by_chance = self.above_own as f64 / self.picks.max(1) as f64;
        let told = self.is_exceeded((self.above_own, count), of, FALSE_NEGATIVES);
        told.then_some(Finding::FalseNegatives { picks: count, of, by_chance, example })
    }

    /// Whether a count of picks exceeds that of chance by far.
    fn is_exceeded(
        &self,
        (by_chance, count): (usize, usize),
        of: usize,
        (fewest, excess): (usize, f64),
    ) -> bool {
        let (all, of_all) = ((by_chance + count) as f64, (self.picks + of) as f64);
        let share = all / of_all;
        let error = (share * (1.0 - share) * (1.0 / of as f64 + 1.0 / self.picks as f64)).sqrt();
        let difference = count as f64 / of as f64 - by_chance as f64 / self.picks as f64;
        count >= fewest && difference > excess + ERRORS * error
    }
}

fn is_hub(hits: usize, anchors: usize) -> bool {
    hits as f64 >= HUB * anchors as f64
}

/// How far the own pairs of anchors are above their thresholds, usually.
fn usual_margin(own: &[f64], thresholds: &[f64]) -> f64 {
    median(own.iter().zip(thresholds).map(|(own, threshold)| own - threshold).collect())
}

/// Whether a similarity reaches that of an own pair which is as far above its rivals as is usual. Own
/// pairs that rivals come near are reached by chance.
fn is_above_own(similarity: f64, own: f64, threshold: f64, usual: f64) -> bool {
    own > threshold && own - threshold >= usual && similarity >= own
}
