//! The first screen: what to do, what it brings and costs, how sure that is, and what would settle it.

use std::fmt::Write;
use std::path::Path;

use nextpair_scenario::numbers::{grouped, tenths};
use nextpair_scenario::{
    ArmEvidence, Estimate, Evidence, Forecast, NextBatch, Reason, Recommendation, Verdict,
};

use super::Sections;
use crate::page::escaped;
use crate::table::Table;
use crate::words::{self, counted, typographic};

/// Maximum number of strategies with a sentence each.
const ANSWERS: usize = 5;
/// Seeds that are worth proposing. Beyond them the difference is too small to matter.
const MOST_SEEDS: usize = 200;

impl Sections {
    /// Adds the recommendation.
    pub(super) fn decision(&mut self, evidence: &Evidence) {
        let mut html = String::new();
        let headline = escaped(&evidence.headline());
        let because = typographic(&escaped(&evidence.because()));
        let _ = writeln!(
            html,
            "<div class=\"hero\"><p class=\"headline\">{headline}</p><p class=\"because\">{because}</p>"
        );
        if let Some(found) = &evidence.recommendation {
            let _ = writeln!(html, "<dl class=\"cells\">{}</dl>", cells(evidence, found));
        }
        if let Some(worths) = evidence.worths_in_words() {
            let said = typographic(&escaped(&worths));
            let _ = writeln!(html, "<p class=\"because\">{said}</p>");
        }
        html += "</div>\n";
        if evidence.synthetic {
            html += "<p class=\"loud\"><strong>Synthetic data.</strong> Images and captions were \
                     made up by a program. The numbers show how the method behaves, not what it \
                     would bring on photographs.</p>\n";
        }
        let unfinished = words::unfinished(evidence);
        if !unfinished.is_empty() {
            let all = escaped(&unfinished.join(" "));
            let _ = writeln!(html, "<p class=\"loud\"><strong>Not finished.</strong> {all}</p>");
        }
        if evidence.compared().next().is_some() {
            html += &strategies(evidence);
        }
        html += &in_words(evidence, &self.id("in-words"));
        let refused = evidence.refused_in_words();
        if !refused.is_empty() {
            let lines: Vec<String> = refused.lines().map(escaped).collect();
            let _ = writeln!(html, "<p class=\"note\">{}</p>", lines.join("<br>"));
        }
        self.section("decision", "What to do", &html);
    }
}

/// Returns the four facts beside the recommendation.
fn cells(evidence: &Evidence, found: &Recommendation) -> String {
    let forecast = evidence.arm(&found.strategy).and_then(|arm| arm.forecast.as_ref());
    let mut cells = String::new();
    let mut cell = |what: &str, (value, more): (String, String)| {
        let (value, more) = (typographic(&value), typographic(&more));
        let _ = write!(
            cells,
            "<div><dt>{what}</dt><dd><strong>{value}</strong><span>{more}</span></dd></div>"
        );
    };
    if found.reason != Reason::NearChance {
        cell("What it should bring", bring(forecast, found.next));
        cell("What it costs", costs(evidence, forecast));
    }
    cell("How sure", sure(evidence, found));
    cell("What would settle it", settle(evidence, found, forecast));
    cells
}

fn bring(forecast: Option<&Forecast>, next: NextBatch) -> (String, String) {
    let Some(forecast) = forecast else {
        return ("Unknown".to_owned(), "No batch was bought yet, or nothing is left.".to_owned());
    };
    let [gain, low, high] = [forecast.gain, forecast.low, forecast.high].map(tenths);
    let told = match next {
        NextBatch::Unclear => " The interval includes 0: it may add nothing.",
        _ => "",
    };
    let from = tenths(forecast.reached);
    (
        format!("{gain:+.1} points of R@1"),
        format!("between {low:+.1} and {high:+.1}, from {from:.1} now.{told}"),
    )
}

fn costs(evidence: &Evidence, forecast: Option<&Forecast>) -> (String, String) {
    let batch = forecast.map_or(evidence.next_batch, |forecast| forecast.batch);
    let Some(price) = evidence.price else {
        let unknown = "With --price and --currency this page says what it costs.";
        return (counted(batch, "item"), unknown.to_owned());
    };
    let cost = price * batch as f64;
    let each = format!("{} at {}", counted(batch, "item"), escaped(&evidence.money(price)));
    let point = match forecast {
        Some(forecast) if forecast.low > 0.0 => format!(
            "; {} per point, between {} and {}",
            escaped(&evidence.money(cost / forecast.gain)),
            escaped(&evidence.money(cost / forecast.high)),
            escaped(&evidence.money(cost / forecast.low))
        ),
        _ => String::new(),
    };
    (escaped(&evidence.money(cost)), format!("{each}{point}."))
}

