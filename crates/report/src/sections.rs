//! The sections of the page, in the order of a budget owner's questions.

mod curves;
mod evidence;
mod making;
mod ranks;
mod selection;

use std::fmt::Write;

use nextpair_data::Progress;
use nextpair_scenario::numbers::grouped;
use nextpair_scenario::{Annotator, Evidence, Splits, Study};

use super::Options;
use super::chart::Chart;
use super::page::escaped;
use super::{table, words};
use crate::Error;
use words::{batches, counted};

/// Maximum number of strategies with an answer each.
const ANSWERS: usize = 5;

/// A page under construction.
#[derive(Default)]
pub(super) struct Sections {
    pub(super) html: String,
    /// Suffix of headings for tests other than the first.
    by_test: String,
    pub(super) charts: Vec<Chart>,
    pub(super) left_out: Vec<String>,
}

/// The title of the page.
pub(super) fn title(runs: &[Evidence]) -> String {
    match runs {
        [run] => format!("{}: what each strategy bought", run.dataset),
        _ => "Experiments side by side".to_owned(),
    }
}

/// Returns the prefix of files for a test other than the first.
fn test_prefix(other: &Evidence) -> String {
    format!("{}-folds-", other.test.folds)
}

/// Returns the folds of further tests with results in all experiments.
fn tests_of_all(runs: &[Evidence]) -> Vec<usize> {
    let folds = |run: &Evidence| -> Vec<usize> {
        let known = run.other_tests.iter().filter(|other| other.test.images > 0);
        known.map(|other| other.test.folds).collect()
    };
    let mut all = folds(&runs[0]);
    all.retain(|asked| runs.iter().all(|run| folds(run).contains(asked)));
    all
}

impl Sections {
    /// Adds a section. The heading is plain text.
    fn section(&mut self, heading: &str, html: &str) {
        let heading = escaped(&format!("{heading}{}", self.by_test));
        // Writing to a string cannot fail.
        let _ = writeln!(self.html, "<section><h2>{heading}</h2>\n{html}</section>");
    }

    /// Returns a chart as a figure, and keeps it to be written as a file.
    fn figure(&mut self, chart: Chart, caption: &str) -> String {
        let caption = match caption {
            "" => String::new(),
            caption => format!("<figcaption>{}</figcaption>", escaped(caption)),
        };
        let html = format!("<figure>{}{caption}</figure>\n", chart.inline());
        self.charts.push(chart);
        html
    }

    /// Compares several experiments in one table and one pair of charts.
    pub(super) fn compare(&mut self, runs: &[Evidence]) {
        if runs.len() < 2 {
            return;
        }
        let note = "Runs differ in more than their seeds, so no interval is given for differences \
                    between them.";
        let figures = self.compared_curves(runs, "");
        let html = format!("<p class=\"note\">{note}</p>{}{figures}", table::comparison(runs));
        self.section("All experiments", &html);
        for folds in tests_of_all(runs) {
            let others = runs.iter().flat_map(|run| &run.other_tests);
            let runs: Vec<Evidence> =
                others.filter(|other| other.test.folds == folds).cloned().collect();
            self.by_other_test(&runs[0], |sections| {
                let figures = sections.compared_curves(&runs, &test_prefix(&runs[0]));
                let html = table::comparison(&runs) + &figures;
                sections.section("All experiments", &html);
            });
        }
    }

    /// Adds sections by a test other than the first, and names the test in their headings.
    fn by_other_test(&mut self, other: &Evidence, say: impl FnOnce(&mut Self)) {
        self.by_test = format!(", {}", other.test.manner());
        say(self);
        self.by_test.clear();
    }

    /// Adds all sections about one experiment, or several pooled ones.
    pub(super) fn run(
        &mut self,
        evidence: &Evidence,
        studies: &[Study],
        options: &Options,
        number: Option<usize>,
        progress: &dyn Progress,
    ) -> Result<(), Error> {
        if number.is_some() {
            let _ = writeln!(self.html, "<h2 class=\"run\">{}</h2>", escaped(&evidence.label));
        }
        // A number tells files of several experiments apart.
        let prefix = number.map_or(String::new(), |at| format!("{}-", at + 1));
        self.answer(evidence);
        self.data(evidence);
        if evidence.arms.iter().all(|arm| arm.r1().is_empty()) {
            self.making(evidence, studies);
            return Ok(());
        }
        self.curves(evidence, &prefix);
        self.recall(evidence);
        self.ranks(evidence);
        self.differences(evidence, &prefix);
        self.worth(evidence);
        self.saved(evidence);
        for other in &evidence.other_tests {
            let prefix = format!("{prefix}{}", test_prefix(other));
            self.by_other_test(other, |sections| {
                sections.curves(other, &prefix);
                sections.recall(other);
                sections.ranks(other);
                sections.differences(other, &prefix);
                sections.worth(other);
                sections.saved(other);
            });
        }
        self.hard_negatives(evidence, &prefix);
        self.selection(evidence, studies, options, &prefix, progress);
        self.stop_or_go(evidence);
        self.time(evidence);
        self.making(evidence, studies);
        Ok(())
    }

