//! Results as text for the terminal.

use std::fmt::Write;

use super::Evidence;
use crate::numbers::signed;

impl Evidence {
    /// Summarises the experiment in a line, with missing parts: `run: scenes (synthetic), 3 seeds`.
    pub fn summary(&self) -> String {
        let synthetic = if self.synthetic { " (synthetic: made up by a program)" } else { "" };
        let asked = self.seeds.len();
        let finished = self.arms.iter().map(|arm| arm.finished.len()).min().unwrap_or(0);
        let seeds = match (finished == asked, asked) {
            (true, 1) => "one seed: no intervals".to_owned(),
            (true, _) => format!("{asked} seeds, 95 % intervals"),
            (false, _) => format!("{finished} of {asked} seeds finished"),
        };
        format!("{}: {}{synthetic}, {}, {seeds}", self.label, self.dataset, self.model)
    }

    /// Formats R@1 by round like the paper's tables, with the difference to the baseline. There is
    /// one table per test.
    pub fn table(&self) -> String {
        if self.other_tests.is_empty() {
            return self.own_table();
        }
        let all = std::iter::once(self).chain(&self.other_tests);
        all.map(|test| format!("{}\n{}", test.test.manner(), test.own_table())).collect()
    }

    fn own_table(&self) -> String {
        let name = |arm: &super::ArmEvidence| arm.strategy.to_string();
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
            let row = |value: &dyn Fn(&super::Recalls) -> f64| -> String {
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
}
