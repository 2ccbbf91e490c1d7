//! Tables, differences, hard negatives, and forecasts.

use std::fmt::Write;

use nextpair_scenario::Evidence;

use super::super::chart::{Intervals, Lines, MOST_BANDS, Point, Row, Series};
use super::super::page::escaped;
use super::super::words::typographic;
use super::super::{table, words};
use super::Sections;
use super::curves::styles;

impl Sections {
    pub(super) fn recall(&mut self, evidence: &Evidence) {
        let compared = if evidence.same_seeds() {
            "All strategies share e=0. The best of a column is bold, whether or not an \
             interval tells it from the others."
        } else {
            "With the same seed, strategies share e=0; but while the experiment is not finished, rows \
             are means of different seeds. Those of fewer seeds say so, and only the \
             differences below compare like with like."
        };
        let html = format!(
            "{}<details id=\"{}\"><summary>R@5 and R@10</summary>{}{}</details>\
             <p class=\"note\">e counts the batches that were bought. R@K-sum adds text and image \
             over all rounds. {compared}</p>",
            table::recall(evidence, 0),
            self.id("wider"),
            table::recall(evidence, 1),
            table::recall(evidence, 2)
        );
        self.section("recall", "Recall by round", &html);
    }

    pub(super) fn differences(&mut self, evidence: &Evidence, prefix: &str) {
        let compared = evidence.arms.iter().zip(styles(evidence));
        // With many strategies, show the sum alone: the answer is about it.
        let shows_last = evidence.arms.len() <= MOST_BANDS;
        let rows: Vec<Row> = compared
            .filter_map(|(arm, style)| {
                let difference = arm.difference.as_ref()?;
                let mut values = vec![("sum".to_owned(), difference.sum)];
                if shows_last {
                    values.push(("last".to_owned(), difference.rounds.last()?.both));
                }
                let seeds = difference.by_seed.iter().map(|of| (of.seed, of.sum)).collect();
                Some(Row { name: evidence.compared_name(arm), style, values, seeds })
            })
            .collect();
        if rows.is_empty() {
            return;
        }
        let chart = Intervals {
            name: format!("{prefix}differences"),
            title: format!("R@1 less that of {}", evidence.baseline),
            note: format!(
                "points, text and image added; sum: all rounds, {}seeds: the sum of each",
                if shows_last { "last: after the last batch, " } else { "" }
            ),
            rows,
        };
        let figure = self.figure(chart.draw(), "alone", "");
        let html = format!(
            "{}{figure}<p class=\"note\">{} Intervals are those of the largest of all t statistics \
             (Dunnett's comparison with one baseline, for paired seeds). The words follow from the interval of \
             the R@1-sum; the first screen goes by ranks. Seeds needed: those that would tell a difference of this size four times \
             in five. Sign flips: how often differences as large come up if the sign of every seed is \
             drawn, for all strategies at once; it takes eight seeds.</p>",
            table::differences(evidence),
            escaped(&evidence.hold_for())
        );
        self.section("differences", &format!("Differences to {}", evidence.baseline), &html);
    }

    pub(super) fn hard_negatives(&mut self, evidence: &Evidence, prefix: &str) {
        let series: Vec<Series> = (evidence.arms.iter().zip(styles(evidence)))
            .filter_map(|(arm, style)| {
                let shares = arm.hard_negatives.iter().enumerate();
                let point =
                    |(x, share): (usize, &Option<_>)| share.map(|y| Point { x: x as f64, y });
                let points: Vec<Point> = shares.filter_map(point).collect();
                let name = arm.strategy.to_string();
                (!points.is_empty()).then_some(Series { name, style, points })
            })
            .collect();
        if series.is_empty() {
            return;
        }
        let chart = Lines {
            name: format!("{prefix}hard-negatives"),
            title: "Hard negatives in the pool (%)".to_owned(),
            x_label: "batches bought".to_owned(),
            series,
            wide: false,
        };
        // A chart needs more than one point.
        let figure = if chart.series.iter().any(|series| series.points.len() > 1) {
            self.figure(chart.draw(), "", "")
        } else {
            String::new()
        };
        let html = format!(
            "<div class=\"figures\"><div>{}<p class=\"note\">A pool item is hard if the model finds \
             it more similar to the other half of some pair than its rivals are (with top-K: all \
             but K−1 of them). The fewer are \
             left, the less there is to gain by looking for them.{}</p></div>{figure}</div>",
            table::hard_negatives(evidence),
            escaped(&words::without_hit(evidence))
        );
        self.section("hard-negatives", "Hard negatives by round", &html);
    }

    pub(super) fn stop_or_go(&mut self, evidence: &Evidence) {
        let mut html = String::new();
        // Continue with what the first screen recommends, by the same measure.
        let chosen = evidence.recommendation.as_ref();
        let chosen = chosen.and_then(|found| evidence.arm(&found.strategy));
        let Some((arm, forecast)) = chosen.and_then(|arm| Some((arm, arm.forecast.as_ref()?)))
        else {
            let why =
                "No batch was bought yet, or nothing is left to buy: there is nothing to go by.";
            self.section("stop-or-go", "Stop or go", &format!("<p>{why}</p>"));
            return;
        };
        let _ = writeln!(
            html,
            "<p><strong>{}</strong> {}: {}</p>{}",
            escaped(&evidence.headline()),
            escaped(&arm.strategy.to_string()),
            escaped(&typographic(
                &forecast.sentence_in(evidence.price, evidence.currency.as_deref())
            )),
            table::forecasts(evidence)
        );
        let tests = evidence.arms.iter().flat_map(|arm| &arm.backtest);
        let (held, all) =
            tests.fold((0, 0), |(held, all), test| (held + test.within, all + test.seeds));
        if all > 0 {
            let _ = writeln!(
                html,
                "<details id=\"{}\"><summary>Would it have been right? {held} of {all} batches came within \
                 the interval</summary>{}</details>",
                self.id("backtest"),
                table::backtest(evidence)
            );
        }
        html += "<p class=\"note\">Stop or go follows the strategy that the first screen recommends, by the \
                 same measure: the mean log rank of both directions, shown as the geometric mean of the ranks. The gain of a batch is modelled as proportional to the logarithm \
                 of the growth of the paired set, fitted to all batches so far. Where Hard has a \
                 share, the gain per growth goes by the share of hard negatives too: a constant, \
                 and another times the share. That takes at least four batches whose shares \
                 differ, and more gain for more hard negatives. Intervals are predictions of one \
                 further batch of one seed, never narrower than the noise of the test set (for ranks, a bound of it).</p>";
        self.section("stop-or-go", "Stop or go", &html);
    }
}