fn sure(evidence: &Evidence, found: &Recommendation) -> (String, String) {
    let seeds = counted(found.seeds, "seed");
    let baseline = escaped(&evidence.baseline.to_string());
    match found.reason {
        Reason::Better => {
            let saved = evidence.arm(&found.strategy).and_then(|arm| saving(evidence, arm));
            let saved = saved.map_or(String::new(), |saved| format!(" So far it saved {saved}."));
            (
                "Sure".to_owned(),
                format!("The 95 % interval over {seeds} is above {baseline}.{saved}"),
            )
        }
        Reason::AllWorse => {
            ("Sure".to_owned(), format!("All 95 % intervals over {seeds} are below {baseline}."))
        }
        Reason::NoneBetter => (
            "Not settled".to_owned(),
            format!("Over {seeds} the leader’s 95 % interval contains zero."),
        ),
        Reason::TooFewSeeds => ("Not sure".to_owned(), format!("Only {seeds}: no interval.")),
        Reason::NotCompared => ("Unknown".to_owned(), "Nothing can be compared yet.".to_owned()),
        Reason::Alone => ("Unknown".to_owned(), "One strategy alone proves nothing.".to_owned()),
        Reason::NearChance => {
            ("Not at all".to_owned(), "A model near chance tells nothing apart.".to_owned())
        }
    }
}

fn settle(
    evidence: &Evidence,
    found: &Recommendation,
    forecast: Option<&Forecast>,
) -> (String, String) {
    let more_seeds = |seeds: usize| {
        let folder = evidence.folders.first().map_or("EXPERIMENT".into(), |folder| shown(folder));
        let flag = |flag: &str| format!("<em class=\"flag\">{flag}</em>");
        let (resume, seeds) = (flag("--resume"), flag(&format!("--seeds 0..{seeds}")));
        format!("<code>nextpair run {folder} {resume} {seeds}</code>")
    };
    let leader = found.leader.map_or(String::new(), |leader| escaped(&leader.to_string()));
    match (found.reason, found.seeds_needed) {
        (Reason::NoneBetter, Some(seeds)) if seeds <= MOST_SEEDS => (
            format!("About {}", counted(seeds, "seed")),
            format!("for {leader}, if its difference stays as it is: {}", more_seeds(seeds)),
        ),
        (Reason::NoneBetter, Some(seeds)) => (
            "More seeds than it is worth".to_owned(),
            format!(
                "It would take about {} to show whether {leader} differs: a difference that small hardly matters.",
                counted(seeds, "seed")
            ),
        ),
        (Reason::NoneBetter, None) => {
            ("Nothing".to_owned(), format!("{leader} does not differ at all."))
        }
        (Reason::TooFewSeeds | Reason::NotCompared, _) => {
            ("Five seeds or more".to_owned(), more_seeds(5.max(evidence.seeds.len())))
        }
        (Reason::Alone, _) => (
            "A random strategy beside it".to_owned(),
            "<code>--strategies random,…</code> compares.".to_owned(),
        ),
        (Reason::NearChance, _) => (
            "A model that learns".to_owned(),
            "Other features, more epochs or a larger learning rate: R@1 on the test must rise above chance.".to_owned(),
        ),
        (Reason::Better | Reason::AllWorse, _) if found.next == NextBatch::Unclear => {
            let spread = forecast.map_or(0.0, |forecast| forecast.high - forecast.gain);
            (
                "The strategy is settled".to_owned(),
                format!(
                    "Whether one more batch shows is not: single batches vary by ±{spread:.1} points."
                ),
            )
        }
        (Reason::Better | Reason::AllWorse, _) => {
            ("It is settled".to_owned(), "More seeds would not change the choice.".to_owned())
        }
    }
}

/// Formats what a strategy saved at equal R@1, in money or captions, if it saved anything.
fn saving(evidence: &Evidence, arm: &ArmEvidence) -> Option<String> {
    let (captions, _) = arm.saved_captions().filter(|(captions, _)| *captions >= 0.5)?;
    let count = format!("{} captions", grouped(captions.round() as usize));
    Some(match evidence.price {
        Some(price) => format!("{count} or {}", escaped(&evidence.money(captions * price))),
        None => count,
    })
}

fn shown(folder: &Path) -> String {
    escaped(&folder.display().to_string())
}

/// Returns every strategy in a line, by the same measure, best first.
fn strategies(evidence: &Evidence) -> String {
    let mut heads = vec!["Strategy", "R@1-sum", "95 % interval", "Verdict", "Captions saved"];
    heads.push("Next batch adds");
    if evidence.price.is_some() {
        heads.push("Cost per point");
    }
    let caption = format!(
        "Every strategy less {}, best first; R@1 is text and image added",
        evidence.baseline
    );
    let mut table = Table::new(&caption, &heads).named("strategies");
    let scale = Scale::of(std::iter::once(evidence));
    let mut rows: Vec<_> = evidence.compared().collect();
    rows.sort_by(|one, other| other.1.sum.mean.total_cmp(&one.1.sum.mean));
    for (arm, difference) in rows {
        let dash = || "–".to_owned();
        let mean = tenths(difference.sum.mean);
        let range = difference.sum.interval().map(|(low, high)| {
            format!("<small>[{:+.1}, {:+.1}]</small> ", tenths(low), tenths(high))
        });
        let mut cells = vec![
            format!("{mean:+.1}"),
            range.unwrap_or_default() + &scale.strip(&difference.sum),
            verdict(&difference.sum).to_owned(),
        ];
        cells.push(arm.saved_captions().map_or_else(dash, |(captions, _)| {
            let money = evidence.price.map(|price| evidence.money(captions * price));
            let money = money.map(|money| format!("<small> {}</small>", escaped(&money)));
            format!("{captions:+.0}{}", money.unwrap_or_default())
        }));
        let forecast = arm.forecast.as_ref();
        cells.push(forecast.map_or_else(dash, |forecast| {
            let [gain, low, high] = [forecast.gain, forecast.low, forecast.high].map(tenths);
            format!("{gain:+.1}<small> [{low:+.1}, {high:+.1}]</small>")
        }));
        if let Some(price) = evidence.price {
            let clear = forecast.filter(|forecast| forecast.low > 0.0);
            cells.push(clear.map_or_else(dash, |forecast| {
                escaped(&evidence.money(price * forecast.batch as f64 / forecast.gain))
            }));
        }
        let chosen = evidence.recommendation.as_ref().is_some_and(|r| r.strategy == arm.strategy);
        table.marked_row(&arm.strategy.to_string(), &cells, chosen);
    }
    table.finish()
}

