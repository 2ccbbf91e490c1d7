//! Results as text for the terminal.

use std::fmt::Write;

use super::{ArmEvidence, Difference, Evidence, Recalls, Refused};
use crate::Splits;
use crate::numbers::{grouped, signed, signed_fine, worth};
use crate::statistics::{Estimate, FEWEST, Verdict};

impl Evidence {
    /// Summarises the experiment in a line, with missing parts: `run: scenes (synthetic), 3 seeds`.
    pub fn summary(&self) -> String {
        let synthetic = if self.synthetic { " (synthetic: made up by a program)" } else { "" };
        let asked = self.seeds.len();
        let finished = self.arms.iter().map(|arm| arm.finished.len()).min().unwrap_or(0);
        let seeds = match (finished == asked, asked) {
            (true, 1) => "one seed: no intervals".to_owned(),
            (true, _) => format!("{asked} seeds, 95 % simultaneous intervals"),
            (false, _) => format!("{finished} of {asked} seeds finished"),
        };
        let world = self.world.as_ref();
        let world = world.map_or(String::new(), |world| format!(" (pool: {})", world.in_words()));
        let about = self.test.about().map_or(String::new(), |about| format!(", {about}"));
        format!(
            "{}: {}{synthetic}{world}, {}, {seeds}{about}",
            self.label, self.dataset, self.model
        )
    }

    /// Formats R@1 by round like the paper's tables, with the difference to the baseline, then ranks
    /// after the last round and the verdicts. There is one table per test.
    pub fn table(&self) -> String {
        let own = |test: &Self| test.recall_table() + &test.rank_table() + &test.verdicts();
        if self.other_tests.is_empty() {
            return own(self) + &self.refusals();
        }
        let all = std::iter::once(self).chain(&self.other_tests);
        let tables: String =
            all.map(|test| format!("{}\n{}", test.test.manner(), own(test))).collect();
        tables + &self.refusals()
    }

    /// Says how many picks of every strategy could not be captioned, if there are any.
    fn refusals(&self) -> String {
        let said = self.refused_in_words();
        if said.is_empty() { said } else { format!("\n{said}\n") }
    }

    /// Says how many picks of every strategy could not be captioned, in a line, and warns of those of
    /// which they are many, in a line each. Empty if there are none.
    pub fn refused_in_words(&self) -> String {
        if self.arms.iter().all(|arm| arm.refused.refused == 0) {
            return String::new();
        }
        let share = |arm: &ArmEvidence| {
            let Refused { picks, refused } = arm.refused;
            format!("{} {} of {}", arm.strategy, grouped(refused), grouped(picks))
        };
        let all: Vec<String> = self.arms.iter().map(share).collect();
        let mut text = format!(
            "Picks that could not be captioned, paid for like the others: {}.",
            all.join(", ")
        );
        for arm in self.arms.iter().filter(|arm| arm.refused.is_much()) {
            let Refused { picks, refused } = arm.refused;
            let _ = write!(
                text,
                "\nWarning: {} of {} picks by {} could not be captioned.",
                grouped(refused),
                grouped(picks),
                arm.strategy
            );
        }
        text
    }

