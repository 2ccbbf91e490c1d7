//! Learning curves.

use super::super::chart::style::OTHERS;
use super::super::chart::{Lines, MOST_BANDS, Point, Series};
use super::super::page::escaped;
use super::Sections;
use nextpair_scenario::{ArmEvidence, Estimate, Evidence, Recalls};

/// Returns the styles of the strategies: 0 for the first of the baseline, from 1 for the others.
pub(super) fn styles(evidence: &Evidence) -> Vec<usize> {
    // A single strategy is not compared with a baseline.
    if evidence.arms.len() == 1 {
        return vec![1];
    }
    let mut next = 0;
    let style = |arm: &ArmEvidence| {
        if evidence.baseline.arms.first() == Some(&arm.strategy) {
            return 0;
        }
        next += 1;
        next
    };
    evidence.arms.iter().map(style).collect()
}

/// A measure: base name of the file, title of the chart, both directions by round, and what is drawn of them.
type Kind = (&'static str, &'static str, fn(&ArmEvidence) -> &[Recalls], fn(&Recalls) -> Estimate);

/// The first one decides, and is drawn larger.
const KINDS: [Kind; 3] = [
    (
        "log-rank",
        "Mean log rank of both directions (lower is better): the measure that decides",
        |arm| &arm.log_rank,
        |ranks| ranks.both.times(0.5),
    ),
    ("text-r1", "Text R@1 (%): images find their captions", ArmEvidence::r1, |of| of.text),
    ("image-r1", "Image R@1 (%): captions find their image", ArmEvidence::r1, |of| of.image),
];

impl Sections {
    pub(super) fn curves(&mut self, evidence: &Evidence, prefix: &str) {
        let mut figures = String::new();
        for (at, (name, title, rounds, of)) in KINDS.into_iter().enumerate() {
            let series = evidence.arms.iter().zip(styles(evidence));
            let series = series.map(|(arm, style)| {
                series_of((arm, rounds(arm)), evidence.name_of(arm), style, of)
            });
            let x_label = paid(std::slice::from_ref(evidence));
            let name = format!("{prefix}{name}");
            figures += &self.lines(&name, title, x_label, series.collect(), class_of(at));
        }
        let note = match evidence.seeds.len() {
            1 => "One seed: no interval.".to_owned(),
            _ if evidence.arms.len() > MOST_BANDS => format!(
                "The band is the 95 % interval of the mean over seeds, of {} alone; the table below \
                 has all of them.",
                evidence.baseline.arms[0]
            ),
            _ => "Bands are 95 % intervals of the mean over seeds.".to_owned(),
        };
        let html = format!(
            "<div class=\"figures\">{figures}</div><p class=\"note\">{}</p>",
            escaped(&note)
        );
        self.section("curves", "Learning curves", &html);
    }

    /// Draws the curves of all experiments in one pair of charts.
    pub(super) fn compared_curves(&mut self, runs: &[Evidence], prefix: &str) -> String {
        let mut figures = String::new();
        for (at, (name, title, rounds, of)) in KINDS.into_iter().enumerate() {
            // A strategy has the same colour in every experiment, and an experiment has its own
            // dashes.
            let (mut all, mut strategies) = (Vec::new(), Vec::new());
            for (number, run) in runs.iter().enumerate() {
                for arm in &run.arms {
                    let known = strategies.iter().position(|other| *other == arm.strategy);
                    let colour = known.unwrap_or_else(|| {
                        strategies.push(arm.strategy);
                        strategies.len() - 1
                    });
                    let name = format!("{}: {}", run.label, arm.strategy);
                    let style = 1 + colour % OTHERS + OTHERS * number;
                    all.push(series_of((arm, rounds(arm)), name, style, of));
                }
            }
            let name = format!("{prefix}compared-{name}");
            figures += &self.lines(&name, title, paid(runs), all, class_of(at));
        }
        format!("<div class=\"figures\">{figures}</div>")
    }

    fn lines(
        &mut self,
        name: &str,
        title: &str,
        x_label: &str,
        series: Vec<Series>,
        class: &str,
    ) -> String {
        let chart = Lines {
            name: name.to_owned(),
            title: title.to_owned(),
            x_label: x_label.to_owned(),
            series,
            wide: class == "wide",
        };
        self.figure(chart.draw(), class, "")
    }
}

/// The first chart spans both columns.
fn class_of(at: usize) -> &'static str {
    if at == 0 { "wide" } else { "" }
}

/// Names the items on the horizontal axis: paired, or paid for if some could not be captioned.
fn paid(runs: &[Evidence]) -> &'static str {
    let arms = || runs.iter().flat_map(|run| &run.arms);
    if arms().any(|arm| arm.bought != arm.paired) { "items paid for" } else { "paired items" }
}

fn series_of(
    (arm, rounds): (&ArmEvidence, &[Recalls]),
    name: String,
    style: usize,
    of: fn(&Recalls) -> Estimate,
) -> Series {
    let points = rounds.iter().zip(&arm.bought);
    let points = points.map(|(recalls, &x)| Point { x, y: of(recalls) }).collect();
    Series { name, style, points }
}
