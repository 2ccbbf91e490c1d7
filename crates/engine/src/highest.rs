//! The highest similarities of every row, and the columns that a row misses by least, exactly.

use rayon::prelude::*;

use crate::error::unless_stopped;
use crate::similarity::exact_rows;
use crate::{Error, Progress, ROW_BLOCK, Similarity};

/// Columns of a tile.
const COLUMNS: usize = 512;

/// For each row, what `of_row` makes of its `count` highest similarities to `columns`, highest first.
/// There are fewer if `columns` are.
pub(crate) fn highest(
    similarity: &dyn Similarity,
    rows: &[u32],
    columns: &[u32],
    count: usize,
    of_row: impl Fn(&[f64]) -> f64 + Sync,
    progress: &dyn Progress,
) -> Result<Vec<f64>, Error> {
    by_block((rows, ROW_BLOCK), columns, progress, |rows, found| {
        let pairs = pairs_of(highest_of_block(similarity, rows, columns, count)?);
        let mut highest = Vec::new();
        exact_rows(similarity, rows, columns, &pairs, |row, _, values| {
            highest.clear();
            highest.extend_from_slice(values);
            highest.sort_unstable_by(|a, b| b.total_cmp(a));
            highest.truncate(count);
            found[row as usize] = of_row(&highest);
        })
    })
}

/// One number per row, by blocks of `at_once` rows on all threads. They all go to one array, so that
/// a large pool takes no more than that.
pub(crate) fn by_block(
    (rows, at_once): (&[u32], usize),
    columns: &[u32],
    progress: &dyn Progress,
    of_block: impl Fn(&[u32], &mut [f64]) -> Result<(), Error> + Sync,
) -> Result<Vec<f64>, Error> {
    let mut found = vec![f64::MIN; rows.len()];
    let block = |(rows, found): (&[u32], &mut [f64])| -> Result<(), Error> {
        unless_stopped(progress)?;
        of_block(rows, found)?;
        progress.advance(rows.len() as u64 * columns.len() as u64);
        Ok(())
    };
    rows.par_chunks(at_once).zip(found.par_chunks_mut(at_once)).try_for_each(block)?;
    Ok(found)
}

fn highest_of_block(
    similarity: &dyn Similarity,
    rows: &[u32],
    columns: &[u32],
    count: usize,
) -> Result<Vec<Candidates>, Error> {
    let mut candidates = vec![Candidates::new(count.min(columns.len())); rows.len()];
    let mut values = vec![0.0; rows.len() * COLUMNS.min(columns.len())];
    for (part, columns) in columns.chunks(COLUMNS).enumerate() {
        let values = &mut values[..rows.len() * columns.len()];
        similarity.tile(rows, columns, values)?;
        let error = similarity.tile_error(rows, columns);
        for (candidates, values) in candidates.iter_mut().zip(values.chunks_exact(columns.len())) {
            for (at, &value) in values.iter().enumerate() {
                candidates.offer((part * COLUMNS + at) as u32, f64::from(value), error);
            }
        }
    }
    Ok(candidates)
}

/// The pairs to compare exactly, by positions in rows and columns, in ascending order.
fn pairs_of(candidates: Vec<Candidates>) -> Vec<(u32, u32)> {
    let of_row = |(row, candidates): (u32, Candidates)| {
        candidates.places().into_iter().map(move |at| (row, at))
    };
    (0..).zip(candidates).flat_map(of_row).collect()
}

/// For each row, its similarity to the column whose threshold it misses by least, less that
/// threshold: at most 0. Similarities above their threshold, which guards ignore, do not count; a
/// row without any other gets the lowest number.
pub(crate) fn nearest_misses(
    similarity: &dyn Similarity,
    rows: &[u32],
    columns: &[u32],
    thresholds: &[f64],
    progress: &dyn Progress,
) -> Result<Vec<f64>, Error> {
    by_block((rows, ROW_BLOCK), columns, progress, |rows, found| {
        found.copy_from_slice(&misses_of_block(similarity, rows, columns, thresholds)?);
        Ok(())
    })
}

fn misses_of_block(
    similarity: &dyn Similarity,
    rows: &[u32],
    columns: &[u32],
    thresholds: &[f64],
) -> Result<Vec<f64>, Error> {
    let mut candidates = vec![Candidates::new(1); rows.len()];
    let mut values = vec![0.0; rows.len() * COLUMNS.min(columns.len())];
    for (part, of_part) in columns.chunks(COLUMNS).enumerate() {
        let values = &mut values[..rows.len() * of_part.len()];
        similarity.tile(rows, of_part, values)?;
        let (first, error) = (part * COLUMNS, similarity.tile_error(rows, of_part));
        let limits = limits(&thresholds[first..][..of_part.len()], error);
        for (candidates, values) in candidates.iter_mut().zip(values.chunks_exact(of_part.len())) {
            candidates.offer_misses(first, values, &limits);
        }
    }
    nearest_of(similarity, rows, columns, thresholds, candidates)
}

