//! The similarity of attention models on a GPU.
//!
//! Scores of all pairs have the precision of the device. In a fast one they only rule pairs out: those
//! that could matter, within a margin, are scored again in single precision, which is canonical. The
//! margin is many times the largest error of a sample, and every pair that is scored again is a check
//! of it.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};

use nextpair_data::Side;
use nextpair_engine::{self as engine, Sieve, Similarity};
use nextpair_kernels::{Cuda, Device};

use crate::alone::Alone;
use crate::comparison::turn;
use crate::{Comparison, Encodings, Error};

/// Tiles on a GPU.
pub(crate) struct GpuTiles {
    fast: Scorer,
    /// Scores single pairs again. Nothing if the scores of all pairs are canonical themselves.
    canonical: Option<Scorer>,
    of_rows: Side,
    rows: Encodings,
    columns: Encodings,
    margin: OnceLock<f64>,
    /// Whether pairs are scored again.
    looks_again: OnceLock<bool>,
    /// One call at a time: more would need more memory, and the queue is one.
    alone: Alone,
    /// The last tile of every thread that searches. What it finds it asks for next.
    last: Mutex<HashMap<ThreadId, Tile>>,
}

/// How pairs are compared, and where.
pub(crate) struct Scorer {
    pub(crate) comparison: Box<dyn Comparison>,
    pub(crate) device: Device,
}

/// The scores of some rows and columns, row by row.
struct Tile {
    rows: Vec<u32>,
    columns: Vec<u32>,
    scores: Arc<[f32]>,
}

/// Rows of a tile at most: enough work to fill a device.
const ROWS: usize = 1008;
/// Scores of a tile at most, unless a single row has more.
const SCORES: usize = 1 << 24;
/// Pairs computed together.
const PAIRS: usize = 1 << 15;
/// Rows and columns of the sample that sets the margin.
const SAMPLED: usize = 64;
/// The margin, in units of the largest error of the sample.
const SAFETY: f64 = 16.0;
/// Pairs that may be scored again, by the sample: some twenty seconds of an H200.
const AFFORDED: f64 = 8e6;
/// How much a score in single precision may depend on what else is in a call, because cuBLAS sums in
/// another order then; about ten times what was seen.
const ORDER: f64 = 4e-6;

impl GpuTiles {
    /// Compares by `fast` scores of all pairs and, where these are not canonical, by `canonical` scores
    /// of some.
    pub(crate) fn new(
        fast: Scorer,
        canonical: Option<Scorer>,
        of_rows: Side,
        (rows, columns): (Encodings, Encodings),
    ) -> Self {
        let (margin, looks_again) = (OnceLock::new(), OnceLock::new());
        let (alone, last) = (Alone::default(), Mutex::default());
        GpuTiles { fast, canonical, of_rows, rows, columns, margin, looks_again, alone, last }
    }

    /// Who computes canonical scores.
    fn canonical(&self) -> &Scorer {
        self.canonical.as_ref().unwrap_or(&self.fast)
    }

    /// All pairs of rows and columns, in smaller tiles where there is no memory for one.
    fn scores(&self, by: &Scorer, rows: &[u32], columns: &[u32]) -> Result<Vec<f32>, Error> {
        match self.scores_at_once(by, rows, columns) {
            Err(error) if error.is_out_of_memory() && rows.len().max(columns.len()) > 1 => {}
            scores => return scores,
        }
        if rows.len() >= columns.len() {
            let (first, rest) = rows.split_at(rows.len() / 2);
            return Ok([self.scores(by, first, columns)?, self.scores(by, rest, columns)?].concat());
        }
        let (first, rest) = columns.split_at(columns.len() / 2);
        let (left, right) = (self.scores(by, rows, first)?, self.scores(by, rows, rest)?);
        let both = left.chunks_exact(first.len()).zip(right.chunks_exact(rest.len()));
        Ok(both.flat_map(|(left, right)| [left, right].concat()).collect())
    }

