//! The paired item that is most like a pick.

use crate::centred::{Centred, Cosines, mean_of};
use crate::problem::{PAIRED_FEATURES, POOL_FEATURES};
use crate::top::{Field, kth_largest};
use crate::{Error, Near, Neighbour, Picks, Problem, Progress, Vectors};

/// Adds to every pick the paired item with the largest cosine of features less the mean of the paired ones, if reasons
/// are wanted; ties go to the lower pair.
pub(super) fn with_nearest_paired(
    mut picks: Picks,
    problem: &Problem,
    progress: &dyn Progress,
) -> Result<Picks, Error> {
    let features = problem.features()?;
    if problem.explain() == 0 || features.paired.rows() == 0 {
        return Ok(picks);
    }
    let picked = Vectors::new(features.pool.gather(&picks.indices()), POOL_FEATURES)?;
    let paired = Vectors::new(features.paired.clone(), PAIRED_FEATURES)?;
    let rows: Vec<u32> = (0..paired.len() as u32).collect();
    let columns: Vec<u32> = (0..picked.len() as u32).collect();
    let mean = mean_of(&[(&paired, &rows)], paired.dim());
    let [picked, paired] =
        [picked, paired].map(|own| Centred::new(own.matrix(), &mean, problem.device()));
    let field = Field { rows: &rows, group_of_row: &|row| row, barred: &|_| None };
    progress.start("nearest pairs", rows.len() as u64 * columns.len() as u64);
    let found = kth_largest(&Cosines::new(&paired, &picked), &field, &columns, 1, progress)?;
    for (pick, entry) in picks.picks.iter_mut().zip(found) {
        let near =
            entry.map(|entry| Near { item: Neighbour::Paired(entry.row), value: entry.value });
        pick.near.splice(0..0, near);
    }
    Ok(picks)
}