    fn recall_table(&self) -> String {
        let name = |arm: &ArmEvidence| self.compared_name(arm);
        let widths = self.arms.iter().map(|arm| name(arm).chars().count());
        let width = widths.max().unwrap_or(0).max("strategy".len());
        let columns = 6 * (self.rounds + 1) + 1;
        let mut text =
            format!("{:width$} |{:^columns$}|{:^columns$}|\n", "", "text R@1", "image R@1");
        let rounds: String =
            (0..=self.rounds).map(|at| format!("{:>6}", format!("e={at}"))).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:width$} |{rounds} |{rounds} |{:>8}  vs {}",
            "strategy", "R@1-sum", self.baseline
        );
        for arm in &self.arms {
            let row = |value: &dyn Fn(&Recalls) -> f64| -> String {
                let cell =
                    |at| arm.r1().get(at).map_or("-".to_owned(), |r| format!("{:.1}", value(r)));
                (0..=self.rounds).map(|at| format!("{:>6}", cell(at))).collect()
            };
            let (of_text, of_image) = (row(&|r| r.text.mean), row(&|r| r.image.mean));
            let sum = arm.recall.first().and_then(|recall| recall.sum);
            let sum = sum.map_or("-".to_owned(), |sum| format!("{:.1}", sum.mean));
            let difference = arm.difference.as_ref().map(|difference| signed(&difference.sum));
            // Mark means over fewer seeds: they are not comparable.
            let last: Vec<String> = difference.into_iter().chain(self.fewer_seeds(arm)).collect();
            let line = format!(
                "{:width$} |{of_text} |{of_image} |{sum:>8}  {}",
                name(arm),
                last.join(", ")
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }

    /// Formats mean log ranks and mean reciprocal ranks after the last round, if any strategy is there.
    fn rank_table(&self) -> String {
        let known = |arm: &&ArmEvidence| !arm.log_rank.is_empty();
        let arms: Vec<&ArmEvidence> = self.arms.iter().filter(known).collect();
        let last = |rounds: &[Recalls]| rounds.get(self.rounds).copied();
        if arms.iter().all(|arm| last(&arm.log_rank).is_none()) {
            return String::new();
        }
        let width = arms.iter().map(|arm| self.compared_name(arm).chars().count());
        let width = width.max().unwrap_or(0).max("strategy".len());
        let mut text = format!(
            "\n{:width$} | mean log rank  | reciprocal rank | worth in random\n\
             {:width$} |   text  image  |   text  image   | captions each        log rank vs {}\n",
            format!("e={}", self.rounds),
            "strategy",
            self.baseline
        );
        for arm in arms {
            let cell =
                |of: Option<Estimate>| of.map_or("-".to_owned(), |e| format!("{:.3}", e.mean));
            let (log, reciprocal) = (last(&arm.log_rank), last(&arm.reciprocal_rank));
            let difference = arm.difference.as_ref();
            let known = difference.and_then(|difference| difference.worth);
            let of_arm = match &known {
                Some(known) => worth(known),
                None if self.baseline.holds(&arm.strategy) => "1 by definition".to_owned(),
                None => "cannot be told".to_owned(),
            };
            let line = format!(
                "{:width$} | {:>6} {:>6}  | {:>6} {:>6}   | {of_arm:<20} {}",
                self.compared_name(arm),
                cell(log.map(|r| r.text)),
                cell(log.map(|r| r.image)),
                cell(reciprocal.map(|r| r.text)),
                cell(reciprocal.map(|r| r.image)),
                difference.map_or(String::new(), |less| signed_fine(&less.last_log_rank)),
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }

    /// Says in words what the intervals tell, how many seeds would tell more, and what intervals hold for.
    fn verdicts(&self) -> String {
        let compared = self.arms.iter().filter_map(|arm| Some((arm, arm.difference.as_ref()?)));
        let mut text = String::new();
        for (arm, difference) in compared {
            let _ = writeln!(text, "{}: {}", self.compared_name(arm), difference.in_words());
        }
        if text.is_empty() { text } else { format!("\n{text}{}\n", self.hold_for()) }
    }

    /// Describes what the intervals of differences hold for.
    pub fn hold_for(&self) -> String {
        let known = |arm: &ArmEvidence| {
            arm.difference.as_ref().is_some_and(|difference| difference.by_sum.new_images.is_some())
        };
        match (self.splits, self.arms.iter().any(known)) {
            (Splits::Redraw, _) => {
                "Intervals hold for all strategies at once, and for new seeds and new test images: \
                 every seed drew its own."
            }
            (Splits::Dataset, true) => {
                "Intervals hold for all strategies at once, for new seeds on these test images; \
                 those marked new images hold for other test images of the same number too."
            }
            (Splits::Dataset, false) => {
                "Intervals hold for all strategies at once, for new seeds on these test images."
            }
        }
        .to_owned()
    }
}

impl Difference {
    /// Says what the interval of the mean log rank tells: "not clear by ranks; ...".
    pub fn in_words(&self) -> String {
        let mut words = match (self.verdict(), self.null_control) {
            (Verdict::TooFewSeeds, _) => {
                return format!(
                    "too few seeds for a verdict ({}, of at least {FEWEST})",
                    self.seeds
                );
            }
            (Verdict::Above, false) => "better by ranks",
            (Verdict::Below, false) => "worse by ranks",
            (Verdict::Unclear, false) => "not clear by ranks",
            (Verdict::Unclear, true) => "not told from the other random ones, as it should be",
            (_, true) => "told from the other random ones: chance does that in 5 % of experiments",
        }
        .to_owned();
        if let Some(seeds) = self.by_log_rank.seeds_needed.filter(|_| !self.null_control) {
            words += &format!("; a difference of this size takes about {} seeds", grouped(seeds));
        }
        if let Some(p) = self.by_log_rank.sign_flip {
            words += &format!("; sign flips p = {p:.3}");
        }
        if let Some(wider) = self.by_log_rank.new_images {
            words += &format!("; new images {}", signed_fine(&wider));
        }
        words
    }
}
