//! Does what is known before the first batch foretell which strategy pays? Rules are fitted to all experiments but
//! one, choose a strategy for that one, and are judged by what its captions turned out to be worth.

use nextpair_models::ModelKind;
use serde::{Serialize, Serializer};

use super::Evidence;
use crate::statistics::{self, Estimate};
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
    known: fn(&Evidence) -> Option<Known>,
}

/// What is known of an experiment, which says how a rule learns from others.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    /// Nothing: from the mean of all.
    Nothing,
    /// From the mean of those of the same kind, or of all if there are none.
    Kind(ModelKind),
    /// From a line through all of them.
    Number(f64),
}

/// All predictors.
pub const PREDICTORS: [Predictor; 7] = [
    Predictor { name: "kind", what: "kind of model", known: |run| Some(Known::Kind(run.kind)) },
    Predictor {
        name: "hard-negatives",
        what: "hard negatives in the first pool, %",
        known: |run| {
            let mut shares = run.arms.iter().map(|arm| arm.hard_negatives.first().copied());
            shares.find_map(Option::flatten).map(|share| Known::Number(share.mean))
        },
    },
    Predictor {
        name: "recall",
        what: "R@1 before the first batch",
        known: |run| {
            let mean = run.arms.iter().find_map(|arm| Some(arm.r1().first()?.both.mean));
            mean.map(Known::Number)
        },
    },
    Predictor {
        name: "start",
        what: "pairs before the first batch",
        known: |run| {
            let paired = run.arms.iter().find_map(|arm| arm.paired.first().copied());
            paired.map(Known::Number)
        },
    },
    Predictor {
        name: "gap",
        what: "R@1 on train less that on dev",
        known: |run| run.outset?.gap.map(Known::Number),
    },
    Predictor {
        name: "redundancy",
        what: "redundancy of the first pool",
        known: |run| run.outset?.redundancy.map(Known::Number),
    },
    Predictor {
        name: "dimensions",
        what: "dimensions of the first pool",
        known: |run| run.outset?.dimensions.map(Known::Number),
    },
];

impl Predictor {
    /// Returns its value, if it is a number that the experiment knows.
    pub fn number(&self, run: &Evidence) -> Option<f64> {
        match (self.known)(run)? {
            Known::Number(value) => Some(value),
            Known::Nothing | Known::Kind(_) => None,
        }
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
    /// What the rule looks at. `None`: at nothing; it chooses what was worth most in the other experiments
    /// on average.
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
        let found: Vec<Found<'_>> = table
            .iter()
            .filter_map(|(run, worths)| {
                let known = by.map_or(Some(Known::Nothing), |by| (by.known)(run))?;
                Some(Found { known, worths, label: &run.label })
            })
            .collect();
        if found.len() < FEWEST || strategies.is_empty() {
            return None;
        }
        let blind: Vec<Found<'_>> =
            found.iter().map(|one| Found { known: Known::Nothing, ..*one }).collect();
        let choices = |found: &[Found<'_>]| -> Vec<Option<usize>> {
            (0..found.len()).map(|out| choice(found, out)).collect()
        };
        let reached = |choices: &[Option<usize>]| -> Vec<f64> {
            let worth = |(one, choice): (&Found<'_>, &Option<usize>)| {
                choice.map_or(1.0, |strategy| one.worths[strategy])
            };
            found.iter().zip(choices).map(worth).collect()
        };
        let chosen = choices(&found);
        let own = reached(&chosen);
        let better = own.iter().zip(reached(&choices(&blind))).map(|(own, blind)| own - blind);
        let best = found.iter().map(|one| one.worths.iter().copied().fold(1.0, f64::max));
        Some(Foretold {
            by,
            experiments: found.iter().map(|one| one.label.to_owned()).collect(),
            chosen: chosen.iter().map(|choice| choice.map_or(random, |s| strategies[s])).collect(),
            worth: mean(&own),
            hindsight: mean(&best.collect::<Vec<f64>>()),
            better: by.and(Estimate::of(&better.collect::<Vec<f64>>())),
        })
    };
    let rules = std::iter::once(None).chain(PREDICTORS.map(Some));
    rules.filter_map(judged).collect()
}

/// An experiment as a rule sees it.
#[derive(Clone, Copy)]
struct Found<'a> {
    known: Known,
    /// The worth of every strategy.
    worths: &'a [f64],
    label: &'a str,
}

