//! The interface through which models reach the engine.

use std::sync::Arc;

use crate::{Error, ROW_BLOCK};

/// Similarities between rows (pool items or rivals) and columns (anchors).
///
/// A model provides three things: fast approximate [tiles](Similarity::tile), a proven
/// [bound](Similarity::tile_error) on their error, and the [exact](Similarity::exact) value of
/// single pairs. The engine uses tiles to rule out pairs and exact values for everything it
/// reports, so results do not depend on how tiles are cut, threaded or rounded.
pub trait Similarity: Send + Sync {
    /// Number of rows.
    fn rows(&self) -> usize;

    /// Number of columns.
    fn columns(&self) -> usize;

    /// Writes approximate similarities of `rows` x `columns` to `out`, row by row.
    fn tile(&self, rows: &[u32], columns: &[u32], out: &mut [f32]) -> Result<(), Error>;

    /// Bounds the error of every value of that tile.
    fn tile_error(&self, rows: &[u32], columns: &[u32]) -> f64;

    /// Writes the canonical similarities of one row and some columns to `out`.
    fn exact(&self, row: u32, columns: &[u32], out: &mut [f64]) -> Result<(), Error>;

    /// Writes the canonical similarities of `rows` x `columns` to `out`, row by row. Override it if
    /// there is a faster way than one row at a time.
    fn exact_tile(&self, rows: &[u32], columns: &[u32], out: &mut [f64]) -> Result<(), Error> {
        if columns.is_empty() {
            return Ok(());
        }
        let of_rows = out.chunks_exact_mut(columns.len());
        rows.iter().zip(of_rows).try_for_each(|(&row, out)| self.exact(row, columns, out))
    }

    /// Writes the canonical similarities of pairs to `out`, given by their positions in `rows` and
    /// `columns`, in ascending order. Override it if there is a faster way than one row at a time.
    fn exact_pairs(
        &self,
        rows: &[u32],
        columns: &[u32],
        pairs: &[(u32, u32)],
        out: &mut [f64],
    ) -> Result<(), Error> {
        let mut out = &mut out[..pairs.len()];
        for run in pairs.chunk_by(|a, b| a.0 == b.0) {
            let (own, rest) = out.split_at_mut(run.len());
            let wanted: Vec<u32> =
                run.iter().map(|&(_, column)| columns[column as usize]).collect();
            self.exact(rows[run[0].0 as usize], &wanted, own)?;
            out = rest;
        }
        Ok(())
    }

    /// A high similarity, to which temperatures are relative: 1 for cosines.
    fn scale(&self) -> f64 {
        1.0
    }

    /// Prepares the search for high similarities to `columns`. Override it if there is a faster way
    /// than tiles to rule out pairs.
    ///
    /// `expected` gives for each column, where known, roughly how high a similarity must be to
    /// matter.
    fn sieve<'a>(
        &'a self,
        columns: &'a [u32],
        expected: Option<&[f64]>,
    ) -> Result<Box<dyn Sieve + 'a>, Error> {
        let _ = expected;
        Ok(Box::new(TileSieve::new(self, columns)))
    }
}

/// A search for the pairs whose similarity may be above a cut.
pub trait Sieve: Sync {
    /// Returns positions `(in rows, in columns)` of pairs, in ascending order: every pair whose
    /// exact similarity is above `cuts[column position]`, and possibly others.
    fn above(&self, rows: &[u32], cuts: &[f64]) -> Result<Vec<(u32, u32)>, Error>;

    /// The similarities of the rows that this thread has just searched to all columns, row by row and
    /// as good as [tiles](Similarity::tile), if the sieve still knows them: that saves another pass.
    fn seen(&self, _rows: &[u32]) -> Option<Arc<[f32]>> {
        None
    }

    /// Best number of rows per call. Results do not depend on it.
    fn rows_at_once(&self) -> usize {
        ROW_BLOCK
    }
}

/// Number of rows to give a sieve at once.
pub(crate) fn row_block(sieve: &dyn Sieve) -> usize {
    sieve.rows_at_once().clamp(1, u32::MAX as usize)
}

/// The default sieve, which computes all tiles.
struct TileSieve<'a, S: ?Sized> {
    similarity: &'a S,
    columns: &'a [u32],
}

/// Columns per tile: with the engine's row blocks, half a megabyte of values.
const TILE_COLUMNS: usize = 512;

impl<'a, S: Similarity + ?Sized> TileSieve<'a, S> {
    fn new(similarity: &'a S, columns: &'a [u32]) -> Self {
        TileSieve { similarity, columns }
    }
}

