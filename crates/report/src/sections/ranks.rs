//! Ranks beyond recall, and what a chosen caption is worth.

use nextpair_scenario::Evidence;

use super::super::page::escaped;
use super::super::table;
use super::Sections;

impl Sections {
    pub(super) fn ranks(&mut self, evidence: &Evidence) {
        if evidence.arms.iter().all(|arm| arm.log_rank.is_empty()) {
            return;
        }
        let html = format!(
            "{}<details id=\"{}\"><summary>By round</summary>{}</details><p class=\"note\">The mean log rank is the \
             mean natural logarithm of the rank of the right answer, 0 if it always comes first; the \
             mean reciprocal rank is the mean of 1 / rank, 1 if it always does. Both tell of queries whose \
             rank moved without reaching the first place. The mean of the two log ranks decides.</p>",
            table::ranks(evidence),
            self.id("ranks-by-round"),
            table::ranks_by_round(evidence)
        );
        self.section("ranks", "Ranks after the last batch", &html);
    }

    pub(super) fn worth(&mut self, evidence: &Evidence) {
        if evidence.arms.iter().all(|arm| arm.difference.is_none()) {
            return;
        }
        let html = format!(
            "{}<p class=\"note\">The mean log rank of both directions of random captions is fitted by a line \
             over the logarithm of the paired items, one slope for all seeds. A caption of a strategy is \
             worth as many random ones as the line needs to get where the strategy got; random captions are \
             worth 1 by definition, and null controls show how far chance takes that. Intervals are 95 % \
             simultaneous; those of the worth are a jackknife over seeds. {}</p>",
            table::worth(evidence),
            escaped(&evidence.hold_for())
        );
        self.section("worth", "What a chosen caption is worth", &html);
    }
}
