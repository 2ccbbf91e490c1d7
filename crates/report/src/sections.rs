//! The sections of the page, in the order of a budget owner's questions.

mod cautions;
mod compared;
mod curves;
mod decision;
mod evidence;
mod making;
mod ranks;
mod selection;
mod worths;

use std::fmt::Write;

use nextpair_data::Progress;
use nextpair_scenario::numbers::grouped;
use nextpair_scenario::{Annotator, Evidence, Splits, Study};

use super::Options;
use super::chart::Chart;
use super::page::escaped;
use super::words;
use crate::Error;
use crate::memory::Memory;
use selection::FirstBatch;
use words::{batches, counted};

/// A page under construction.
#[derive(Default)]
pub(super) struct Sections {
    pub(super) html: String,
    /// Suffix of headings for tests other than the first.
    by_test: String,
    /// Prefix of ids: tells experiments and tests apart.
    prefix: String,
    /// The id of the heading of the experiment, of several on the page, with a space after it.
    within: String,
    /// The sections so far, for the list of contents.
    contents: Vec<Entry>,
    /// Number of experiments on the page: they share its pictures.
    experiments: usize,
    pub(super) charts: Vec<Chart>,
    pub(super) left_out: Vec<String>,
}

/// A line of the contents.
struct Entry {
    id: String,
    heading: String,
    /// Whether it begins an experiment, of several on the page.
    is_run: bool,
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
    /// Begins a page about this many experiments.
    pub(super) fn of(experiments: usize) -> Self {
        Sections { experiments, ..Sections::default() }
    }

    /// Adds a section. The id is unique within an experiment; the heading is plain text.
    fn section(&mut self, id: &str, heading: &str, html: &str) {
        let id = format!("{}{id}", self.prefix);
        let heading = format!("{heading}{}", self.by_test);
        let shown = escaped(&heading);
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.html,
            "<section id=\"{id}\" aria-labelledby=\"{}{id}-h\"><h2 id=\"{id}-h\">{shown}\
             <a class=\"anchor\" href=\"#{id}\" aria-label=\"Link to {shown}\">#</a></h2>\n{html}</section>",
            self.within
        );
        self.contents.push(Entry { id, heading, is_run: false });
    }

    /// Returns an id that is unique on the page.
    fn id(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Returns the list of contents.
    pub(super) fn contents(&self) -> String {
        let line = |entry: &Entry| {
            let class = if entry.is_run { " class=\"run\"" } else { "" };
            format!("<li{class}><a href=\"#{}\">{}</a></li>", entry.id, escaped(&entry.heading))
        };
        let lines: String = self.contents.iter().map(line).collect();
        format!(
            "<nav class=\"contents\" aria-label=\"Contents\"><details id=\"contents\" open>\
             <summary>Contents</summary><ol>{lines}</ol></details></nav>\n"
        )
    }

    /// Returns a chart as a figure, and keeps it to be written as a file.
    fn figure(&mut self, chart: Chart, class: &str, caption: &str) -> String {
        let caption = match caption {
            "" => String::new(),
            caption => format!("<figcaption>{}</figcaption>", escaped(caption)),
        };
        let html = format!(
            "<figure class=\"plot {class}\" id=\"chart-{}\">{}{caption}</figure>\n",
            chart.name,
            chart.inline()
        );
        self.charts.push(chart);
        html
    }

    /// Adds sections by a test other than the first, and names the test in their headings.
    fn by_other_test(&mut self, other: &Evidence, say: impl FnOnce(&mut Self)) {
        self.by_test = format!(", {}", other.test.manner());
        let before = self.prefix.clone();
        self.prefix += &test_prefix(other);
        say(self);
        self.prefix = before;
        self.by_test.clear();
    }

    /// Adds all sections about one experiment, or several pooled ones.
    pub(super) fn run(
        &mut self,
        evidence: &Evidence,
        studies: &[Study],
        options: &Options,
        number: Option<usize>,
        making: (&Memory, &dyn Progress),
    ) -> Result<(), Error> {
        // A number tells ids and files of several experiments apart.
        let prefix = number.map_or(String::new(), |at| format!("{}-", at + 1));
        self.prefix = number.map_or(String::new(), |at| format!("e{}-", at + 1));
        if number.is_some() {
            let (id, heading) = (format!("{}experiment", self.prefix), evidence.label.clone());
            let _ = writeln!(self.html, "<h2 class=\"run\" id=\"{id}\">{}</h2>", escaped(&heading));
            self.within = format!("{id} ");
            self.contents.push(Entry { id, heading, is_run: true });
        }
        let first = FirstBatch::of(evidence, studies, options, &prefix, making);
        self.decision(evidence);
        self.bought(first.as_ref());
        self.cautions(studies);
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
        for other in &evidence.other_tests {
            let prefix = format!("{prefix}{}", test_prefix(other));
            self.by_other_test(other, |sections| {
                sections.curves(other, &prefix);
                sections.recall(other);
                sections.ranks(other);
                sections.differences(other, &prefix);
                sections.worth(other);
            });
        }
        self.hard_negatives(evidence, &prefix);
        self.selection(evidence, studies, options, first, making.0);
        self.stop_or_go(evidence);
        self.time(evidence);
        self.making(evidence, studies);
        Ok(())
    }

    fn data(&mut self, evidence: &Evidence) {
        let (half, other) = evidence.pool.own_and_other("images", "captions");
        let synthetic = if evidence.synthetic { ", made up by a program" } else { "" };
        let paired = evidence.arms.iter().map(|arm| &arm.paired).max_by_key(|paired| paired.len());
        let at = |paired: Option<&f64>| paired.map_or("–".to_owned(), |n| grouped(*n as usize));
        let strategies: Vec<String> =
            evidence.arms.iter().map(|arm| arm.strategy.to_string()).collect();
        let test = &evidence.test;
        let mut tested = format!(
            "{}: {}, {}",
            test.split,
            counted(test.images, "image"),
            counted(test.captions, "caption")
        );
        if test.images == 0 {
            // No round is finished.
            tested.clone_from(&test.split);
        }
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
            Annotator::Oracle => "simulated: the captions that the dataset has already".to_owned(),
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
                match paired.filter(|paired| !paired.is_empty()) {
                    Some(paired) => format!(
                        "{} at first, {} after {}",
                        at(paired.first()),
                        at(paired.last()),
                        batches(paired.len() - 1)
                    ),
                    None => format!("nothing yet; planned: {}", batches(evidence.rounds)),
                },
            ),
            ("Strategies", strategies.join(", ")),
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
        self.section("tried", "What was tried", &format!("<dl class=\"facts\">{facts}</dl>"));
    }
}
