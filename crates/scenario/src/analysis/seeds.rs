//! Seeds behind the means of a strategy, while not all have finished.

use super::{ArmEvidence, Evidence};

impl Evidence {
    /// Describes the seeds of a strategy if it has fewer than another one, or not the same in all
    /// rounds. Its means are then not comparable.
    pub fn fewer_seeds(&self, arm: &ArmEvidence) -> Option<String> {
        let most = self.arms.iter().map(|arm| arm.seeds().1).max()?;
        match arm.seeds() {
            (fewest, _) if fewest == most => None,
            (1, 1) => Some("1 seed".to_owned()),
            (fewest, own) if fewest == own => Some(format!("{own} seeds")),
            (fewest, own) => Some(format!("{fewest} to {own} seeds")),
        }
    }

    /// Returns whether the means of all strategies are over the same seeds, and so comparable.
    pub fn same_seeds(&self) -> bool {
        let finished = |arm: &ArmEvidence| arm.finished == self.arms[0].finished;
        self.arms.iter().all(|arm| finished(arm) && self.fewer_seeds(arm).is_none())
    }

    /// Returns the name of a strategy, with its number of seeds if it has fewer than another one.
    pub fn name_of(&self, arm: &ArmEvidence) -> String {
        let seeds = self.fewer_seeds(arm).map(|seeds| format!(" ({seeds})"));
        arm.strategy.to_string() + &seeds.unwrap_or_default()
    }
}

impl ArmEvidence {
    /// Returns the smallest and largest number of seeds in a round.
    fn seeds(&self) -> (usize, usize) {
        let counts = || self.r1().iter().map(|recalls| recalls.both.count);
        (counts().min().unwrap_or(0), counts().max().unwrap_or(0))
    }
}
