//! The evidence of one strategy.

use super::compared::Score;
use super::{ArmEvidence, Difference, Lanes, RecallAt, Recalls, Refused, WithoutHit};
use crate::forecast::{backtest, forecast};
use crate::statistics::Estimate;
use crate::{Arm, Round};

/// The reported depths.
const DEPTHS: [usize; 3] = [1, 5, 10];

/// Returns the sum of text and image R@1 of a round.
pub(crate) fn r1(round: &Round) -> f64 {
    Score::of(round).r1()
}

/// Returns the mean log rank of both directions of a round.
pub(crate) fn log_rank(round: &Round) -> f64 {
    Score::of(round).log_rank()
}

/// Returns text and image recall summed over all rounds.
fn sum(lane: &[&Round], k: usize) -> f64 {
    lane.iter().map(|round| Score::of(round).recall(k)).map(|(text, image)| text + image).sum()
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
    pub(super) fn of(
        lanes: &Lanes<'_>,
        arm: &Arm,
        difference: Option<Difference>,
        next_batch: usize,
    ) -> Self {
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
        let bought = |at| estimates(&|round| Some(round.paid_for() as f64), at);
        let by_round = |value: &dyn Fn(&Score) -> (f64, f64)| -> Vec<Recalls> {
            let at = |at| of_round(at).map(|round| value(&Score::of(round))).collect::<Vec<_>>();
            (0..=lanes.rounds).map_while(|round| Recalls::of(&at(round))).collect()
        };
        let at_depth = |k: usize| RecallAt {
            k,
            rounds: by_round(&|score| score.recall(k)),
            sum: Estimate::of(&whole.iter().map(|lane| sum(lane, k)).collect::<Vec<_>>()),
        };
        let share = |round: &Round| {
            round.batch.as_ref()?.hard_negative_share().filter(|share| share.is_finite())
        };
        let selections = shown.iter().copied().flatten().flat_map(|round| &round.phases);
        let selections = selections.filter(|phase| phase.name == "selection");
        let selections: Vec<f64> = selections.map(|phase| phase.seconds).collect();
        let batches = || shown.iter().copied().flatten().filter_map(|round| round.batch.as_ref());
        let refused = batches().fold(Refused::default(), |sum, batch| Refused {
            picks: sum.picks + batch.picked - batch.unanswered,
            refused: sum.refused + batch.skipped,
        });
        let fillings = batches().filter_map(|batch| Some((batch.picked, batch.without_hit?)));
        let without_hit = fillings
            .reduce(|(picks, without), (p, w)| (picks + p, without + w))
            .map(|(picks, without)| WithoutHit { picks, without });
        ArmEvidence {
            strategy: *arm,
            finished,
            paired: (0..=lanes.rounds).map_while(paired).map(|paired| paired.mean).collect(),
            bought: (0..=lanes.rounds).map_while(bought).map(|bought| bought.mean).collect(),
            refused,
            recall: DEPTHS.map(at_depth).into(),
            log_rank: by_round(&|score| (score.text.mean_log_rank, score.image.mean_log_rank)),
            reciprocal_rank: by_round(&|score| {
                (score.text.mean_reciprocal_rank, score.image.mean_reciprocal_rank)
            }),
            hard_negatives: (1..=lanes.rounds).map(|at| estimates(&share, at)).collect(),
            without_hit,
            selection_seconds: Estimate::of(&selections),
            difference,
            forecast: forecast(all, next_batch),
            backtest: backtest(all),
        }
    }
}
