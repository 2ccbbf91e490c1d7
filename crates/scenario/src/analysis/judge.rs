//! Which comparisons are judged together.

use super::Lanes;
use super::compared::{Baseline, Compared};
use super::difference::{Difference, Group};
use super::new_images::RankFiles;
use crate::{Error, Study};

/// Judges the strategies together, and the null controls together. Controls are a check of the method, so
/// they do not widen the intervals of the strategies.
pub(super) fn judge(
    studies: &[&Study],
    lanes: &Lanes<'_>,
    (baseline, compared): (&Baseline, &[Vec<Compared>]),
    test_number: usize,
    error: f64,
) -> Result<Vec<Option<Difference>>, Error> {
    let mut differences = vec![None; lanes.arms.len()];
    let files = RankFiles::of(studies, test_number);
    for null_control in [false, true] {
        let of_group = |at: &usize| {
            !compared[*at].is_empty() && baseline.holds(&lanes.arms[*at]) == null_control
        };
        let group: Vec<usize> = (0..lanes.arms.len()).filter(of_group).collect();
        let parts = |&at: &usize| {
            let others = baseline.of_arm(&lanes.arms[at]);
            let seeds: Vec<u64> = compared[at].iter().map(|seed| seed.seed).collect();
            files.parts((&lanes.arms[at], &others), &seeds, lanes.rounds)
        };
        let judged = Group {
            arms: group.iter().map(|&at| &compared[at][..]).collect(),
            parts: group.iter().map(parts).collect::<Result<_, _>>()?,
            baseline: baseline.arms.len() - usize::from(null_control),
            null_control,
            rounds: lanes.rounds,
            error,
        };
        for (&at, difference) in group.iter().zip(judged.differences()) {
            differences[at] = Some(difference);
        }
    }
    Ok(differences)
}
