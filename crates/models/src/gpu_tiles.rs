//! The similarity of attention models on a GPU: tiles in a low precision rule pairs out, single
//! precision decides about the others.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nextpair_data::{Draws, Side};
use nextpair_engine::{self as engine, Similarity};
use nextpair_kernels::ops::Matching;
use nextpair_kernels::{Device, Precision};

use crate::comparison::turn;
use crate::{Encodings, Error};

/// Tiles on a GPU.
pub(crate) struct GpuTiles {
    fast: Matching,
    canonical: Matching,
    of_rows: Side,
    rows: Encodings,
    columns: Encodings,
    device: Device,
    /// By how much a tile may be off.
    error: f64,
    /// One call at a time: more would need more memory, and the queue is one.
    alone: Mutex<()>,
}

/// Rows of a tile: enough work to fill a device.
const ROWS: usize = 1008;
/// Pairs of the canonical precision computed together.
const PAIRS: usize = 1 << 15;
/// Rows and columns whose pairs are sampled for the error of tiles.
const SAMPLED: usize = 48;
/// The error of tiles is taken to be so many times the largest of the sample.
const CAUTION: f64 = 4.0;

impl GpuTiles {
    pub(crate) fn new(
        comparison: Matching,
        of_rows: Side,
        (rows, columns): (Encodings, Encodings),
        device: Device,
    ) -> Result<Self, Error> {
        let canonical = comparison.in_precision_of(device.with_precision(Precision::Fp32));
        let (fast, alone, error) = (comparison, Mutex::new(()), 0.0);
        let mut tiles = GpuTiles { fast, canonical, of_rows, rows, columns, device, error, alone };
        tiles.error = tiles.sampled_error()?;
        Ok(tiles)
    }

    /// The error of tiles by a sample: rounding errors of products on matrix units have no useful
    /// bound that is proven.
    fn sampled_error(&self) -> Result<f64, Error> {
        let mut draws = Draws::new(0);
        let mut sample = |count: usize| -> Vec<u32> {
            (0..SAMPLED.min(count)).map(|_| draws.below(count) as u32).collect()
        };
        let (rows, columns) = (sample(self.rows.len()), sample(self.columns.len()));
        if rows.is_empty() || columns.is_empty() {
            return Ok(0.0);
        }
        let fast = self.scores(&rows, &columns)?;
        let all: Vec<(u32, u32)> = (0..rows.len() as u32)
            .flat_map(|row| (0..columns.len() as u32).map(move |column| (row, column)))
            .collect();
        let exact = self.pairs(&rows, &columns, &all)?;
        let off = fast.iter().zip(exact).map(|(&a, b)| (f64::from(a) - f64::from(b)).abs());
        Ok(CAUTION * off.fold(f64::from(f32::EPSILON), f64::max))
    }

    fn one_at_a_time(&self) -> MutexGuard<'_, ()> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All pairs of rows and columns, in the precision of the device.
    fn scores(&self, rows: &[u32], columns: &[u32]) -> Result<Vec<f32>, Error> {
        let _alone = self.one_at_a_time();
        let of_rows = self.rows.gather(rows, self.device)?;
        let of_columns = self.columns.gather(columns, self.device)?;
        let (images, texts) = self.of_rows.image_and_text(&of_rows, &of_columns);
        let scores = self.fast.scores(images, texts)?;
        let mut out = vec![0.0; scores.len()];
        turn(self.of_rows, &scores, columns.len(), &mut out);
        Ok(out)
    }