    fn answer(&mut self, evidence: &Evidence) {
        let mut html = String::new();
        if evidence.synthetic {
            html += "<p class=\"loud\"><strong>Synthetic data.</strong> Images and captions were \
                     made up by a program. The numbers show how the method behaves, not what it \
                     would bring on photographs.</p>\n";
        }
        if evidence.arms.iter().all(|arm| arm.r1().is_empty()) {
            html += "<p class=\"lead\">No round is finished yet.</p>\n";
        }
        let answers = words::answer(evidence);
        if let Some((first, others)) = answers.split_first() {
            // With many strategies, the table gives each answer.
            let many = words::in_short(evidence).filter(|_| answers.len() > ANSWERS);
            let lead = many.as_ref().unwrap_or(first);
            let _ = writeln!(html, "<p class=\"lead\">{}</p>", escaped(lead));
            if !others.is_empty() && many.is_none() {
                let items = others.iter().map(|answer| format!("<li>{}</li>", escaped(answer)));
                let _ = writeln!(html, "<ul class=\"answers\">{}</ul>", items.collect::<String>());
            }
            let note = "R@1 is the percentage of test queries whose right answer comes first, \
                            for images looking for their captions (text R@1) and for captions \
                            looking for their image (image R@1). The R@1-sum adds both over all \
                            rounds; it alone decides which strategy is better. In brackets: 95 % \
                            simultaneous intervals over seeds, each strategy compared with the same \
                            seed of the other; in 95 % of experiments all of them hold at once.";
            let hold_for = escaped(&evidence.hold_for());
            let _ = writeln!(html, "<p class=\"note\">{note} {hold_for}</p>");
            if let Some(controls) = words::controls(evidence) {
                let _ = writeln!(html, "<p class=\"note\">{}</p>", escaped(&controls));
            }
        } else if let Some(arm) = evidence.arms.first().filter(|arm| !arm.r1().is_empty()) {
            let last = arm.r1().last().map_or(0.0, |recalls| recalls.both.mean);
            let batches = arm.r1().len() - 1;
            let _ = writeln!(
                html,
                "<p class=\"lead\">After {batches} of {} batches {} reached {last:.1} of R@1 (text \
                 and image added). There is no other strategy to compare it with.</p>",
                evidence.rounds,
                escaped(&arm.strategy.to_string())
            );
        }
        let unfinished = words::unfinished(evidence);
        if !unfinished.is_empty() {
            let all = escaped(&unfinished.join(" "));
            let _ = writeln!(html, "<p class=\"loud\"><strong>Not finished.</strong> {all}</p>");
        }
        let refused = evidence.refused_in_words();
        if !refused.is_empty() {
            let lines: Vec<String> =
                refused.lines().map(|line| escaped(line).to_string()).collect();
            let _ = writeln!(html, "<p class=\"note\">{}</p>", lines.join("<br>"));
        }
        self.section("The answer", &html);
    }

    fn data(&mut self, evidence: &Evidence) {
        let (half, other) = evidence.pool.own_and_other("images", "captions");
        let synthetic = if evidence.synthetic { ", made up by a program" } else { "" };
        let paired = evidence.arms.iter().map(|arm| &arm.paired).max_by_key(|paired| paired.len());
        let at = |paired: Option<&f64>| paired.map_or("–".to_owned(), |n| grouped(*n as usize));
        let test = &evidence.test;
        let mut tested = format!(
            "{}: {}, {}",
            test.split,
            counted(test.images, "image"),
            counted(test.captions, "caption")
        );
        if let Some(about) = test.about() {
            tested = format!("{}: {about}", test.split);
        }
        match &evidence.other_tests[..] {
            [] if test.folds == 1 => {}
            [] => tested += &format!(", in {} parts, averaged", test.folds),
            others => {
                let others: Vec<String> = others.iter().map(|o| o.test.manner()).collect();
                let first = test.manner();
                tested += &format!("; {first}, which decides, and {}", others.join(", "));
            }
        }
        let weights = match evidence.validation_images {
            _ if evidence.averaged_epochs > 0 => {
                format!("the mean of the last {}", counted(evidence.averaged_epochs, "epoch"))
            }
            Some(images) => format!("those that did best on {} of dev", counted(images, "image")),
            None => "those of the last epoch; none were evaluated on dev".to_owned(),
        };
        let annotator = match evidence.annotator {
            Annotator::Oracle => "the dataset itself, which knew all along".to_owned(),
            Annotator::Human => "people".to_owned(),
            Annotator::Noisy(noise) => format!(
                "the dataset, with {:.0} % wrong and {:.0} % exchanged",
                100.0 * noise.wrong,
                100.0 * noise.swapped
            ),
        };
        let seeds = match evidence.seeds.len() {
            1 => "1: no interval can be given".to_owned(),
            seeds => seeds.to_string(),
        };
        let world = evidence.world.as_ref();
        let world = world.map(|world| ("Pool", format!("made of it: {}", world.in_words())));
        let facts = [
            ("Dataset", format!("{}{synthetic}", evidence.dataset)),
            ("Unpaired", format!("{half}; what is bought is {other}")),
            ("Could be paired", counted(evidence.items, "item")),
            (
                "Paired",
                format!(
                    "{} at first, {} after {}",
                    at(paired.and_then(|paired| paired.first())),
                    at(paired.and_then(|paired| paired.last())),
                    batches(paired.map_or(0, |paired| paired.len().saturating_sub(1)))
                ),
            ),
            ("A batch", counted(evidence.next_batch, "item")),
            ("Paired by", annotator),
            ("Model", format!("{}, trained anew in every round", evidence.model)),
            ("Weights", weights),
            ("Tested on", tested),
            (
                "Splits",
                match evidence.splits {
                    Splits::Dataset => "those of the dataset, for all seeds".to_owned(),
                    Splits::Redraw => "drawn anew for every seed, with the same sizes".to_owned(),
                },
            ),
            ("Seeds", seeds),
        ];
        let facts: String = facts[..1]
            .iter()
            .chain(&world)
            .chain(&facts[1..])
            .map(|(what, fact)| format!("<div><dt>{what}</dt><dd>{}</dd></div>", escaped(fact)))
            .collect();
        self.section("What was tried", &format!("<dl class=\"facts\">{facts}</dl>"));
    }
}
