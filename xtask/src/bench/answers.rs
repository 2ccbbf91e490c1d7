//! Compares a rival's answer with ours, up to rounding in single precision.

use std::collections::{HashMap, HashSet};

use anyhow::{Result, ensure};

/// One of our picks, with its exact score.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pick {
    pub(super) index: u64,
    pub(super) score: f64,
    pub(super) hits: Option<u64>,
}

/// Number of picks beyond the budget whose exact order is known.
pub(super) const SLACK: usize = 16;
/// Maximum number of picks that may differ at the end of the budget, where scores tie.
const BOUNDARY: usize = 4;
/// Rounding error of a similarity in single precision, and relative error of a distance.
const ROUNDING: f64 = 1e-6;

/// Relative error of a distance by lightly-mundig. It is coarser than single precision and grows
/// with the selection: it seems to sum logarithms over all selected items.
const COARSE: f64 = 1e-3;

/// The differences of an accepted answer.
#[derive(Clone, Debug)]
pub(super) struct Agreement {
    /// Number of picks that are not among ours.
    pub(super) others: usize,
    /// Number of positions with another item than ours.
    pub(super) moved: usize,
    /// The largest amount by which a later pick's exact score exceeds an earlier one's. For a
    /// coarse answer, the largest relative shortfall of a pick from the farthest item.
    pub(super) error: f64,
    /// Whether [`compare_coarse`] judged the answer.
    pub(super) coarse: bool,
}

impl Pick {
    /// Returns the rounding error of a rival's score of this item: every hit adds one similarity.
    fn rounding(&self) -> f64 {
        ROUNDING * self.hits.map_or(self.score, |hits| hits as f64)
    }
}

/// Accepts `picks` if their exact scores descend, up to the rounding of each two picks. Items that
/// the rival left out count as coming after its picks.
pub(super) fn compare(reference: &[Pick], budget: usize, picks: &[u64]) -> Result<Agreement> {
    ensure!(picks.len() == budget, "{} picks for a budget of {budget}", picks.len());
    let chosen: HashSet<u64> = picks.iter().copied().collect();
    ensure!(chosen.len() == budget, "{} picks are repeated", budget - chosen.len());
    let known: HashMap<u64, &Pick> = reference.iter().map(|pick| (pick.index, pick)).collect();
    let mut order = Vec::with_capacity(budget + BOUNDARY);
    for (position, index) in picks.iter().enumerate() {
        let pick = known.get(index);
        ensure!(pick.is_some(), "pick {position} is item {index}, not among our {}", known.len());
        order.extend(pick);
    }
    let ours = &reference[..budget];
    order.extend(ours.iter().filter(|pick| !chosen.contains(&pick.index)));
    let boundary = order.len() - budget;
    ensure!(boundary <= BOUNDARY, "{boundary} picks are not ours; at most {BOUNDARY} may tie");

    let (mut lowest, mut lowest_allowed, mut inversion) = (f64::INFINITY, f64::INFINITY, 0.0f64);
    for pick in order {
        ensure!(
            pick.score - pick.rounding() <= lowest_allowed,
            "item {} (exact score {}) comes after one of {lowest}: more than rounding",
            pick.index,
            pick.score
        );
        inversion = inversion.max(pick.score - lowest);
        lowest = lowest.min(pick.score);
        lowest_allowed = lowest_allowed.min(pick.score + pick.rounding());
    }
    let moved = moved(ours, picks);
    Ok(Agreement { others: boundary, moved, error: inversion, coarse: false })
}

/// The least share of a greedy rival's picks that must be ours.
const ON_OUR_PATH: f64 = 0.97;

/// Accepts a greedy answer in single precision: where two gains nearly tie, it may go another way, and
/// later picks follow from earlier ones.
pub(super) fn compare_greedy(ours: &[Pick], picks: &[u64]) -> Result<Agreement> {
    let (budget, count) = (ours.len(), picks.len());
    ensure!(count == budget, "{count} picks for a budget of {budget}");
    let known: HashSet<u64> = ours.iter().map(|pick| pick.index).collect();
    let others = picks.iter().filter(|index| !known.contains(index)).count();
    let most = ((1.0 - ON_OUR_PATH) * budget as f64) as usize;
    ensure!(others <= most, "{others} picks are not ours; at most {most} may be");
    Ok(Agreement { others, moved: moved(ours, picks), error: 0.0, coarse: false })
}

/// Accepts a core-set if each pick was the farthest item given the picks before it, up to
/// `shortfall`. One different pick early on changes later ones, so the set may differ.
pub(super) fn compare_coarse(ours: &[Pick], picks: &[u64], shortfall: f64) -> Result<Agreement> {
    let (budget, count) = (ours.len(), picks.len());
    ensure!(count == budget, "{count} picks for a budget of {budget}");
    ensure!(shortfall <= COARSE, "a pick is {shortfall:e} short of the farthest item");
    let known: HashSet<u64> = ours.iter().map(|pick| pick.index).collect();
    let others = picks.iter().filter(|index| !known.contains(index)).count();
    Ok(Agreement { others, moved: moved(ours, picks), error: shortfall, coarse: true })
}

fn moved(ours: &[Pick], picks: &[u64]) -> usize {
    ours.iter().zip(picks).filter(|(ours, theirs)| ours.index != **theirs).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(scores: &[f64]) -> Vec<Pick> {
        let pick = |(index, &score)| Pick { index: index as u64, score, hits: Some(1) };
        scores.iter().enumerate().map(pick).collect()
    }

    #[test]
    fn the_same_answer_agrees() {
        let agreement = compare(&reference(&[3.0, 2.0, 1.0]), 2, &[0, 1]).unwrap();
        assert_eq!((agreement.others, agreement.moved, agreement.error), (0, 0, 0.0));
    }

    #[test]
    fn ties_may_be_swapped_inside_and_at_the_boundary() {
        let near = reference(&[3.0, 2.0, 2.0 - 1e-7, 1.0, 1.0 - 1e-7]);
        let agreement = compare(&near, 4, &[0, 2, 1, 4]).unwrap();
        assert_eq!((agreement.others, agreement.moved), (1, 3));
        assert!(agreement.error > 0.0 && agreement.error < 2e-7);
    }

    #[test]
    fn a_coarse_answer_is_judged_by_its_shortfall() {
        let ours = reference(&[3.0, 2.0]);
        let agreement = compare_coarse(&ours, &[0, 5], 1e-4).unwrap();
        assert_eq!((agreement.others, agreement.moved, agreement.coarse), (1, 1, true));
        assert!(compare_coarse(&ours, &[0, 5], 1e-2).is_err());
    }

    #[test]
    fn other_answers_do_not() {
        let clear = reference(&[3.0, 2.0, 1.0]);
        for (picks, why) in [
            (&[1, 0][..], "comes after"),
            (&[0, 2], "comes after"),
            (&[0, 7], "not among our"),
            (&[0, 0], "repeated"),
            (&[0], "1 picks for a budget of 2"),
        ] {
            let error = compare(&clear, 2, picks).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