    /// Some pairs, by their positions in rows and columns, in the canonical precision.
    fn pairs(
        &self,
        rows: &[u32],
        columns: &[u32],
        pairs: &[(u32, u32)],
    ) -> Result<Vec<f32>, Error> {
        let _alone = self.one_at_a_time();
        let device = self.device.with_precision(Precision::Fp32);
        let mut found = Vec::with_capacity(pairs.len());
        for pairs in pairs.chunks(PAIRS) {
            let (used_rows, of_row) = used(rows, pairs.iter().map(|pair| pair.0));
            let (used_columns, of_column) = used(columns, pairs.iter().map(|pair| pair.1));
            let of_rows = self.rows.gather(&used_rows, device)?;
            let of_columns = self.columns.gather(&used_columns, device)?;
            let (images, texts) = self.of_rows.image_and_text(&of_rows, &of_columns);
            let both = of_row.into_iter().zip(of_column);
            let turned: Vec<(u32, u32)> =
                both.map(|(row, column)| self.of_rows.image_and_text(row, column)).collect();
            let scores = self.canonical.pair_scores(images, texts, &turned, None)?;
            found.extend(scores.to_f32s()?);
        }
        Ok(found)
    }
}

/// The items that are used, each once, and for every use its place among them.
fn used(items: &[u32], positions: impl Iterator<Item = u32>) -> (Vec<u32>, Vec<u32>) {
    let mut place = vec![u32::MAX; items.len()];
    let mut all = Vec::new();
    let places = positions
        .map(|position| {
            let place = &mut place[position as usize];
            if *place == u32::MAX {
                *place = all.len() as u32;
                all.push(items[position as usize]);
            }
            *place
        })
        .collect();
    (all, places)
}

fn failed(error: Error) -> engine::Error {
    engine::Error::Similarity(Box::new(error))
}

impl Similarity for GpuTiles {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn columns(&self) -> usize {
        self.columns.len()
    }

    fn tile(&self, rows: &[u32], columns: &[u32], out: &mut [f32]) -> Result<(), engine::Error> {
        out.copy_from_slice(&self.scores(rows, columns).map_err(failed)?);
        Ok(())
    }

    fn tile_error(&self, _: &[u32], _: &[u32]) -> f64 {
        self.error
    }

    fn exact(&self, row: u32, columns: &[u32], out: &mut [f64]) -> Result<(), engine::Error> {
        let pairs: Vec<(u32, u32)> = (0..columns.len() as u32).map(|column| (0, column)).collect();
        self.exact_pairs(&[row], columns, &pairs, out)
    }

    fn exact_pairs(
        &self,
        rows: &[u32],
        columns: &[u32],
        pairs: &[(u32, u32)],
        out: &mut [f64],
    ) -> Result<(), engine::Error> {
        let found = self.pairs(rows, columns, pairs).map_err(failed)?;
        out.iter_mut().zip(found).for_each(|(out, found)| *out = f64::from(found));
        Ok(())
    }

    fn rows_at_once(&self) -> usize {
        ROWS
    }
}

/// Scores of all pairs that are computed already and count as canonical: those of an evaluation.
pub(crate) struct Computed {
    columns: usize,
    values: Vec<f32>,
}

impl Computed {
    /// Scores row by row.
    pub(crate) fn new(columns: usize, values: Vec<f32>) -> Self {
        Computed { columns, values }
    }

    fn row(&self, row: u32) -> &[f32] {
        &self.values[row as usize * self.columns..][..self.columns]
    }
}

impl Similarity for Computed {
    fn rows(&self) -> usize {
        self.values.len() / self.columns.max(1)
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn tile(&self, rows: &[u32], columns: &[u32], out: &mut [f32]) -> Result<(), engine::Error> {
        for (&row, out) in rows.iter().zip(out.chunks_exact_mut(columns.len())) {
            let row = self.row(row);
            out.iter_mut().zip(columns).for_each(|(out, &column)| *out = row[column as usize]);
        }
        Ok(())
    }

    fn tile_error(&self, _: &[u32], _: &[u32]) -> f64 {
        0.0
    }

    fn exact(&self, row: u32, columns: &[u32], out: &mut [f64]) -> Result<(), engine::Error> {
        let row = self.row(row);
        out.iter_mut().zip(columns).for_each(|(out, &column)| *out = row[column as usize].into());
        Ok(())
    }
}
