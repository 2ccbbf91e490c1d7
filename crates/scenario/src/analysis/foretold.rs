//! Does what is known before the first batch foretell which strategy pays? Rules are fitted to all experiments but
//! one, choose a strategy for that one, and are judged by what its captions turned out to be worth.

use serde::{Serialize, Serializer};

use super::Evidence;
use crate::statistics::Estimate;
use crate::{Arm, Outset};

/// Fewest experiments that rules are judged on: a line needs two points, and more to be wrong about.
const FEWEST: usize = 4;

/// Something known of an experiment before a caption is bought.
#[derive(Clone, Copy, Debug)]
pub struct Predictor {
    /// A short name, such as `gap`.
    pub name: &'static str,
    /// What it is, with its unit.
    pub what: &'static str,
    value: fn(&Evidence) -> Option<f64>,
}

/// All predictors.
pub const PREDICTORS: [Predictor; 6] = [
    Predictor {
        name: "hard-negatives",
        what: "hard negatives in the first pool, %",
        value: |run| {
            let mut shares = run.arms.iter().map(|arm| arm.hard_negatives.first().copied());
            shares.find_map(Option::flatten).map(|share| share.mean)
        },
    },
    Predictor {
        name: "recall",
        what: "R@1 before the first batch",
        value: |run| run.arms.iter().find_map(|arm| Some(arm.r1().first()?.both.mean)),
    },
    Predictor {
        name: "start",
        what: "pairs before the first batch",
        value: |run| run.arms.iter().find_map(|arm| arm.paired.first().copied()),
    },
    Predictor { name: "gap", what: "R@1 on train less that on dev", value: |run| run.outset?.gap },
    Predictor {
        name: "redundancy",
        what: "redundancy of the first pool",
        value: |run| run.outset?.redundancy,
    },
    Predictor {
        name: "dimensions",
        what: "dimensions of the first pool",
        value: |run| run.outset?.dimensions,
    },
];

impl Predictor {
    /// Returns its value, if the experiment knows it.
    pub fn of(&self, run: &Evidence) -> Option<f64> {
        (self.value)(run)
    }
}

impl Serialize for Predictor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

/// What was measured before the first batch, as means over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OutsetMeans {
    /// R@1 on train less that on dev, text and image added up.
    pub gap: Option<f64>,
    /// How much nearer neighbours are than random items.
    pub redundancy: Option<f64>,
    /// The number of dimensions that the pool spreads over.
    pub dimensions: Option<f64>,
}

impl OutsetMeans {
    pub(super) fn of<'a>(seeds: impl Iterator<Item = &'a Outset>) -> Option<Self> {
        let seeds: Vec<&Outset> = seeds.collect();
        let mean = |value: &dyn Fn(&Outset) -> Option<f64>| -> Option<f64> {
            let values: Vec<f64> = seeds.iter().filter_map(|outset| value(outset)).collect();
            Some(Estimate::of(&values)?.mean)
        };
        (!seeds.is_empty()).then(|| OutsetMeans {
            gap: mean(&|outset| Some(outset.learned?.gap())),
            redundancy: mean(&|outset| Some(outset.pool?.redundancy)),
            dimensions: mean(&|outset| Some(outset.pool?.dimensions)),
        })
    }
}

/// A rule that chooses a strategy for an experiment by what the other experiments found.
#[derive(Clone, Debug, Serialize)]
pub struct Foretold {
    /// What the rule looks at: lines are fitted, one for each strategy. `None`: at nothing; it chooses what
    /// was worth most in the other experiments on average.
    pub by: Option<Predictor>,
    /// The experiments, each left out once.
    pub experiments: Vec<String>,
    /// What it chose for each.
    pub chosen: Vec<Arm>,
    /// Mean worth of what it chose. Random captions are worth 1.
    pub worth: f64,
    /// The same for who knows the results, and chooses the best.
    pub hindsight: f64,
    /// The worth of what it chose less that of a rule that looks at nothing, over the experiments.
    pub better: Option<Estimate>,
}

