//! The baseline of an experiment, and strategies beside it, seed by seed.

use std::fmt;

use nextpair_models::Retrieval;
use serde::{Serialize, Serializer};

use super::Lanes;
use crate::{Arm, Round};

/// The strategies that the others are compared with: the mean of all random ones, seed by seed, or the
/// first strategy if none is random.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// The strategies of the baseline.
    pub arms: Vec<Arm>,
}

impl Baseline {
    pub(super) fn of(arms: &[Arm]) -> Self {
        let random: Vec<Arm> = arms.iter().filter(|arm| arm.is_random()).copied().collect();
        Baseline { arms: if random.is_empty() { arms[..1].to_vec() } else { random } }
    }

    /// Returns whether a strategy is part of the baseline.
    pub fn holds(&self, arm: &Arm) -> bool {
        self.arms.contains(arm)
    }

    /// Returns whether a strategy is a null control: a random one, compared with the other random ones.
    pub fn has_control(&self, arm: &Arm) -> bool {
        self.arms.len() > 1 && self.holds(arm)
    }

    /// Returns the strategies that a strategy is compared with. There are none for a baseline of one.
    pub(super) fn of_arm(&self, arm: &Arm) -> Vec<Arm> {
        self.arms.iter().filter(|other| *other != arm).copied().collect()
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.arms[..] {
            [arm] => write!(out, "{arm}"),
            arms => write!(out, "random (mean of {})", arms.len()),
        }
    }
}

impl Serialize for Baseline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The results of one test after a round, of one strategy or the mean of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Score {
    /// Number of items paid for.
    pub(crate) paired: f64,
    pub(crate) text: Retrieval,
    pub(crate) image: Retrieval,
}

impl Score {
    pub(super) fn of(round: &Round) -> Self {
        let test = round.test.first().copied().unwrap_or_default();
        Score { paired: round.paid_for() as f64, text: test.text, image: test.image }
    }

    /// Returns the mean of the results of several strategies.
    fn mean(scores: &[Score]) -> Self {
        let share = 1.0 / scores.len() as f64;
        let of = |value: &dyn Fn(&Score) -> f64| scores.iter().map(value).sum::<f64>() * share;
        let retrieval = |side: fn(&Score) -> &Retrieval| Retrieval {
            r1: of(&|score| side(score).r1),
            r5: of(&|score| side(score).r5),
            r10: of(&|score| side(score).r10),
            median_rank: of(&|score| side(score).median_rank),
            mean_rank: of(&|score| side(score).mean_rank),
            mean_reciprocal_rank: of(&|score| side(score).mean_reciprocal_rank),
            mean_log_rank: of(&|score| side(score).mean_log_rank),
        };
        Score {
            paired: of(&|score| score.paired),
            text: retrieval(|score| &score.text),
            image: retrieval(|score| &score.image),
        }
    }

    /// Returns text and image recall at a depth.
    pub(super) fn recall(&self, k: usize) -> (f64, f64) {
        let at = |of: &Retrieval| match k {
            1 => of.r1,
            5 => of.r5,
            _ => of.r10,
        };
        (at(&self.text), at(&self.image))
    }

    /// Returns the sum of text and image R@1.
    pub(super) fn r1(&self) -> f64 {
        self.text.r1 + self.image.r1
    }

    /// Returns the mean log rank of both directions. It decides.
    pub(super) fn log_rank(&self) -> f64 {
        f64::midpoint(self.text.mean_log_rank, self.image.mean_log_rank)
    }
}

/// One seed of a strategy and of its baseline, both finished.
#[derive(Clone, Debug)]
pub(crate) struct Compared {
    pub(crate) seed: u64,
    pub(crate) own: Vec<Score>,
    pub(crate) baseline: Vec<Score>,
    /// Paired items and mean log rank of all random strategies: those that make a caption's worth.
    pub(crate) random: Vec<(f64, f64)>,
}

impl Compared {
    /// Returns the seeds that a strategy and all strategies of its baseline finished.
    pub(super) fn all(lanes: &Lanes<'_>, arm: &Arm, baseline: &Baseline) -> Vec<Compared> {
        let others = baseline.of_arm(arm);
        if others.is_empty() || (baseline.holds(arm) && !baseline.has_control(arm)) {
            return Vec::new();
        }
        let seeds = lanes.seeds.iter().enumerate();
        let of_seed = |(at, &seed): (usize, &u64)| {
            let whole = |arm: &Arm| -> Option<Vec<Score>> {
                let lane = lanes.of_arm(arm).get(at).filter(|lane| lanes.is_whole(lane))?;
                Some(lane.iter().map(|round| Score::of(round)).collect())
            };
            let own = whole(arm)?;
            let others: Vec<Vec<Score>> = others.iter().map(whole).collect::<Option<_>>()?;
            let mean = |round: usize| {
                Score::mean(&others.iter().map(|lane| lane[round]).collect::<Vec<_>>())
            };
            let baseline_scores = (0..own.len()).map(mean).collect();
            let random = random_points(others.iter().chain(baseline.holds(arm).then_some(&own)));
            Some(Compared { seed, own, baseline: baseline_scores, random })
        };
        seeds.filter_map(of_seed).collect()
    }
}

/// Returns paired items and mean log rank by round, with the shared round 0 once.
fn random_points<'a>(lanes: impl Iterator<Item = &'a Vec<Score>>) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    for (at, lane) in lanes.enumerate() {
        for score in lane.iter().skip(usize::from(at > 0)) {
            points.push((score.paired, score.log_rank()));
        }
    }
    points
}