    fn scores_at_once(
        &self,
        by: &Scorer,
        rows: &[u32],
        columns: &[u32],
    ) -> Result<Vec<f32>, Error> {
        let scores = self.alone.run(|| {
            let of_rows = self.rows.gather(rows, by.device)?;
            let of_columns = self.columns.gather(columns, by.device)?;
            let (images, texts) = self.of_rows.image_and_text(&of_rows, &of_columns);
            by.comparison.scores(images, texts)
        })?;
        if self.of_rows == Side::Image {
            return Ok(scores);
        }
        let mut out = vec![0.0; scores.len()];
        turn(self.of_rows, &scores, columns.len(), &mut out);
        Ok(out)
    }

    /// The canonical scores of some pairs, by their positions in rows and columns; of fewer at once
    /// where there is no memory for more.
    fn pairs(
        &self,
        rows: &[u32],
        columns: &[u32],
        pairs: &[(u32, u32)],
    ) -> Result<Vec<f32>, Error> {
        if pairs.is_empty() {
            return Ok(Vec::new());
        }
        if pairs.len() <= PAIRS {
            match self.pairs_at_once(rows, columns, pairs) {
                Err(error) if error.is_out_of_memory() && pairs.len() > 1 => {}
                scores => return scores,
            }
        }
        let (first, rest) = pairs.split_at(pairs.len() / 2);
        Ok([self.pairs(rows, columns, first)?, self.pairs(rows, columns, rest)?].concat())
    }

    fn pairs_at_once(
        &self,
        rows: &[u32],
        columns: &[u32],
        pairs: &[(u32, u32)],
    ) -> Result<Vec<f32>, Error> {
        let Scorer { comparison, device } = self.canonical();
        let (used_rows, of_row) = used(rows, pairs.iter().map(|pair| pair.0));
        let (used_columns, of_column) = used(columns, pairs.iter().map(|pair| pair.1));
        let both = of_row.into_iter().zip(of_column);
        let turned: Vec<(u32, u32)> =
            both.map(|(row, column)| self.of_rows.image_and_text(row, column)).collect();
        self.alone.run(|| {
            let of_rows = self.rows.gather(&used_rows, *device)?;
            let of_columns = self.columns.gather(&used_columns, *device)?;
            let (images, texts) = self.of_rows.image_and_text(&of_rows, &of_columns);
            Ok(comparison.pair_scores(images, texts, &turned, None)?.to_f32s()?)
        })
    }

    /// How far fast scores may be from canonical ones.
    fn margin(&self) -> Result<f64, Error> {
        if let Some(margin) = self.margin.get() {
            return Ok(*margin);
        }
        let margin = match &self.canonical {
            Some(_) => (SAFETY * self.sampled_error()?).max(2.0 * ORDER),
            None => match self.fast.device {
                Device::Cuda(Cuda { .. }) => ORDER,
                _ => 0.0,
            },
        };
        Ok(*self.margin.get_or_init(|| margin))
    }

    /// Whether pairs that could matter are scored again. Not if so many could that it would take
    /// minutes: a model whose scores hardly differ ranks by chance, in any precision.
    fn looks_again(&self) -> Result<bool, Error> {
        if self.canonical.is_none() {
            return Ok(false);
        }
        if let Some(looks) = self.looks_again.get() {
            return Ok(*looks);
        }
        let (rows, columns) = self.sample();
        let (margin, scores) = (self.margin()?, self.scores(&self.fast, &rows, &columns)?);
        let near = near_rivals(&scores, columns.len(), margin)
            + near_misses(&scores, columns.len(), margin);
        let share = near as f64 / scores.len().saturating_sub(columns.len()).max(1) as f64;
        let looks = share * self.rows.len() as f64 * self.columns.len() as f64 <= AFFORDED;
        Ok(*self.looks_again.get_or_init(|| looks))
    }