/// Judges a rule for every predictor, after the rule that looks at nothing. Strategies are those that more than
/// half of the experiments have; experiments those that have all of them. Empty if these are too few.
pub(super) fn foretell(runs: &[Evidence]) -> Vec<Foretold> {
    let strategies = common(runs);
    let table: Vec<(&Evidence, Vec<f64>)> = runs
        .iter()
        .filter_map(|run| {
            let worths = strategies.iter().map(|arm| worth(run, arm));
            Some((run, worths.collect::<Option<Vec<f64>>>()?))
        })
        .collect();
    let Some(random) = runs.iter().find_map(|run| run.baseline.arms.first().copied()) else {
        return Vec::new();
    };
    let judged = |by: Option<Predictor>| -> Option<Foretold> {
        let known: Vec<(f64, &Vec<f64>, &str)> = table
            .iter()
            .filter_map(|(run, worths)| {
                let x = by.map_or(Some(0.0), |by| by.of(run))?;
                Some((x, worths, run.label.as_str()))
            })
            .collect();
        if known.len() < FEWEST || strategies.is_empty() {
            return None;
        }
        let choices = |fitted: bool| -> Vec<Option<usize>> {
            (0..known.len()).map(|out| choice(&known, out, fitted)).collect()
        };
        let reached = |choices: &[Option<usize>]| -> Vec<f64> {
            let of = |(at, choice): (usize, &Option<usize>)| choice.map_or(1.0, |s| known[at].1[s]);
            choices.iter().enumerate().map(of).collect()
        };
        let chosen = choices(by.is_some());
        let (own, blind) = (reached(&chosen), reached(&choices(false)));
        let best = known.iter().map(|(_, worths, _)| worths.iter().copied().fold(1.0, f64::max));
        let better: Vec<f64> = own.iter().zip(&blind).map(|(own, blind)| own - blind).collect();
        Some(Foretold {
            by,
            experiments: known.iter().map(|(_, _, label)| (*label).to_owned()).collect(),
            chosen: chosen.iter().map(|choice| choice.map_or(random, |s| strategies[s])).collect(),
            worth: mean(&own),
            hindsight: mean(&best.collect::<Vec<f64>>()),
            better: by.and(Estimate::of(&better)),
        })
    };
    let rules = std::iter::once(None).chain(PREDICTORS.map(Some));
    rules.filter_map(judged).collect()
}

/// Chooses a strategy for the experiment at `out` by the others: the largest expected worth, `None` (random) if
/// none is above 1.
fn choice(known: &[(f64, &Vec<f64>, &str)], out: usize, fitted: bool) -> Option<usize> {
    let x = known[out].0;
    let others: Vec<&(f64, &Vec<f64>, &str)> =
        known.iter().enumerate().filter(|(at, _)| *at != out).map(|(_, other)| other).collect();
    let expected = |strategy: usize| {
        let points: Vec<(f64, f64)> =
            others.iter().map(|(x, worths, _)| (*x, worths[strategy])).collect();
        line(&points, if fitted { x } else { f64::NAN })
    };
    let all = (0..known[out].1.len()).map(|strategy| (strategy, expected(strategy)));
    let best = all.reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.filter(|(_, worth)| *worth > 1.0).map(|(strategy, _)| strategy)
}

/// Returns the value at `x` of the line of least squares through points, or their mean if `x` is NaN or all
/// points have one x.
fn line(points: &[(f64, f64)], x: f64) -> f64 {
    let [mx, my] = [|p: &(f64, f64)| p.0, |p: &(f64, f64)| p.1]
        .map(|of| mean(&points.iter().map(of).collect::<Vec<f64>>()));
    let spread: f64 = points.iter().map(|(x, _)| (x - mx) * (x - mx)).sum();
    let shared: f64 = points.iter().map(|(x, y)| (x - mx) * (y - my)).sum();
    if spread > 0.0 && !x.is_nan() { my + shared / spread * (x - mx) } else { my }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn worth(run: &Evidence, arm: &Arm) -> Option<f64> {
    Some(run.arm(arm)?.difference.as_ref()?.worth?.captions)
}

/// Returns the strategies that more than half of the experiments know the worth of, without random ones.
fn common(runs: &[Evidence]) -> Vec<Arm> {
    let mut all: Vec<Arm> = Vec::new();
    for arm in runs.iter().flat_map(|run| &run.arms).map(|arm| arm.strategy) {
        let known = runs.iter().filter(|run| worth(run, &arm).is_some()).count();
        if !arm.is_random() && !all.contains(&arm) && 2 * known > runs.len() {
            all.push(arm);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_sees_no_result_of_the_experiment_it_chooses_for() {
        // Strategy 0 pays where x is large, strategy 1 where it is small.
        let worths: Vec<Vec<f64>> =
            vec![vec![0.8, 1.3], vec![0.9, 1.1], vec![1.1, 0.9], vec![1.3, 0.8]];
        let known: Vec<(f64, &Vec<f64>, &str)> =
            worths.iter().enumerate().map(|(at, worths)| (at as f64, worths, "")).collect();
        let fitted: Vec<_> = (0..4).map(|out| choice(&known, out, true)).collect();
        assert_eq!(fitted, [Some(1), Some(1), Some(0), Some(0)]);
        // Without looking, what is left in is always the worse choice for what is left out.
        let blind: Vec<_> = (0..4).map(|out| choice(&known, out, false)).collect();
        assert_eq!(blind, [Some(0), Some(0), Some(1), Some(1)]);
        // Random is chosen where nothing is expected to pay.
        let poor = [vec![0.5], vec![0.6], vec![3.0]];
        let known: Vec<_> = poor.iter().map(|worths| (1.0, worths, "")).collect();
        assert_eq!(choice(&known, 2, true), None);
    }

    #[test]
    fn a_line_goes_through_its_points() {
        assert!((line(&[(0.0, 1.0), (1.0, 3.0)], 2.0) - 5.0).abs() < 1e-12);
        assert_eq!(line(&[(1.0, 1.0), (1.0, 3.0)], 9.0), 2.0);
        assert_eq!(line(&[(0.0, 1.0), (1.0, 3.0)], f64::NAN), 2.0);
    }
}
