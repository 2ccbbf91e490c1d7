//! The k-th largest similarity of every column, exactly.

use rayon::prelude::*;

use crate::error::unless_stopped;
use crate::similarity::{Similarity, exact_rows, exact_values, row_block};
use crate::{Error, Progress};

/// A row and its exact similarity to the column in question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) value: f64,
    pub(crate) row: u32,
    group: u32,
}

impl Entry {
    /// Whether another row comes before this one: its value is larger, or equal in a lower row.
    fn loses_to(&self, value: f64, row: u32) -> bool {
        value > self.value || (value == self.value && row < self.row)
    }
}

/// The rows that count, and their groups.
pub(crate) struct Field<'a> {
    /// Row indices.
    pub(crate) rows: &'a [u32],
    /// Rows of one group count once, with their largest value.
    pub(crate) group_of_row: &'a (dyn Fn(u32) -> u32 + Sync),
    /// The group that a column ignores.
    pub(crate) barred: &'a (dyn Fn(u32) -> Option<u32> + Sync),
}

/// Maximum number of columns searched together.
pub(crate) const COLUMNS_AT_ONCE: usize = 16384;

/// Rows compared in full before the search begins.
const SEEDS: usize = 8;

/// The k-th largest of the field's values for each column, ties to the lower row; `None` where a
/// column has fewer than `k` groups.
pub(crate) fn kth_largest(
    similarity: &dyn Similarity,
    field: &Field<'_>,
    columns: &[u32],
    k: usize,
    progress: &dyn Progress,
) -> Result<Vec<Option<Entry>>, Error> {
    let mut out = Vec::with_capacity(columns.len());
    // Columns in chunks, so that neither their codes nor their k entries outgrow memory.
    let chunk = (COLUMNS_AT_ONCE / k.div_ceil(64)).max(256);
    for columns in columns.chunks(chunk) {
        let mut search = Search { field, columns, k, best: vec![Vec::new(); columns.len()] };
        search.seed(similarity, progress)?;
        search.run(similarity, progress)?;
        out.extend(search.best.iter().map(|best| (best.len() == k).then(|| best[k - 1])));
    }
    Ok(out)
}

struct Search<'a> {
    field: &'a Field<'a>,
    columns: &'a [u32],
    k: usize,
    /// Per column at most `k` entries of different groups, best first.
    best: Vec<Vec<Entry>>,
}

impl Search<'_> {
    fn seeds(&self) -> usize {
        self.field.rows.len().min(SEEDS.max(2 * self.k))
    }

    /// Sets a first lower bound. Any k groups give one; a spread of rows gives a fair one.
    fn seed(&mut self, similarity: &dyn Similarity, progress: &dyn Progress) -> Result<(), Error> {
        let (rows, count) = (self.field.rows, self.seeds());
        let seeds: Vec<u32> = (0..count).map(|i| rows[i * rows.len() / count]).collect();
        for seeds in seeds.chunks(SEEDS) {
            unless_stopped(progress)?;
            let values: Result<Vec<Vec<f64>>, Error> =
                seeds.par_iter().map(|&row| exact_values(similarity, row, self.columns)).collect();
            for (&row, values) in seeds.iter().zip(values?) {
                for (column, value) in values.into_iter().enumerate() {
                    self.offer(column, row, value);
                }
            }
        }
        Ok(())
    }

    /// Searches for rows above the entries so far, in waves; each wave raises the cuts for the
    /// next.
    fn run(&mut self, similarity: &dyn Similarity, progress: &dyn Progress) -> Result<(), Error> {
        let sieve = similarity.sieve(self.columns, None)?;
        let threads = rayon::current_num_threads();
        let at_once = row_block(&*sieve);
        let (mut wave, largest) = (2 * self.seeds(), 8 * at_once * threads);
        let mut rest = self.field.rows;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(wave.min(rest.len()));
            let worst: Vec<Option<Entry>> =
                self.best.iter().map(|best| best.get(self.k - 1).copied()).collect();
            // One step below the k-th, so that equal values of lower rows are found too.
            let cut = |worst: &Option<Entry>| worst.map_or(f64::NEG_INFINITY, |w| w.value);
            let cuts: Vec<f64> = worst.iter().map(|worst| cut(worst).next_down()).collect();
            let block = now.len().div_ceil(threads).clamp(1, at_once);
            let found: Result<Vec<_>, Error> = now
                .par_chunks(block)
                .map(|rows| {
                    unless_stopped(progress)?;
                    let pairs = sieve.above(rows, &cuts)?;
                    let mut entries = Vec::with_capacity(pairs.len());
                    exact_rows(similarity, rows, self.columns, &pairs, |row, pairs, values| {
                        let row = rows[row as usize];
                        let offers = pairs.iter().zip(values).map(|(p, &v)| (p.1, row, v));
                        // Many values can tie; keep only those that could enter.
                        entries.extend(offers.filter(|&(column, row, value)| {
                            worst[column as usize].is_none_or(|worst| worst.loses_to(value, row))
                        }));
                    })?;
                    progress.advance(rows.len() as u64 * self.columns.len() as u64);
                    Ok(entries)
                })
                .collect();
            for (column, row, value) in found?.into_iter().flatten() {
                self.offer(column as usize, row, value);
            }
            rest = later;
            wave = largest.min(2 * wave);
        }
        Ok(())
    }

    fn offer(&mut self, column: usize, row: u32, value: f64) {
        let group = (self.field.group_of_row)(row);
        if (self.field.barred)(self.columns[column]) == Some(group) {
            return;
        }
        let best = &mut self.best[column];
        let better = |old: &Entry| old.loses_to(value, row);
        if best.len() == self.k && !better(&best[self.k - 1]) {
            return;
        }
        if let Some(old) = best.iter().position(|entry| entry.group == group) {
            if !better(&best[old]) {
                return;
            }
            best.remove(old);
        } else if best.len() == self.k {
            best.pop();
        }
        let place = best.partition_point(|old| !better(old));
        best.insert(place, Entry { value, row, group });
    }
}
