//! Rates by chance: some of the pairs play the pool, and are picked from.
//!
//! With a weak model or dense items, picks above an own pair are common, and so are hubs where all vectors lie to one
//! side. Rates among pairs that play the pool account for that without assumptions.

use nextpair_core::{Draws, draw};

use super::Finding;
use super::pairs::{Sample, median};
use crate::canonical::exp;
use crate::{Pick, Picks, Problem, Rule};

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
/// Anchors below which a pick may hit all of them by chance.
const FEWEST_TO_HIT: usize = 20;
/// Hubs, hits of the pool and false negatives: the least count for a warning, and by how much the share must exceed
/// that of chance, beyond three standard errors.
const HUBS: (usize, f64) = (3, 0.1);
const POOL_HIT: (usize, f64) = (20, 0.2);
const FALSE_NEGATIVES: (usize, f64) = (5, 0.4);
const ERRORS: f64 = 3.0;

/// Rates by chance for a pool and picks from it: counts over all splits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chance {
    /// Items of the pool.
    pub pool: usize,
    /// Those with a hit.
    pub hit: usize,
    /// Picks.
    pub picks: usize,
    /// Those at or above the own pair of an anchor, though that is well above its rivals.
    pub above_own: usize,
    /// Those that hit at least half of the anchors.
    pub hubs: usize,
}

/// A hit of a pair that plays the pool.
#[derive(Clone, Copy)]
struct SampleHit {
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
        let mut chance = Chance::default();
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
        let mut hits: Vec<Vec<SampleHit>> = vec![Vec::new(); pool.len()];
        for ((&anchor, &threshold), &own) in paired.iter().zip(&thresholds).zip(&own) {
            for (&row, hits) in pool.iter().zip(&mut hits) {
                let similarity = self.at(row, anchor);
                if similarity > threshold && self.apart(row, anchor) {
                    let above_own = is_above_own(similarity, own, threshold, usual);
                    hits.push(SampleHit { surplus: similarity - threshold, above_own });
                }
            }
        }
        chance.pool += hits.len();
        chance.hit += hits.iter().filter(|hits| !hits.is_empty()).count();
        hits.iter_mut().for_each(|hits| hits.sort_by(|a, b| b.surplus.total_cmp(&a.surplus)));
        let score = |hits: &Vec<SampleHit>| hits.iter().map(|hit| hit.surplus).sum::<f64>();
        let mut order: Vec<(f64, usize)> = hits.iter().map(score).zip(0..).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for hits in order.iter().take(picks).map(|&(_, at)| &hits[at]) {
            chance.picks += 1;
            chance.above_own += usize::from(hits.iter().take(REASONS).any(|hit| hit.above_own));
            chance.hubs += usize::from(is_hub(hits.len(), paired.len(), HUB));
        }
        Some(())
    }
}

/// Picks that hit at least half of the anchors, if there are more of them than by chance. With too few pairs to
/// see chance, those that hit all anchors, if they are half of the picks.
pub(super) fn hubs(chance: Option<&Chance>, picks: &Picks) -> Option<Finding> {
    let anchors = picks.thresholds.len();
    let share = if chance.is_some() { HUB } else { 1.0 };
    let hits = |pick: &Pick| pick.hits.unwrap_or(0);
    let is_hub = |pick: &&Pick| is_hub(hits(pick) as usize, anchors, share);
    let hubs = || picks.picks.iter().filter(is_hub);
    let most = hubs().max_by_key(|pick| hits(pick))?;
    let (count, of) = (hubs().count(), picks.picks.len());
    let told = match chance {
        Some(chance) => {
            anchors >= FEWEST_ANCHORS && exceeds((count, of), (chance.hubs, chance.picks), HUBS)
        }
        None => anchors >= FEWEST_TO_HIT && count >= HUBS.0 && 2 * count >= of,
    };
    let example = (most.index, hits(most));
    told.then_some(Finding::Hubs { picks: count, of, example, anchors })
}

/// Items of the pool with a hit, if there are more of them than if pairs were the pool. Then an item would be among the
/// `top_k` of an anchor's rivals for one anchor in `rivals / top_k`, so with too few pairs to see more, it has a hit with
/// a probability of at most `1 - exp(-top_k)`, unless hits shun each other. With fewer rivals than anchors thresholds are
/// lower, of which chance knows nothing.
pub(super) fn pool_hit(chance: Option<&Chance>, picks: &Picks, rule: &Rule) -> Option<Finding> {
    let (hit, of) = (picks.hard_negatives? as usize, picks.pool);
    let (of_chance, played) = match chance {
        _ if rule.rivals().len() < rule.anchors().len() => return None,
        Some(chance) => (chance.hit, chance.pool),
        None => {
            let most = 1.0 - exp(-(rule.hits().top_k as f64));
            ((most * of as f64).ceil() as usize, of)
        }
    };
    let told = exceeds((hit, of), (of_chance, played), POOL_HIT);
    let by_chance = of_chance as f64 / played.max(1) as f64;
    told.then_some(Finding::PoolHit { hit, of, by_chance })
}

impl Chance {
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
        let told = exceeds((count, of), (self.above_own, self.picks), FALSE_NEGATIVES);
        told.then_some(Finding::FalseNegatives { picks: count, of, by_chance, example })
    }
}

/// Whether a count exceeds that of chance by far.
pub(super) fn exceeds(
    (count, of): (usize, usize),
    (by_chance, of_chance): (usize, usize),
    (fewest, excess): (usize, f64),
) -> bool {
    let (of, of_chance) = (of as f64, of_chance as f64);
    let share = (by_chance + count) as f64 / (of_chance + of);
    let error = (share * (1.0 - share) * (1.0 / of + 1.0 / of_chance)).sqrt();
    let difference = count as f64 / of - by_chance as f64 / of_chance;
    count >= fewest && difference > excess + ERRORS * error
}

/// Whether hits are those of a hub, which hits this share of the anchors.
fn is_hub(hits: usize, anchors: usize, share: f64) -> bool {
    hits as f64 >= share * anchors as f64
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
