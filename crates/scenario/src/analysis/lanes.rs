//! The rounds of pooled experiments, by strategy and seed.

use crate::{Arm, Error, Round, Study};

/// The finished rounds of every strategy and seed.
pub(crate) struct Lanes<'a> {
    /// Number of rounds that all experiments planned.
    pub(crate) rounds: usize,
    /// All seeds, in ascending order.
    pub(crate) seeds: Vec<u64>,
    /// All strategies, in the order of the experiments.
    pub(crate) arms: Vec<Arm>,
    /// Rounds from 0 on without a gap, by strategy and seed.
    lanes: Vec<Vec<Vec<&'a Round>>>,
}

impl<'a> Lanes<'a> {
    /// Collects the rounds of experiments with the same settings.
    pub(crate) fn of(studies: &[&'a Study]) -> Result<Self, Error> {
        let rounds = studies.iter().map(|study| study.experiment.rounds).min().unwrap_or(0);
        let mut seeds: Vec<u64> =
            studies.iter().flat_map(|study| study.experiment.seeds.iter().copied()).collect();
        seeds.sort_unstable();
        seeds.dedup();
        let mut arms: Vec<Arm> = Vec::new();
        for arm in studies.iter().flat_map(|study| &study.experiment.strategies) {
            if !arms.contains(arm) {
                arms.push(*arm);
            }
        }
        let lane = |arm: &Arm, seed: u64| lane(studies, arm, seed, rounds);
        let of_arm = |arm: &Arm| seeds.iter().map(|&seed| lane(arm, seed)).collect();
        let lanes = arms.iter().map(of_arm).collect::<Result<_, _>>()?;
        Ok(Lanes { rounds, seeds, arms, lanes })
    }

    /// Returns the rounds of a strategy, one list per seed.
    pub(crate) fn of_arm(&self, arm: &Arm) -> &[Vec<&'a Round>] {
        let at = self.arms.iter().position(|other| other == arm);
        at.map_or(&[], |at| &self.lanes[at])
    }

    /// Returns all lists of rounds.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Vec<&'a Round>> {
        self.lanes.iter().flatten()
    }

    /// Returns whether a lane has all rounds.
    pub(crate) fn is_whole(&self, lane: &[&Round]) -> bool {
        lane.len() == self.rounds + 1
    }
}

/// Returns the rounds of a strategy and a seed. Several experiments may hold them if their results
/// agree.
fn lane<'a>(
    studies: &[&'a Study],
    arm: &Arm,
    seed: u64,
    rounds: usize,
) -> Result<Vec<&'a Round>, Error> {
    let mut longest: Vec<&Round> = Vec::new();
    for study in studies.iter().filter(|study| study.experiment.strategies.contains(arm)) {
        let lane = study.lane(seed, arm).into_iter().enumerate();
        let known = lane.take_while(|(at, round)| round.round == *at && !round.test.is_empty());
        let lane: Vec<&Round> = known.map(|(_, round)| round).take(rounds + 1).collect();
        if let Some((one, _)) =
            lane.iter().zip(&longest).find(|(one, other)| one.test != other.test)
        {
            let what = format!(
                "round {} of {arm}, seed {seed}, is in another of these runs too, with other \
                 results",
                one.round
            );
            return Err(Error::file(study.folder.path(), what));
        }
        if lane.len() > longest.len() {
            longest = lane;
        }
    }
    Ok(longest)
}