    /// Some rows and columns, spread over all.
    fn sample(&self) -> (Vec<u32>, Vec<u32>) {
        let spread = |count: usize| -> Vec<u32> {
            let step = count.div_ceil(SAMPLED).max(1);
            (0..count as u32).step_by(step).collect()
        };
        (spread(self.rows.len()), spread(self.columns.len()))
    }

    /// The largest error of fast scores among a sample of pairs.
    fn sampled_error(&self) -> Result<f64, Error> {
        let (rows, columns) = self.sample();
        let of_row = |row: u32| (0..columns.len() as u32).map(move |column| (row, column));
        let all: Vec<(u32, u32)> = (0..rows.len() as u32).flat_map(of_row).collect();
        let fast = self.scores(&self.fast, &rows, &columns)?;
        let canonical = self.pairs(&rows, &columns, &all)?;
        Ok(fast.iter().zip(&canonical).map(|(a, b)| error_of(*a, *b)).fold(0.0, f64::max))
    }

    /// Refuses a score that says that the margin is too small.
    fn check(&self, fast: f32, canonical: f32) -> Result<(), Error> {
        let (off, margin) = (error_of(fast, canonical), self.margin()?);
        if off <= margin / 2.0 {
            return Ok(());
        }
        let device = self.fast.device.to_string();
        Err(Error::TooRough { device, off, margin })
    }

    /// The scores of the last tile of this thread, if it has these rows and columns.
    fn remembered(&self, rows: &[u32], columns: &[u32]) -> Option<Arc<[f32]>> {
        let last = self.last();
        let tile = last.get(&thread::current().id());
        let tile = tile.filter(|tile| tile.rows == rows && tile.columns == columns);
        tile.map(|tile| tile.scores.clone())
    }

