//! What a chosen caption is worth in several experiments, beside what was known before any was bought.

use nextpair_scenario::{Arm, ArmEvidence, Estimate, Evidence, Worth};

use super::Sections;
use crate::chart::{Intervals, Point, Row, Scatter, Series};

/// Experiments with a strategy from which it is drawn against what was known before.
const ENOUGH: usize = 3;

impl Sections {
    /// Draws what strategies are worth in all experiments.
    pub(super) fn compared_worth(&mut self, runs: &[Evidence]) -> String {
        let found: Vec<(Arm, Vec<(&Evidence, Worth)>)> = strategies(runs)
            .into_iter()
            .map(|strategy| {
                (strategy, runs.iter().filter_map(|run| worth(run, &strategy)).collect())
            })
            .filter(|(_, worths): &(_, Vec<_>)| !worths.is_empty())
            .collect();
        if found.is_empty() {
            return String::new();
        }
        let rows = found.iter().enumerate().map(|(at, (strategy, worths))| Row {
            name: strategy.to_string(),
            style: at,
            values: worths
                .iter()
                .map(|(run, worth)| (run.label.clone(), worth.less_random()))
                .collect(),
            seeds: Vec::new(),
        });
        let chart = Intervals {
            name: "compared-worth".to_owned(),
            title: "Worth of a chosen caption, less that of a random one".to_owned(),
            note: "left of 0: worse than random, by the mean log rank of image retrieval"
                .to_owned(),
            rows: rows.collect(),
        };
        let mut html = self.figure(chart.draw(), "alone", "");
        for (name, x_label, known) in KNOWN_BEFORE {
            html += &self.against(&found, (name, x_label), known);
        }
        html
    }

    /// Draws what strategies are worth against something that was known before.
    fn against(
        &mut self,
        found: &[(Arm, Vec<(&Evidence, Worth)>)],
        (name, x_label): (&str, &str),
        known: fn(&Evidence) -> Option<f64>,
    ) -> String {
        let point = |(run, worth): &(&Evidence, Worth)| {
            let y = Estimate {
                mean: worth.captions,
                low: worth.low,
                high: worth.high,
                count: worth.seeds,
            };
            Some((Point { x: known(run)?, y }, run.label.clone()))
        };
        let series = found.iter().enumerate().filter(|(_, (arm, _))| !arm.is_random());
        let series = series.map(|(style, (strategy, worths))| {
            let (points, names): (Vec<Point>, Vec<String>) =
                worths.iter().filter_map(point).unzip();
            (Series { name: strategy.to_string(), style, points }, names)
        });
        let enough = |(series, _): &(Series, _)| series.points.len() >= ENOUGH;
        let (series, names): (Vec<Series>, Vec<Vec<String>>) = series.filter(enough).unzip();
        if series.is_empty() {
            return String::new();
        }
        let chart = Scatter {
            name: format!("worth-by-{name}"),
            title: format!("Worth of a chosen caption by {x_label}"),
            note: "above 1: better than random; a point for each experiment".to_owned(),
            x_label: x_label.to_owned(),
            level: 1.0,
            names,
            series,
        };
        self.figure(chart.draw(), "", "")
    }
}

/// Something known of an experiment before a caption is bought: its name, what it counts, its value.
type Known = (&'static str, &'static str, fn(&Evidence) -> Option<f64>);

const KNOWN_BEFORE: [Known; 3] = [
    ("hard-negatives", "hard negatives in the first pool, %", |run| {
        let shares = run.arms.iter().find_map(|arm| arm.hard_negatives.first().copied().flatten());
        shares.map(|share| share.mean)
    }),
    ("recall", "R@1 before the first batch", |run| {
        let first = |arm: &ArmEvidence| Some(arm.recall.first()?.rounds.first()?.both.mean);
        run.arms.iter().find_map(first)
    }),
    ("start", "pairs before the first batch", |run| {
        run.arms.iter().find_map(|arm| arm.paired.first().copied())
    }),
];

/// The strategies of all experiments, random ones first.
fn strategies(runs: &[Evidence]) -> Vec<Arm> {
    let mut all: Vec<Arm> = Vec::new();
    for arm in runs.iter().flat_map(|run| &run.arms).map(|arm| arm.strategy) {
        if !all.contains(&arm) {
            all.push(arm);
        }
    }
    all.sort_by_key(|arm| !arm.is_random());
    all
}

fn worth<'a>(run: &'a Evidence, strategy: &Arm) -> Option<(&'a Evidence, Worth)> {
    let difference = run.arm(strategy)?.difference.as_ref()?;
    Some((run, difference.worth?))
}