impl<S: Similarity + ?Sized> Sieve for TileSieve<'_, S> {
    fn above(&self, rows: &[u32], cuts: &[f64]) -> Result<Vec<(u32, u32)>, Error> {
        let mut found = Vec::new();
        let mut values = vec![0.0; rows.len() * TILE_COLUMNS.min(self.columns.len())];
        for first in (0..self.columns.len()).step_by(TILE_COLUMNS) {
            let columns = &self.columns[first..self.columns.len().min(first + TILE_COLUMNS)];
            let values = &mut values[..rows.len() * columns.len()];
            self.similarity.tile(rows, columns, values)?;
            let error = self.similarity.tile_error(rows, columns);
            let cuts: Vec<f64> = cuts[first..][..columns.len()].iter().map(|c| c - error).collect();
            for (r, row) in values.chunks_exact(columns.len()).enumerate() {
                for (c, (&value, &cut)) in row.iter().zip(&cuts).enumerate() {
                    // A value that overflows single precision bounds nothing: the exact one
                    // decides.
                    if value as f64 > cut || !value.is_finite() {
                        found.push((r as u32, (first + c) as u32));
                    }
                }
            }
        }
        found.sort_unstable();
        Ok(found)
    }
}

/// The exact similarities of some rows and columns, row by row, each checked to be finite.
pub(crate) fn exact_block(
    similarity: &dyn Similarity,
    rows: &[u32],
    columns: &[u32],
) -> Result<Vec<f64>, Error> {
    let mut values = vec![0.0; rows.len() * columns.len()];
    similarity.exact_tile(rows, columns, &mut values)?;
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(values),
        Some(bad) => Err(Error::SimilarityNotFinite {
            row: rows[bad / columns.len()] as usize,
            column: columns[bad % columns.len()] as usize,
            value: values[bad],
        }),
    }
}

/// The exact similarities of one row and some columns, each checked to be finite.
pub(crate) fn exact_values(
    similarity: &dyn Similarity,
    row: u32,
    columns: &[u32],
) -> Result<Vec<f64>, Error> {
    let mut values = vec![0.0; columns.len()];
    similarity.exact(row, columns, &mut values)?;
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(values),
        Some(bad) => Err(Error::SimilarityNotFinite {
            row: row as usize,
            column: columns[bad] as usize,
            value: values[bad],
        }),
    }
}

/// Calls `visit(row position, column positions, exact values)` for every row that `pairs` names,
/// with the exact similarities of its columns. `pairs` is in ascending order.
pub(crate) fn exact_rows(
    similarity: &dyn Similarity,
    rows: &[u32],
    columns: &[u32],
    pairs: &[(u32, u32)],
    mut visit: impl FnMut(u32, &[(u32, u32)], &[f64]),
) -> Result<(), Error> {
    let mut values = vec![0.0; pairs.len()];
    similarity.exact_pairs(rows, columns, pairs, &mut values)?;
    if let Some(bad) = values.iter().position(|value| !value.is_finite()) {
        let (row, column) = (pairs[bad].0 as usize, pairs[bad].1 as usize);
        let (row, column) = (rows[row] as usize, columns[column] as usize);
        return Err(Error::SimilarityNotFinite { row, column, value: values[bad] });
    }
    let mut values = &values[..];
    for run in pairs.chunk_by(|a, b| a.0 == b.0) {
        let (own, rest) = values.split_at(run.len());
        visit(run[0].0, run, own);
        values = rest;
    }
    Ok(())
}

/// Known similarities: a matrix in memory, rows by columns.
///
/// For the scores of any model outside this program, and for tests.
pub struct KnownSimilarities {
    columns: usize,
    values: Vec<f64>,
    largest: f64,
}

impl KnownSimilarities {
    /// `values` row by row, each row with one value per column.
    ///
    /// # Errors
    /// If a value is NaN or infinite.
    ///
    /// # Panics
    /// If the values do not divide into rows.
    pub fn new(columns: usize, values: Vec<f64>) -> Result<Self, Error> {
        assert!(columns > 0 && values.len().is_multiple_of(columns));
        if let Some(bad) = values.iter().position(|v| !v.is_finite()) {
            let (row, column) = (bad / columns, bad % columns);
            return Err(Error::SimilarityNotFinite { row, column, value: values[bad] });
        }
        // No negative zero, so that equal values have equal bits.
        let values: Vec<f64> = values.into_iter().map(|v| v + 0.0).collect();
        let largest = values.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        Ok(KnownSimilarities { columns, values, largest })
    }
}

impl Similarity for KnownSimilarities {
    fn rows(&self) -> usize {
        self.values.len() / self.columns
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn tile(&self, rows: &[u32], columns: &[u32], out: &mut [f32]) -> Result<(), Error> {
        for (out, &row) in out.chunks_exact_mut(columns.len()).zip(rows) {
            let values = &self.values[row as usize * self.columns..][..self.columns];
            for (out, &column) in out.iter_mut().zip(columns) {
                *out = values[column as usize] as f32;
            }
        }
        Ok(())
    }

    fn tile_error(&self, _: &[u32], _: &[u32]) -> f64 {
        // Rounding to single precision, with room for numbers below its normal range.
        self.largest * f32::EPSILON as f64 + f32::MIN_POSITIVE as f64
    }

    fn exact(&self, row: u32, columns: &[u32], out: &mut [f64]) -> Result<(), Error> {
        for (out, &column) in out.iter_mut().zip(columns) {
            *out = self.values[row as usize * self.columns + column as usize];
        }
        Ok(())
    }

    fn scale(&self) -> f64 {
        self.largest.max(1.0)
    }
}