/// Chooses a strategy for the experiment at `out` by the others: the largest expected worth, `None` (random) if
/// none is above 1.
fn choice(found: &[Found<'_>], out: usize) -> Option<usize> {
    let others = || found.iter().enumerate().filter(|(at, _)| *at != out).map(|(_, one)| one);
    let expected = |strategy: usize| {
        let worths = |of: &dyn Fn(&Found<'_>) -> bool| -> Vec<f64> {
            others().filter(|one| of(one)).map(|one| one.worths[strategy]).collect()
        };
        match found[out].known {
            Known::Nothing => mean(&worths(&|_| true)),
            Known::Kind(_) => {
                let same = worths(&|one| one.known == found[out].known);
                mean(&if same.is_empty() { worths(&|_| true) } else { same })
            }
            Known::Number(x) => {
                let point = |one: &Found<'_>| match one.known {
                    Known::Number(x) => Some((x, one.worths[strategy])),
                    Known::Nothing | Known::Kind(_) => None,
                };
                line(&others().filter_map(point).collect::<Vec<(f64, f64)>>(), x)
            }
        }
    };
    let all = (0..found[out].worths.len()).map(|strategy| (strategy, expected(strategy)));
    let best = all.reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.filter(|(_, worth)| *worth > 1.0).map(|(strategy, _)| strategy)
}

/// Returns the value at `x` of the line of least squares through points, or their mean if all have one x.
fn line(points: &[(f64, f64)], x: f64) -> f64 {
    let [mx, my] = [|p: &(f64, f64)| p.0, |p: &(f64, f64)| p.1]
        .map(|of| mean(&points.iter().map(of).collect::<Vec<f64>>()));
    let spread: f64 = points.iter().map(|(x, _)| (x - mx) * (x - mx)).sum();
    let shared: f64 = points.iter().map(|(x, y)| (x - mx) * (y - my)).sum();
    if spread > 0.0 { my + shared / spread * (x - mx) } else { my }
}

/// Returns the mean of values, of which there is at least one.
fn mean(values: &[f64]) -> f64 {
    statistics::mean(values).unwrap_or(f64::NAN)
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

    fn choices(known: &[Known], worths: &[Vec<f64>]) -> Vec<Option<usize>> {
        let found: Vec<Found<'_>> = known
            .iter()
            .zip(worths)
            .map(|(&known, worths)| Found { known, worths, label: "" })
            .collect();
        (0..found.len()).map(|out| choice(&found, out)).collect()
    }

    #[test]
    fn a_rule_sees_no_result_of_the_experiment_it_chooses_for() {
        // Strategy 0 pays where x is large, strategy 1 where it is small.
        let worths = [vec![0.8, 1.3], vec![0.9, 1.1], vec![1.1, 0.9], vec![1.3, 0.8]];
        let numbers = [0.0, 1.0, 2.0, 3.0].map(Known::Number);
        assert_eq!(choices(&numbers, &worths), [Some(1), Some(1), Some(0), Some(0)]);
        // Without looking, what is left in is always the worse choice for what is left out.
        let blind = [Known::Nothing; 4];
        assert_eq!(choices(&blind, &worths), [Some(0), Some(0), Some(1), Some(1)]);
        // Random is chosen where nothing is expected to pay.
        let poor = [vec![0.5], vec![0.6], vec![3.0]];
        assert_eq!(choices(&[Known::Number(1.0); 3], &poor)[2], None);
    }

    #[test]
    fn a_kind_learns_from_its_own() {
        // Strategy 0 pays with heads, strategy 1 with dual encoders; there is one other model.
        let worths =
            [vec![1.2, 0.9], vec![1.1, 0.8], vec![0.7, 1.1], vec![0.9, 1.6], vec![1.0, 0.9]];
        let [heads, dual, other] =
            [ModelKind::Heads, ModelKind::DualEncoder, ModelKind::CrossAttention].map(Known::Kind);
        let chosen = choices(&[heads, heads, dual, dual, other], &worths);
        assert_eq!(chosen, [Some(0), Some(0), Some(1), Some(1), Some(1)]);
    }

    #[test]
    fn a_line_goes_through_its_points() {
        assert!((line(&[(0.0, 1.0), (1.0, 3.0)], 2.0) - 5.0).abs() < 1e-12);
        assert_eq!(line(&[(1.0, 1.0), (1.0, 3.0)], 9.0), 2.0);
    }
}
