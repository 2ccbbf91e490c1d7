//! The first screen: what to do, what it brings and costs, how sure that is, and what would settle it.

use std::fmt::Write;
use std::path::Path;

use nextpair_scenario::numbers::{self, grouped, signed, tenths};
use nextpair_scenario::{
    Annotator, ArmEvidence, Estimate, Evidence, Forecast, MOST_SEEDS, NextBatch, Reason,
    Recommendation, Verdict,
};

use super::Sections;
use crate::page::escaped;
use crate::table::Table;
use crate::words::{self, counted, typographic, with_small_interval};

/// Maximum number of strategies with a sentence each.
const ANSWERS: usize = 5;

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
    cell("What would settle it", settle(evidence, found));
    cells
}

fn bring(forecast: Option<&Forecast>, next: NextBatch) -> (String, String) {
    let Some(forecast) = forecast else {
        return ("Unknown".to_owned(), "No batch was bought yet, or nothing is left.".to_owned());
    };
    let [now, expected, best, worst] = forecast.ranks().map(tenths);
    let told = match next {
        NextBatch::Unclear => " It may add nothing: the interval includes the rank of now.",
        _ => "",
    };
    let (reached, r1) = (tenths(forecast.r1.reached), forecast.r1_in_words());
    (
        format!("Rank {expected:.1}"),
        format!(
            "of right answers, between {best:.1} and {worst:.1}; now {now:.1}. R@1 {r1}, now {reached:.1}.{told}"
        ),
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
    let point = match forecast.map(|forecast| forecast.r1) {
        Some(r1) if r1.low > 0.0 => {
            let [gain, high, low] =
                [r1.gain, r1.high, r1.low].map(|gain| escaped(&evidence.money(cost / gain)));
            format!("; {gain} per point of R@1, between {high} and {low}")
        }
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
                format!("Over {seeds} its 95 % interval is better than {baseline}.{saved}"),
            )
        }
        Reason::AllWorse => (
            "Sure".to_owned(),
            format!("Over {seeds} all 95 % intervals are worse than {baseline}."),
        ),
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

fn settle(evidence: &Evidence, found: &Recommendation) -> (String, String) {
    let go_on = found.go_on.as_ref().map_or(String::new(), |flags| {
        let folder = evidence.folders.first().map_or("EXPERIMENT".into(), |folder| shown(folder));
        let flags = flags.split(" --").map(|flag| {
            format!("<em class=\"flag\">--{}</em>", escaped(flag.trim_start_matches("--")))
        });
        let flags: Vec<String> = flags.collect();
        format!(" <code>nextpair run {folder} {}</code>", flags.join(" "))
    });
    let leader = found.leader.map_or(String::new(), |leader| escaped(&leader.to_string()));
    match (found.reason, found.seeds_needed) {
        (Reason::NoneBetter | Reason::TooFewSeeds | Reason::NotCompared, _)
            if evidence.annotator == Annotator::Human =>
        {
            let what = "People are asked once, so seeds cannot settle it: a rehearsal can, or more batches.";
            ("More batches".to_owned(), format!("{what}{go_on}"))
        }
        (Reason::NoneBetter, Some(seeds)) if seeds <= MOST_SEEDS => (
            format!("About {}", counted(seeds, "seed")),
            format!("for {leader}, if its difference stays as it is.{go_on}"),
        ),
        (Reason::NoneBetter, Some(seeds)) => (
            "More seeds than it is worth".to_owned(),
            format!(
                "It would take about {} to show whether {leader} differs: a difference that small hardly matters.{go_on}",
                counted(seeds, "seed")
            ),
        ),
        (Reason::NoneBetter, None) => {
            ("Nothing".to_owned(), format!("{leader} does not differ at all."))
        }
        (Reason::TooFewSeeds | Reason::NotCompared, _) => {
            ("Five seeds or more".to_owned(), go_on)
        }
        (Reason::Alone, _) => (
            "A random strategy beside it".to_owned(),
            format!("<code>--strategies random,…</code> compares.{go_on}"),
        ),
        (Reason::NearChance, _) => (
            "A model that learns".to_owned(),
            "Other features, more epochs or a larger learning rate: R@1 on the test must rise above chance.".to_owned(),
        ),
        (Reason::Better | Reason::AllWorse, _) if found.next == NextBatch::Unclear => {
            ("The strategy is settled".to_owned(), format!("Whether one more batch shows is not.{go_on}"))
        }
        (Reason::Better | Reason::AllWorse, _) => {
            (
                "It is settled".to_owned(),
                format!("More seeds would not change the choice.{go_on}"),
            )
        }
    }
}

/// Formats what a strategy saved, with its interval, in money or captions, if it saved anything.
fn saving(evidence: &Evidence, arm: &ArmEvidence) -> Option<String> {
    let saved = arm.saved_captions().filter(|saved| saved.mean >= 0.5)?;
    let (low, high) = saved.interval()?;
    let [captions, low, high] =
        [saved.mean, low, high].map(|captions| grouped(captions.max(0.0).round() as usize));
    let money = evidence.price.map(|price| evidence.money(saved.mean * price));
    let money = money.map_or(String::new(), |money| format!(", or {}", escaped(&money)));
    Some(format!("{captions} captions [{low}, {high}]{money}"))
}

fn shown(folder: &Path) -> String {
    escaped(&folder.display().to_string())
}

/// Returns every strategy in a line, by the same measure, best first.
fn strategies(evidence: &Evidence) -> String {
    let mut heads = vec!["Strategy", "Worth", "Log rank lower by", "Verdict", "R@1-sum"];
    heads.push("Next batch: rank");
    if evidence.price.is_some() {
        heads.push("Cost per point of R@1");
    }
    let caption = format!(
        "Every strategy beside {}, best first; worth: random captions that one of its captions replaces",
        evidence.baseline
    );
    let mut table = Table::new(&caption, &heads).named("strategies");
    let scale = Scale::of(std::iter::once(evidence));
    let mut rows: Vec<_> = evidence.compared().collect();
    rows.sort_by(|one, other| other.1.gain().mean.total_cmp(&one.1.gain().mean));
    for (arm, difference) in rows {
        let dash = || "–".to_owned();
        let gain = difference.gain();
        let mut cells = vec![
            difference
                .worth
                .map_or_else(dash, |worth| with_small_interval(&numbers::worth(&worth))),
            format!("{:+.3} {}", gain.mean, scale.strip(&gain)),
            verdict(&gain).to_owned(),
            with_small_interval(&signed(&difference.sum)),
        ];
        let forecast = arm.forecast.as_ref();
        cells.push(forecast.map_or_else(dash, words::next_ranks));
        if let Some(price) = evidence.price {
            let clear = forecast.filter(|forecast| forecast.r1.low > 0.0);
            cells.push(clear.map_or_else(dash, |forecast| {
                escaped(&evidence.money(price * forecast.batch as f64 / forecast.r1.gain))
            }));
        }
        let chosen = evidence.recommendation.as_ref().is_some_and(|r| r.strategy == arm.strategy);
        table.marked_row(&arm.strategy.to_string(), &cells, chosen);
    }
    table.finish()
}

/// The verdict on a gain.
pub(super) fn verdict(gain: &Estimate) -> &'static str {
    match gain.verdict() {
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
            let gain = difference.gain();
            let (from, to) = gain.interval().unwrap_or((gain.mean, gain.mean));
            (low, high) = (low.min(from), high.max(to));
        }
        let margin = (0.04 * (high - low)).max(1e-9);
        Scale { low: low - margin, high: high + margin }
    }

    /// Draws an interval around zero. The numbers stand beside it.
    pub(super) fn strip(&self, gain: &Estimate) -> String {
        let at = |value: f64| STRIP * (value - self.low) / (self.high - self.low);
        let (zero, mean) = (at(0.0), at(gain.mean));
        let class = match gain.verdict() {
            Verdict::Above => "good",
            Verdict::Below => "bad",
            _ => "",
        };
        let range = gain.interval().map(|(low, high)| {
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
         stop: <strong>the mean log rank of both directions</strong>, of captions that images look for and of \
         images that captions look for. After the last batch it tells which strategy is better, as the random \
         captions that one of its captions is worth; its forecast tells what the next batch adds, as the \
         geometric mean of the ranks. In our experiments it needed about half the seeds of R@1, which stands beside it: the percentage \
         of test queries whose right answer comes first, text and image added; the R@1-sum adds it over all rounds. In brackets: 95 % simultaneous intervals over seeds, each strategy \
         compared with the same seed of the other; in 95 % of experiments all of them hold at once. {}</p>\
         {controls}</details>",
        escaped(&evidence.hold_for())
    );
    html
}
