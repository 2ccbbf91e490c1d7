//! What a chosen caption is worth in several experiments, beside what was known before any was bought.

use nextpair_scenario::numbers::signed_fine;
use nextpair_scenario::{Arm, Estimate, Evidence, Foretold, PREDICTORS, Predictor, Worth};

use super::Sections;
use crate::chart::{Intervals, Point, Row, Scatter, Series};
use crate::table::Table;

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
            note: "left of 0: worse than random, by the mean log rank of both directions"
                .to_owned(),
            rows: rows.collect(),
        };
        let mut html = self.figure(chart.draw(), "alone", "");
        for known in &PREDICTORS {
            html += &self.against(&found, known);
        }
        html
    }

    /// Draws what strategies are worth against something that was known before.
    fn against(&mut self, found: &[(Arm, Vec<(&Evidence, Worth)>)], known: &Predictor) -> String {
        let point = |(run, worth): &(&Evidence, Worth)| {
            let y = Estimate {
                mean: worth.captions,
                low: worth.low,
                high: worth.high,
                count: worth.seeds,
            };
            Some((Point { x: known.number(run)?, y }, run.label.clone()))
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
            name: format!("worth-by-{}", known.name),
            title: format!("Worth of a chosen caption by {}", known.what),
            note: "above 1: better than random; a point for each experiment".to_owned(),
            x_label: known.what.to_owned(),
            level: 1.0,
            names,
            series,
        };
        self.figure(chart.draw(), "", "")
    }
}

/// Says how well rules would have chosen a strategy for each experiment by the others.
pub(super) fn foretold(rules: &[Foretold]) -> String {
    let Some(first) = rules.first() else { return String::new() };
    let heads =
        ["Chosen by", "Experiments", "Worth of what it chose", "Less that of the first rule"];
    let caption = "Rules that choose a strategy for an experiment by what the others found";
    let mut table = Table::new(caption, &heads).named("foretold");
    for rule in rules {
        let name = rule.by.map_or("nothing: what paid most in the others", |by| by.what);
        table.row(
            name,
            &[
                rule.experiments.len().to_string(),
                format!("{:.2}", rule.worth),
                rule.better.map_or_else(|| "–".to_owned(), |better| signed_fine(&better)),
            ],
        );
    }
    let note = format!(
        "A rule fits a line to the worth of each strategy in all experiments but one, or takes the mean of those of \
         the same kind, and chooses for that one. Who knows the results would reach {:.2}. The intervals are not corrected for the number of rules.",
        first.hindsight
    );
    format!("{}<p class=\"note\">{note}</p>", table.finish())
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
