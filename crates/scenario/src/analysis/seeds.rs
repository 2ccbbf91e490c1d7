//! Which seeds the numbers of a strategy are of, while not all have finished.

use super::{ArmEvidence, Evidence};

impl Evidence {
    /// The seeds of a strategy in words, where it has fewer than another or not the same in all
    /// rounds: its means cannot be compared with those of the others then.
    pub fn fewer_seeds(&self, arm: &ArmEvidence) -> Option<String> {
        let most = self.arms.iter().map(|arm| arm.seeds().1).max()?;
        match arm.seeds() {
            (fewest, _) if fewest == most => None,
            (1, 1) => Some("1 seed".to_owned()),
            (fewest, own) if fewest == own => Some(format!("{own} seeds")),
            (fewest, own) => Some(format!("{fewest} to {own} seeds")),
        }
    }

    /// Whether the means of all strategies are of the same seeds, so that they can be compared.
    pub fn same_seeds(&self) -> bool {
        let finished = |arm: &ArmEvidence| arm.finished == self.arms[0].finished;
        self.arms.iter().all(|arm| finished(arm) && self.fewer_seeds(arm).is_none())
    }

    /// The name of a strategy, with its seeds where it has fewer than another.
    pub fn name_of(&self, arm: &ArmEvidence) -> String {
        let seeds = self.fewer_seeds(arm).map(|seeds| format!(" ({seeds})"));
        arm.strategy.to_string() + &seeds.unwrap_or_default()
    }
}

impl ArmEvidence {
    /// The fewest and the most seeds that a round is the mean of.
    fn seeds(&self) -> (usize, usize) {
        let counts = || self.r1().iter().map(|recalls| recalls.both.count);
        (counts().min().unwrap_or(0), counts().max().unwrap_or(0))
    }
}
