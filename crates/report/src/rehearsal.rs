//! The page of a rehearsal: what to do, and the numbers behind it.

use std::path::Path;

use nextpair_data::Progress;
use nextpair_scenario::numbers::grouped;
use nextpair_scenario::{Advice, Scale, StrategyAdvice, Verdict};

use crate::chart::{Chart, Intervals, Row, style};
use crate::page::{self, escaped};
use crate::table::Table;
use crate::words::{typographic, with_small_interval};
use crate::{Error, put, script, write_charts};

/// Writes `rehearsal.html` and its chart into a folder.
pub fn write_rehearsal(advice: &Advice, out: &Path, progress: &dyn Progress) -> Result<(), Error> {
    // Without any worth there is nothing to draw.
    let chart = Some(worth_chart(advice)).filter(|chart| !chart.rows.is_empty());
    let chart = chart.map(|chart| chart.draw());
    let title = format!("{}: a rehearsal", advice.dataset);
    let body = format!(
        "<a class=\"skip\" href=\"#main\">Skip to the rehearsal</a>\n<header><h1>{}</h1></header>\n\
         <main id=\"main\" tabindex=\"-1\">\n{}{}</main>\n",
        escaped(&title),
        decision(advice),
        evidence(advice, chart.as_ref())
    );
    let style = style::variables() + style::CHART + include_str!("assets/report.css") + STYLE;
    let page = page::document(&title, &style, &body, &script(""));
    put(&out.join("rehearsal.html"), page.as_bytes())?;
    write_charts(chart.as_slice(), out, progress)
}

const STYLE: &str = "
header { margin-bottom: 1.6rem }
";

/// The first screen: what to do.
fn decision(advice: &Advice) -> String {
    let (used, most) = advice.seeds;
    let (headline, said) = (advice.headline(), advice.sentence());
    let because = said.strip_prefix(&headline).unwrap_or(&said).trim_start();
    format!(
        "<section id=\"decision\" aria-labelledby=\"decision-h\"><h2 id=\"decision-h\">What to do</h2>\
         <p class=\"headline\">{}</p><p class=\"because\">{}</p><p class=\"note\">{} paired items, model {}; {used} \
         of at most {most} seeds.{}</p></section>\n",
        escaped(&headline),
        typographic(&escaped(because)),
        grouped(advice.paired),
        escaped(&advice.model),
        page::synthetic(advice.synthetic)
    )
}

/// The numbers behind it.
fn evidence(advice: &Advice, chart: Option<&Chart>) -> String {
    let chart = chart.map_or(String::new(), |chart| {
        format!("<figure class=\"plot alone\" id=\"chart-worth\">{}</figure>\n", chart.inline())
    });
    let tables: String = advice.scales.iter().rev().map(table).collect();
    format!(
        "<section id=\"evidence\" aria-labelledby=\"evidence-h\"><h2 id=\"evidence-h\">What every strategy did</h2>\n\
         {chart}{tables}<p class=\"note\">Worth: random captions that one chosen caption replaces, by the mean log rank \
         of both directions on dev. Intervals hold for all strategies and all looks at once (95 %), and for \
         these dev images. The larger start decides: it is closest to what you have. A rehearsal \
         hides part of what is paired, so its start is smaller than the real one; what it cannot see \
         is how your unpaired items differ from the paired ones.</p></section>\n"
    )
}

/// Worth less 1, so that random is the line.
fn worth_chart(advice: &Advice) -> Intervals {
    let start = |at: usize| ["small", "large"][at.min(1)];
    let mut rows: Vec<Row> = Vec::new();
    let last = advice.scales.last().map_or(&[][..], |scale| &scale.strategies);
    for (style, found) in last.iter().enumerate() {
        let of_scale = |(at, scale): (usize, &Scale)| {
            let same = |other: &&StrategyAdvice| other.strategy == found.strategy;
            let worth = scale.strategies.iter().find(same)?.worth?;
            Some((start(at).to_owned(), worth.less_random()))
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
    let caption = format!(
        "Start of {}: {} bought of {}",
        grouped(scale.start),
        grouped(scale.bought),
        grouped(scale.pool)
    );
    let heads = ["Strategy", "Worth", "Mean log rank less random", "R@1 less random", "Verdict"];
    let mut table = Table::new(&caption, &heads);
    for found in scale.best_first() {
        let verdict = match (found.null_control, found.log_rank.verdict()) {
            (true, _) => "<span class=\"tag\">null control</span>",
            (_, Verdict::Below) => "<span class=\"tag good\">better than random</span>",
            (_, Verdict::Above) => "<span class=\"tag bad\">worse than random</span>",
            (_, Verdict::Unclear) => "<span class=\"tag\">not clear</span>",
            (_, Verdict::TooFewSeeds) => "<span class=\"tag\">too few seeds</span>",
        };
        let cells = [
            with_small_interval(&found.worth_shown()),
            with_small_interval(&found.log_rank_shown()),
            format!("{:+.1}", found.r1.mean),
            verdict.to_owned(),
        ];
        table.row(&found.strategy.to_string(), &cells);
    }
    table.finish()
}