/// The same for the rows that are wanted, whose similarities to all columns are `seen`, as good as
/// tiles. Other rows get the lowest number.
pub(crate) fn misses_seen(
    similarity: &dyn Similarity,
    (rows, wanted): (&[u32], &[bool]),
    columns: &[u32],
    thresholds: &[f64],
    seen: &[f32],
) -> Result<Vec<f64>, Error> {
    let mut candidates = vec![Candidates::new(1); rows.len()];
    let limits = limits(thresholds, similarity.tile_error(rows, columns));
    let of_rows = candidates.iter_mut().zip(seen.chunks_exact(columns.len().max(1)));
    for ((candidates, values), _) in of_rows.zip(wanted).filter(|(_, wanted)| **wanted) {
        candidates.offer_misses(0, values, &limits);
    }
    nearest_of(similarity, rows, columns, thresholds, candidates)
}

/// Thresholds with the error of differences to them, rounding included.
fn limits(thresholds: &[f64], error: f64) -> Vec<(f64, f64)> {
    let error = |threshold: f64| {
        let rounding = f64::EPSILON * threshold.abs();
        error * (1.0 + f64::EPSILON) + 2.0 * rounding
    };
    thresholds.iter().map(|&threshold| (threshold, error(threshold))).collect()
}

/// The nearest misses among candidates, exactly.
fn nearest_of(
    similarity: &dyn Similarity,
    rows: &[u32],
    columns: &[u32],
    thresholds: &[f64],
    candidates: Vec<Candidates>,
) -> Result<Vec<f64>, Error> {
    let mut nearest = vec![f64::MIN; rows.len()];
    exact_rows(similarity, rows, columns, &pairs_of(candidates), |row, pairs, values| {
        let misses =
            pairs.iter().zip(values).map(|(&(_, at), value)| value - thresholds[at as usize]);
        nearest[row as usize] = misses.filter(|miss| *miss <= 0.0).fold(f64::MIN, f64::max);
    })?;
    Ok(nearest)
}

/// Columns that may be among the highest of a row, by approximate values.
#[derive(Clone)]
struct Candidates {
    count: usize,
    /// Lower bounds of the highest values so far, highest first.
    lowest: Vec<f64>,
    /// Upper bounds of all that may be as high.
    above: Vec<(u32, f64)>,
}

impl Candidates {
    fn new(count: usize) -> Self {
        Candidates { count, lowest: Vec::with_capacity(count + 1), above: Vec::new() }
    }

    fn offer(&mut self, at: u32, value: f64, error: f64) {
        // A value that overflows single precision bounds nothing: the exact one decides.
        let (low, high) = match value.is_finite() {
            true => (value - error, value + error),
            false => (f64::NEG_INFINITY, f64::INFINITY),
        };
        if self.lowest.len() == self.count && high < self.lowest[self.count - 1] {
            return;
        }
        self.above.push((at, high));
        let place = self.lowest.partition_point(|&other| other >= low);
        self.lowest.insert(place, low);
        self.lowest.truncate(self.count);
    }

    /// Takes the similarities of consecutive columns from `first` on into account.
    fn offer_misses(&mut self, first: usize, values: &[f32], limits: &[(f64, f64)]) {
        for (at, (&value, &(threshold, error))) in (first..).zip(values.iter().zip(limits)) {
            self.offer_miss(at as u32, f64::from(value) - threshold, error);
        }
    }

    /// Like [`offer`](Self::offer), for values that count only if they are at most 0.
    fn offer_miss(&mut self, at: u32, value: f64, error: f64) {
        if value.is_finite() && value + error <= 0.0 {
            self.offer(at, value, error);
        } else if !value.is_finite() || value - error <= 0.0 {
            // Only the exact value tells whether it counts, so it rules out no other.
            self.above.push((at, f64::INFINITY));
        }
    }

    /// Ascending positions of the columns to compare exactly.
    fn places(self) -> Vec<u32> {
        let cut = self.lowest.last().copied().unwrap_or(f64::NEG_INFINITY);
        self.above.into_iter().filter(|&(_, high)| high >= cut).map(|(at, _)| at).collect()
    }
}
