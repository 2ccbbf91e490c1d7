//! The evidence of one strategy.

use super::{ArmEvidence, Difference, Lanes, RecallAt, Recalls, Saved, WithoutHit};
use crate::forecast::{backtest, forecast};
use crate::statistics::Estimate;
use crate::{Arm, Round};

/// The reported depths.
const DEPTHS: [usize; 3] = [1, 5, 10];

/// Returns text and image recall of a round at depth `k`.
pub(super) fn recall(round: &Round, k: usize) -> (f64, f64) {
    let Some(test) = round.test.first() else { return (0.0, 0.0) };
    match k {
        1 => (test.text.r1, test.image.r1),
        5 => (test.text.r5, test.image.r5),
        _ => (test.text.r10, test.image.r10),
    }
}

/// Returns the sum of text and image R@1 of a round.
pub(crate) fn r1(round: &Round) -> f64 {
    let (text, image) = recall(round, 1);
    text + image
}

/// Returns text and image recall summed over all rounds.
pub(super) fn sum(lane: &[&Round], k: usize) -> f64 {
    lane.iter().map(|round| recall(round, k)).map(|(text, image)| text + image).sum()
}

impl Recalls {
    pub(super) fn of(values: &[(f64, f64)]) -> Option<Self> {
        let estimate = |value: fn(&(f64, f64)) -> f64| {
            Estimate::of(&values.iter().map(value).collect::<Vec<_>>())
        };
        Some(Recalls {
            text: estimate(|value| value.0)?,
            image: estimate(|value| value.1)?,
            both: estimate(|value| value.0 + value.1)?,
        })
    }
}

impl ArmEvidence {
    pub(super) fn of(lanes: &Lanes<'_>, arm: &Arm, baseline: &Arm, next_batch: usize) -> Self {
        let all = lanes.of_arm(arm);
        let seeds = lanes.seeds.iter().zip(all);
        let finished: Vec<u64> =
            seeds.filter(|(_, lane)| lanes.is_whole(lane)).map(|(seed, _)| *seed).collect();
        let whole: Vec<&[&Round]> =
            all.iter().map(Vec::as_slice).filter(|lane| lanes.is_whole(lane)).collect();
        let shown =
            if whole.is_empty() { all.iter().map(Vec::as_slice).collect() } else { whole.clone() };
        let of_round = |at: usize| shown.iter().filter_map(move |lane| lane.get(at).copied());
        let estimates = |value: &dyn Fn(&Round) -> Option<f64>, at: usize| {
            Estimate::of(&of_round(at).filter_map(value).collect::<Vec<_>>())
        };
        let paired = |at| estimates(&|round| Some(round.paired as f64), at);
        let at_depth = |k: usize| RecallAt {
            k,
            rounds: (0..=lanes.rounds)
                .map_while(|at| {
                    Recalls::of(&of_round(at).map(|round| recall(round, k)).collect::<Vec<_>>())
                })
                .collect(),
            sum: Estimate::of(&whole.iter().map(|lane| sum(lane, k)).collect::<Vec<_>>()),
        };
        let share = |round: &Round| {
            round.batch.as_ref()?.hard_negative_share().filter(|share| share.is_finite())
        };
        let selections = shown.iter().copied().flatten().flat_map(|round| &round.phases);
        let selections = selections.filter(|phase| phase.name == "selection");
        let selections: Vec<f64> = selections.map(|phase| phase.seconds).collect();
        let batches = shown.iter().copied().flatten().filter_map(|round| round.batch.as_ref());
        let fillings = batches.filter_map(|batch| Some((batch.picked, batch.without_hit?)));
        let without_hit = fillings
            .reduce(|(picks, without), (p, w)| (picks + p, without + w))
            .map(|(picks, without)| WithoutHit { picks, without });
        let others = lanes.in_both(arm, baseline);
        let compared = arm != baseline && !others.is_empty();
        ArmEvidence {
            strategy: *arm,
            finished,
            paired: (0..=lanes.rounds).map_while(paired).map(|paired| paired.mean).collect(),
            recall: DEPTHS.map(at_depth).into(),
            hard_negatives: (1..=lanes.rounds).map(|at| estimates(&share, at)).collect(),
            without_hit,
            selection_seconds: Estimate::of(&selections),
            difference: compared.then(|| Difference::of(&others, lanes.rounds)).flatten(),
            saved: compared.then(|| Saved::of(&others)),
            forecast: forecast(all, next_batch),
            backtest: backtest(all),
        }
    }
}
