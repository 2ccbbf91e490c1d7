//! Several experiments on one page: what each of them says to do, how they differ, and their curves together.

use nextpair_scenario::numbers::worth;
use nextpair_scenario::{Analysis, Evidence, Study};
use toml::{Table as Settings, Value};

use super::decision::{Scale, verdict};
use super::{Sections, test_prefix, tests_of_all};
use crate::chart::{Intervals, Row};
use crate::page::escaped;
use crate::table::{self, Table};
use crate::words::{next_ranks, with_small_interval};

/// Most characters of a setting.
const LONGEST: usize = 60;

impl Sections {
    /// Compares several experiments.
    pub(crate) fn compare(&mut self, analysis: &Analysis, studies: &[Study]) {
        let runs = &analysis.runs[..];
        if runs.len() < 2 {
            return;
        }
        let note = "Experiments differ in more than their seeds, so no interval is given for differences \
                    between them: compare what each of them says about its own baseline.";
        let figures = self.compared_curves(runs, "");
        let html = format!(
            "{}<p class=\"note\">{note}</p>{}{}{}{figures}<h3>All strategies of all experiments</h3>{}",
            decisions(runs),
            differing(runs, studies),
            self.compared_worth(runs),
            self.compared_differences(runs),
            table::comparison(runs)
        );
        self.section("all", "All experiments", &html);
        for folds in tests_of_all(runs) {
            let others = runs.iter().flat_map(|run| &run.other_tests);
            let runs: Vec<Evidence> =
                others.filter(|other| other.test.folds == folds).cloned().collect();
            self.by_other_test(&runs[0], |sections| {
                let figures = sections.compared_curves(&runs, &test_prefix(&runs[0]));
                let html = table::comparison(&runs) + &figures;
                sections.section("all", "All experiments", &html);
            });
        }
    }

    /// Draws the differences of all experiments to their own baselines on one scale.
    fn compared_differences(&mut self, runs: &[Evidence]) -> String {
        let rows: Vec<Row> = (runs.iter().enumerate())
            .flat_map(|(number, run)| {
                run.compared().map(move |(arm, difference)| Row {
                    name: format!("{}: {}", run.label, arm.strategy),
                    style: number + 1,
                    values: vec![("sum".to_owned(), difference.sum)],
                    seeds: difference.by_seed.iter().map(|of| (of.seed, of.sum)).collect(),
                })
            })
            .collect();
        if rows.is_empty() {
            return String::new();
        }
        let chart = Intervals {
            name: "compared-differences".to_owned(),
            title: "R@1-sum less that of the baseline of each experiment".to_owned(),
            note: "points, text and image added; seeds: the sum of each".to_owned(),
            rows,
        };
        self.figure(chart.draw(), "alone", "")
    }
}

/// Returns what every experiment says to do, by the same measure.
fn decisions(runs: &[Evidence]) -> String {
    let heads = [
        "Experiment",
        "What to do",
        "Leader, worth",
        "Log rank lower by",
        "Verdict",
        "Next batch: rank",
        "Cost",
    ];
    let caption = "What every experiment says to do";
    let mut table = Table::new(caption, &heads).named("experiments");
    let scale = Scale::of(runs.iter());
    for run in runs {
        let dash = || "–".to_owned();
        let found = run.recommendation.as_ref();
        let leader = found.and_then(|found| found.leader).and_then(|leader| run.arm(&leader));
        let less = leader.and_then(|arm| Some((arm.strategy, arm.difference.as_ref()?)));
        let gain = less.map(|(_, less)| less.gain());
        let forecast = found.and_then(|found| run.arm(&found.strategy)?.forecast.as_ref());
        let cost = run
            .price
            .zip(forecast)
            .map(|(price, forecast)| escaped(&run.money(price * forecast.batch as f64)));
        table.row(
            &run.label,
            &[
                escaped(run.headline().trim_end_matches('.')),
                less.map_or_else(dash, |(name, less)| {
                    let worth = less.worth.as_ref().map_or_else(String::new, worth);
                    format!("{} {}", escaped(&name.to_string()), with_small_interval(&worth))
                }),
                gain.map_or_else(dash, |gain| scale.strip(&gain)),
                gain.map_or_else(dash, |gain| verdict(&gain).to_owned()),
                forecast.map_or_else(dash, next_ranks),
                cost.unwrap_or_else(dash),
            ],
        );
    }
    table.finish()
}

/// Returns the settings in which experiments differ.
fn differing(runs: &[Evidence], studies: &[Study]) -> String {
    let settings: Vec<Vec<(String, String)>> = studies.iter().map(flat).collect();
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in settings.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let value = |of: &[(String, String)], name: &str| -> String {
        let found = of.iter().find(|(known, _)| known == name);
        found.map_or("–".to_owned(), |(_, value)| value.clone())
    };
    names.retain(|name| {
        let first = value(&settings[0], name);
        settings.iter().any(|other| value(other, name) != first)
    });
    if names.is_empty() {
        return "<p>They have the same settings.</p>".to_owned();
    }
    let heads: Vec<&str> =
        std::iter::once("Setting").chain(runs.iter().map(|run| run.label.as_str())).collect();
    let mut table = Table::new("Settings in which they differ", &heads).named("settings");
    for name in names {
        let cells: Vec<String> = settings.iter().map(|of| escaped(&value(of, name))).collect();
        table.row(name, &cells);
    }
    table.finish()
}

/// Returns the settings of an experiment by their names: `training.epochs`.
fn flat(study: &Study) -> Vec<(String, String)> {
    fn collect(settings: &Settings, prefix: &str, all: &mut Vec<(String, String)>) {
        for (key, value) in settings {
            match value {
                Value::Table(inner) => collect(inner, &format!("{prefix}{key}."), all),
                value => {
                    let text: String = value.to_string();
                    let short: String = text.chars().take(LONGEST).collect();
                    let rest = if short.len() < text.len() { "…" } else { "" };
                    all.push((format!("{prefix}{key}"), short + rest));
                }
            }
        }
    }
    let mut all = Vec::new();
    if let Ok(settings) = Settings::try_from(&study.experiment) {
        collect(&settings, "", &mut all);
    }
    all
}
