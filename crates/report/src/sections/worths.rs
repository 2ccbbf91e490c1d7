//! What a chosen caption is worth in several experiments.

use nextpair_scenario::{Arm, Evidence, Worth};

use super::Sections;
use crate::chart::{Intervals, Row};

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
            note: "left of 0: worse than random, by the mean log rank of both directions"
                .to_owned(),
            rows: rows.collect(),
        };
        self.figure(chart.draw(), "alone", "")
    }
}

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
