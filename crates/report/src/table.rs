//! HTML tables of the page.

mod compared;
mod ranks;
mod recall;

use std::fmt::Write;

use super::page::escaped;
use nextpair_scenario::numbers::{grouped, signed};
use nextpair_scenario::{Estimate, Evidence};

use crate::bars::bar;
use crate::words::{counted, duration, memory, typographic};

pub(super) use compared::differences;
pub(super) use ranks::{ranks, ranks_by_round, worth};
pub(super) use recall::recall;

/// A table with HTML cells.
pub(super) struct Table {
    /// Its id on the page, if something refers to it.
    id: String,
    label: String,
    html: String,
}

impl Table {
    /// Creates a table with a caption and column heads, both plain text.
    pub(super) fn new(caption: &str, heads: &[&str]) -> Self {
        let heads: String =
            heads.iter().map(|head| format!("<th scope=\"col\">{}</th>", escaped(head))).collect();
        Self::headed(caption, &format!("<tr>{heads}</tr>"))
    }

    /// Creates a table with head rows as HTML.
    fn headed(caption: &str, heads: &str) -> Self {
        let label = if caption.is_empty() { "Table" } else { caption }.to_owned();
        let caption = match caption {
            "" => String::new(),
            caption => format!("<caption><span>{}</span></caption>", escaped(caption)),
        };
        let html = format!("<table>{caption}<thead>{heads}</thead><tbody>");
        Table { id: String::new(), label, html }
    }

    /// Gives the table an id.
    pub(super) fn named(mut self, id: &str) -> Self {
        self.id = format!(" data-table=\"{id}\"");
        self
    }

    /// Adds a row with a plain-text head and HTML cells.
    pub(super) fn row(&mut self, head: &str, cells: &[String]) {
        self.rows(&format!("<th scope=\"row\">{}</th>", escaped(head)), cells);
    }

    /// Adds a row, and marks it as the chosen one.
    pub(super) fn marked_row(&mut self, head: &str, cells: &[String], chosen: bool) {
        let mark = if chosen { " <span class=\"tag good\">recommended</span>" } else { "" };
        self.rows(&format!("<th scope=\"row\">{}{mark}</th>", escaped(head)), cells);
    }

    fn rows(&mut self, head: &str, cells: &[String]) {
        let cells: String =
            cells.iter().map(|cell| format!("<td>{}</td>", typographic(cell))).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(self.html, "<tr>{head}{cells}</tr>");
    }

    /// Returns the table in a frame that scrolls where it is too wide: with a finger, or with keys once
    /// it has the focus.
    pub(super) fn finish(self) -> String {
        let Table { id, label, html } = self;
        format!(
            "<div class=\"scroll\"{id} role=\"group\" tabindex=\"0\" aria-label=\"{}\">{html}\
             </tbody></table></div>\n",
            escaped(&label)
        )
    }
}

/// Formats a number with half its interval.
fn with_spread(estimate: &Estimate) -> String {
    let mean = format!("{:.1}", estimate.mean);
    match estimate.interval() {
        Some((low, high)) => format!("{mean}<small>±{:.1}</small>", (high - low) / 2.0),
        None => mean,
    }
}

/// The share of hard negatives by round, as in the paper's Table 4.
pub(super) fn hard_negatives(evidence: &Evidence) -> String {
    let names: Vec<String> = (0..evidence.rounds).map(|at| format!("e={at}")).collect();
    let mut heads = vec!["Strategy"];
    heads.extend(names.iter().map(String::as_str));
    let mut table =
        Table::new("Percentage of the pool with at least one hit, before each batch", &heads);
    for arm in evidence.arms.iter().filter(|arm| arm.hard_negatives.iter().any(Option::is_some)) {
        let cell = |share: &Option<Estimate>| match share {
            Some(share) => format!("{:.2}", share.mean),
            None => "–".to_owned(),
        };
        let cells: Vec<String> = arm.hard_negatives.iter().map(cell).collect();
        table.row(&evidence.name_of(arm), &cells);
    }
    table.finish()
}