pub(super) fn verdict(sum: &Estimate) -> &'static str {
    match sum.verdict() {
        Verdict::Above => "<span class=\"tag good\">better</span>",
        Verdict::Below => "<span class=\"tag bad\">worse</span>",
        Verdict::Unclear => "<span class=\"tag\">not clear</span>",
        Verdict::TooFewSeeds => "<span class=\"tag\">too few seeds</span>",
    }
}

/// The common scale of the strips.
pub(super) struct Scale {
    low: f64,
    high: f64,
}

const STRIP: f64 = 120.0;

impl Scale {
    pub(super) fn of<'a>(runs: impl Iterator<Item = &'a Evidence>) -> Self {
        let (mut low, mut high) = (0.0f64, 0.0f64);
        for (_, difference) in runs.flat_map(Evidence::compared) {
            let sum = difference.sum;
            let (from, to) = sum.interval().unwrap_or((sum.mean, sum.mean));
            (low, high) = (low.min(from), high.max(to));
        }
        let margin = (0.04 * (high - low)).max(1e-9);
        Scale { low: low - margin, high: high + margin }
    }

    /// Draws an interval around zero. The numbers stand beside it.
    pub(super) fn strip(&self, sum: &Estimate) -> String {
        let at = |value: f64| STRIP * (value - self.low) / (self.high - self.low);
        let (zero, mean) = (at(0.0), at(sum.mean));
        let class = match sum.verdict() {
            Verdict::Above => "good",
            Verdict::Below => "bad",
            _ => "",
        };
        let range = sum.interval().map(|(low, high)| {
            format!("<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"7\" y2=\"7\"/>", at(low), at(high))
        });
        format!(
            "<svg class=\"strip {class}\" viewBox=\"0 0 {STRIP} 14\" aria-hidden=\"true\">\
             <line class=\"zero\" x1=\"{zero:.1}\" x2=\"{zero:.1}\" y1=\"0\" y2=\"14\"/>{}\
             <circle cx=\"{mean:.1}\" cy=\"7\" r=\"3.2\"/></svg>",
            range.unwrap_or_default()
        )
    }
}

/// Returns the comparisons in sentences, and how it is decided.
fn in_words(evidence: &Evidence, id: &str) -> String {
    let mut html = String::new();
    let answers = words::answer(evidence);
    if answers.is_empty() {
        if let Some(arm) = evidence.arms.first().filter(|arm| !arm.r1().is_empty()) {
            let last = arm.r1().last().map_or(0.0, |recalls| recalls.both.mean);
            let _ = writeln!(
                html,
                "<p>After {} of {} batches {} reached {last:.1} of R@1 (text and image added).</p>",
                arm.r1().len() - 1,
                evidence.rounds,
                escaped(&arm.strategy.to_string())
            );
        }
        return html;
    }
    // With many strategies, the table gives each answer.
    let many = words::in_short(evidence).filter(|_| answers.len() > ANSWERS);
    let said: Vec<String> = many.map_or(answers, |many| vec![many]);
    let items: String = said.iter().map(|answer| format!("<li>{}</li>", escaped(answer))).collect();
    let controls = words::controls(evidence);
    let controls = controls.map_or(String::new(), |said| format!("<p>{}</p>", escaped(&said)));
    let _ = writeln!(
        html,
        "<details id=\"{id}\"><summary>In words, and how it is decided</summary>\
         <ul class=\"answers\">{items}</ul><p>One measure decides the headline, this table and whether to \
         stop: <strong>R@1, text and image added</strong>, the percentage of test queries whose right \
         answer comes first, for images that look for their captions and for captions that look for their \
         image. Its sum over all rounds (the R@1-sum) tells which strategy is better; its forecast tells \
         what the next batch adds. Other measures on this page, such as ranks, are second opinions and \
         decide nothing. In brackets: 95 % simultaneous intervals over seeds, each strategy \
         compared with the same seed of the other; in 95 % of experiments all of them hold at once. {}</p>\
         {controls}</details>",
        escaped(&evidence.hold_for())
    );
    html
}
