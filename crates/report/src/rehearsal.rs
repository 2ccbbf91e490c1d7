//! The page of a rehearsal: what to do, and the numbers behind it.

use std::path::Path;

use nextpair_data::Progress;
use nextpair_scenario::numbers::grouped;
use nextpair_scenario::{Advice, Estimate, Scale, StrategyAdvice, Verdict};

use crate::chart::{Intervals, Row, style};
use crate::page::{self, escaped, page};
use crate::{Error, put, write_charts};

/// Writes `rehearsal.html` and its chart into a folder.
pub fn write_rehearsal(advice: &Advice, out: &Path, progress: &dyn Progress) -> Result<(), Error> {
    // Without any worth there is nothing to draw.
    let chart = Some(worth_chart(advice)).filter(|chart| !chart.rows.is_empty());
    let chart = chart.map(|chart| chart.draw());
    let (used, most) = advice.seeds;
    let mut body = format!(
        "<p>{} paired items of {}, model {}; {used} of at most {most} seeds.{}</p>\n\
         <p class=\"answer\">{}</p>\n{}",
        grouped(advice.paired),
        escaped(&advice.dataset),
        escaped(&advice.model),
        page::synthetic(advice.synthetic),
        escaped(&advice.sentence()),
        chart.as_ref().map(|chart| chart.inline()).unwrap_or_default()
    );
    for scale in advice.scales.iter().rev() {
        body += &table(scale);
    }
    body += "<p>Worth: random captions that one chosen caption replaces, by the mean log rank of image \
             retrieval on dev. Intervals hold for all strategies and all looks at once (95 %), and for \
             these dev images. The larger start decides: it is closest to what you have. A rehearsal \
             hides part of what is paired, so its start is smaller than the real one; what it cannot see \
             is how your unpaired items differ from the paired ones.</p>\n";
    let style = style::variables() + style::CHART + include_str!("assets/report.css") + STYLE;
    put(&out.join("rehearsal.html"), page("Rehearsal", &style, &body).as_bytes())?;
    write_charts(chart.as_slice(), out, progress)
}

const STYLE: &str = "
.answer { color: var(--ink); font-size: 1.15rem; border-left: 4px solid var(--mark); padding: .2rem 1rem; max-width: 60rem }
.rehearsal { border-collapse: collapse; margin: .5rem 0 1.5rem } .rehearsal caption { text-align: left; font-weight: 600; padding: .4rem 0 }
.rehearsal td, .rehearsal th { padding: .25rem .9rem .25rem 0; text-align: right; border-bottom: 1px solid var(--line) }
.rehearsal td:first-child, .rehearsal th:first-child, .rehearsal td:last-child { text-align: left }
svg.chart { max-width: 44rem; display: block }
";

/// Worth less 1, so that random is the line.
fn worth_chart(advice: &Advice) -> Intervals {
    let start = |at: usize| ["small", "large"][at.min(1)];
    let mut rows: Vec<Row> = Vec::new();
    let last = advice.scales.last().map_or(&[][..], |scale| &scale.strategies);
    for (style, found) in last.iter().enumerate() {
        let of_scale = |(at, scale): (usize, &Scale)| {
            let same = |other: &&StrategyAdvice| other.strategy == found.strategy;
            let worth = scale.strategies.iter().find(same)?.worth?;
            let less = |value: f64| value - 1.0;
            let estimate = Estimate {
                mean: less(worth.captions),
                low: worth.low.map(less),
                high: worth.high.map(less),
                count: worth.seeds,
            };
            Some((start(at), estimate))
        };
        let control = if found.null_control { ", null control" } else { "" };
        rows.push(Row {
            name: format!("{}{control}", found.strategy),
            style,
            values: advice.scales.iter().enumerate().filter_map(of_scale).collect(),
            seeds: Vec::new(),
        });
    }
    rows.retain(|row| !row.values.is_empty());
    Intervals {
        name: "worth".to_owned(),
        title: "Worth of a chosen caption, less that of a random one".to_owned(),
        note: "left of 0: worse than random; small and large start".to_owned(),
        rows,
    }
}

fn table(scale: &Scale) -> String {
    let mut rows = String::new();
    for found in scale.best_first() {
        let (worth, rank) = (found.worth_shown(), found.log_rank_shown());
        let verdict = match (found.null_control, found.log_rank.verdict()) {
            (true, _) => "null control",
            (_, Verdict::Below) => "better than random",
            (_, Verdict::Above) => "worse than random",
            (_, Verdict::Unclear) => "cannot be told from random",
            (_, Verdict::TooFewSeeds) => "too few seeds",
        };
        rows += &format!(
            "<tr><td>{}</td><td>{worth}</td><td>{rank}</td><td>{:+.1}</td><td>{verdict}</td></tr>\n",
            escaped(&found.strategy.to_string()),
            found.r1.mean
        );
    }
    format!(
        "<table class=\"rehearsal\"><caption>Start of {}: {} bought of {}</caption>\
         <tr><th>strategy</th><th>worth</th><th>mean log rank less random</th><th>R@1 less random</th><th></th></tr>\n\
         {rows}</table>\n",
        grouped(scale.start),
        grouped(scale.bought),
        grouped(scale.pool)
    )
}