/// Expected gains of the next batch.
pub(super) fn forecasts(evidence: &Evidence) -> String {
    let heads = [
        "Strategy",
        "Items",
        "Rank now",
        "Expected rank",
        "R@1 gain",
        "Hard",
        "Cost",
        "Cost per point",
    ];
    let caption =
        "The next batch; ranks are geometric means of both directions, R@1 is text and image added";
    let mut table = Table::new(caption, &heads).named("forecasts");
    let known = evidence.arms.iter().filter_map(|arm| Some((arm, arm.forecast.as_ref()?)));
    let most = known.clone().map(|(_, forecast)| forecast.seeds).max().unwrap_or(0);
    for (arm, forecast) in known {
        let [now, expected, best, worst] = forecast.ranks();
        let r1 = forecast.r1;
        let money = |amount: f64| escaped(&evidence.money(amount));
        let cost = evidence.price.map(|price| price * forecast.batch as f64);
        let point = match cost {
            None => "–".to_owned(),
            Some(cost) if r1.low > 0.0 => format!(
                "{}<small> [{}, {}]</small>",
                money(cost / r1.gain),
                money(cost / r1.high),
                money(cost / r1.low)
            ),
            Some(_) => "not certain".to_owned(),
        };
        let hard = forecast.log_rank.hard_negatives;
        let seeds = match forecast.seeds {
            seeds if seeds == most => String::new(),
            seeds => format!(" ({})", counted(seeds, "seed")),
        };
        let chosen = evidence.recommendation.as_ref().map(|found| found.strategy);
        table.marked_row(
            &format!("{}{seeds}", arm.strategy),
            &[
                grouped(forecast.batch),
                format!("{now:.1}"),
                format!("{expected:.1}<small> [{best:.1}, {worst:.1}]</small>"),
                format!("{:+.1}<small> [{:+.1}, {:+.1}]</small>", r1.gain, r1.low, r1.high),
                hard.map_or("–".to_owned(), |share| format!("{:.0} %", 100.0 * share)),
                cost.map_or("–".to_owned(), money),
                point,
            ],
            chosen == Some(arm.strategy),
        );
    }
    table.finish()
}

/// Forecasts for past batches, with their actual gains.
pub(super) fn backtest(evidence: &Evidence) -> String {
    let heads = ["Strategy", "Batch", "Expected", "Came", "Within, seeds"];
    let mut table = Table::new(
        "How far the mean log rank would have been expected to fall, and how far it fell",
        &heads,
    );
    for arm in &evidence.arms {
        for test in &arm.backtest {
            let (round, gain) = (test.forecast.round + 1, test.forecast.log_rank);
            table.row(
                &arm.strategy.to_string(),
                &[
                    round.to_string(),
                    format!(
                        "{:+.3}<small> [{:+.3}, {:+.3}]</small>",
                        gain.gain, gain.low, gain.high
                    ),
                    format!("{:+.3}", test.came),
                    format!("{} of {}", test.within, test.seeds),
                ],
            );
        }
    }
    table.finish()
}

/// Time and memory by phase.
pub(super) fn time(evidence: &Evidence) -> String {
    let mut table =
        Table::new("All rounds together", &["Phase", "Time", "Share", "Peak of the process"]);
    for phase in &evidence.time.phases {
        table.row(
            &phase.name,
            &[
                format!("<data value=\"{}\">{}</data>", phase.seconds, duration(phase.seconds)),
                format!("{:.1} % {}", phase.share, bar(phase.share, None)),
                phase.memory.map_or("–".to_owned(), memory),
            ],
        );
    }
    table.finish()
}

/// Experiments side by side.
pub(super) fn comparison(runs: &[Evidence]) -> String {
    let heads =
        ["Run: strategy", "Seeds", "Text R@1", "Image R@1", "R@1-sum", "R@1-sum to its baseline"];
    let mut table = Table::new("After the last round of each experiment", &heads);
    for run in runs {
        for arm in &run.arms {
            let last = arm.r1().last();
            let cell = |of: Option<Estimate>| of.as_ref().map_or("–".to_owned(), with_spread);
            let sum = arm.recall.first().and_then(|recall| recall.sum);
            let difference = arm.difference.as_ref();
            table.row(
                &format!("{}: {}", run.label, arm.strategy),
                &[
                    arm.finished.len().to_string(),
                    cell(last.map(|recalls| recalls.text)),
                    cell(last.map(|recalls| recalls.image)),
                    cell(sum),
                    difference.map_or("–".to_owned(), |difference| signed(&difference.sum)),
                ],
            );
        }
    }
    table.finish()
}