    fn last(&self) -> MutexGuard<'_, HashMap<ThreadId, Tile>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The highest score of every column.
fn highest_of_columns(scores: &[f32], columns: usize) -> Vec<f64> {
    let of_column = |column: usize| scores.iter().skip(column).step_by(columns);
    let highest = |column| f64::from(of_column(column).copied().fold(f32::MIN, f32::max));
    (0..columns).map(highest).collect()
}

/// How many scores could be the highest of their column, within a margin, beside one in each.
fn near_rivals(scores: &[f32], columns: usize, margin: f64) -> usize {
    let highest = highest_of_columns(scores, columns);
    let near = |row: &[f32]| {
        let both = row.iter().zip(&highest);
        both.filter(|(score, highest)| f64::from(**score) >= **highest - margin).count()
    };
    let all: usize = scores.chunks_exact(columns).map(near).sum();
    all.saturating_sub(columns)
}

/// How many scores of rows that are the highest in no column could miss that by least, beside one in
/// each row: rows without a hit are told apart by their nearest miss.
fn near_misses(scores: &[f32], columns: usize, margin: f64) -> usize {
    let highest = highest_of_columns(scores, columns);
    let near = |row: &[f32]| {
        let misses =
            || row.iter().zip(&highest).map(|(score, highest)| f64::from(*score) - highest);
        match misses().fold(f64::MIN, f64::max) {
            0.0.. => 0,
            // Both of two scores may be off.
            nearest => misses().filter(|&miss| miss >= nearest - 2.0 * margin).count() - 1,
        }
    };
    scores.chunks_exact(columns).map(near).sum()
}

/// How far a fast score is from the canonical one. One that is not finite rules nothing out, so that
/// it is as good as none.
fn error_of(fast: f32, canonical: f32) -> f64 {
    match fast.is_finite() && canonical.is_finite() {
        true => (f64::from(fast) - f64::from(canonical)).abs(),
        false => 0.0,
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
        out.copy_from_slice(&self.scores(&self.fast, rows, columns).map_err(failed)?);
        Ok(())
    }

    fn tile_error(&self, _: &[u32], _: &[u32]) -> f64 {
        // Nothing is ruled out by scores of which nothing is known. What failed fails again.
        match self.looks_again() {
            Ok(false) if self.canonical.is_some() => 0.0,
            _ => self.margin().unwrap_or(f64::INFINITY),
        }
    }

    fn exact(&self, row: u32, columns: &[u32], out: &mut [f64]) -> Result<(), engine::Error> {
        self.exact_tile(&[row], columns, out)
    }

    fn exact_tile(
        &self,
        rows: &[u32],
        columns: &[u32],
        out: &mut [f64],
    ) -> Result<(), engine::Error> {
        let width = columns.len().max(1);
        let at_once = (SCORES / width).clamp(1, ROWS);
        for (rows, out) in rows.chunks(at_once).zip(out.chunks_mut(at_once * width)) {
            let scores = self.scores(self.canonical(), rows, columns).map_err(failed)?;
            out.iter_mut().zip(scores).for_each(|(out, score)| *out = f64::from(score));
        }
        Ok(())
    }

    fn exact_pairs(
        &self,
        rows: &[u32],
        columns: &[u32],
        pairs: &[(u32, u32)],
        out: &mut [f64],
    ) -> Result<(), engine::Error> {
        let known: Option<Vec<f32>> = self.remembered(rows, columns).map(|scores| {
            let at = |&(row, column): &(u32, u32)| row as usize * columns.len() + column as usize;
            pairs.iter().map(|pair| scores[at(pair)]).collect()
        });
        let scores = match (known, self.looks_again().map_err(failed)?) {
            (Some(known), false) => known,
            (known, _) => {
                let scores = self.pairs(rows, columns, pairs).map_err(failed)?;
                for (fast, score) in known.iter().flatten().zip(&scores) {
                    self.check(*fast, *score).map_err(failed)?;
                }
                scores
            }
        };
        out.iter_mut().zip(scores).for_each(|(out, score)| *out = f64::from(score));
        Ok(())
    }

    fn sieve<'a>(
        &'a self,
        columns: &'a [u32],
        _expected: Option<&[f64]>,
    ) -> Result<Box<dyn Sieve + 'a>, engine::Error> {
        // Scores that are canonical are compared as they are.
        let margin = match self.looks_again().map_err(failed)? {
            true => self.margin().map_err(failed)?,
            false => 0.0,
        };
        Ok(Box::new(Search { tiles: self, columns, margin }))
    }
}

/// A search that computes all scores and remembers those of its last rows.
struct Search<'a> {
    tiles: &'a GpuTiles,
    columns: &'a [u32],
    margin: f64,
}

impl Sieve for Search<'_> {
    fn above(&self, rows: &[u32], cuts: &[f64]) -> Result<Vec<(u32, u32)>, engine::Error> {
        let scores = self.tiles.scores(&self.tiles.fast, rows, self.columns);
        let scores = scores.map_err(failed)?;
        let cuts: Vec<f64> = cuts.iter().map(|cut| cut - self.margin).collect();
        let mut found = Vec::new();
        for (row, scores) in scores.chunks_exact(self.columns.len().max(1)).enumerate() {
            for (column, (&score, &cut)) in scores.iter().zip(&cuts).enumerate() {
                // What is not finite rules nothing out.
                if f64::from(score) > cut || !score.is_finite() {
                    found.push((row as u32, column as u32));
                }
            }
        }
        let (rows, columns) = (rows.to_vec(), self.columns.to_vec());
        let tile = Tile { rows, columns, scores: scores.into() };
        self.tiles.last().insert(thread::current().id(), tile);
        Ok(found)
    }

    fn seen(&self, rows: &[u32]) -> Option<Arc<[f32]>> {
        self.tiles.remembered(rows, self.columns)
    }

    fn rows_at_once(&self) -> usize {
        (SCORES / self.columns.len().max(1)).clamp(1, ROWS)
    }
}

/// Nothing is asked of a search that is over.
impl Drop for Search<'_> {
    fn drop(&mut self) {
        self.tiles.last().clear();
    }
}
