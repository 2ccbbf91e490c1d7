//! The similarity of attention models on a GPU. Scores have the precision of the device, and what a
//! search has computed it remembers until it is asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use nextpair_data::Side;
use nextpair_engine::{self as engine, Sieve, Similarity};
use nextpair_kernels::{Cuda, Device, Precision};

use crate::comparison::turn;
use crate::{Comparison, Encodings, Error};

/// Tiles on a GPU.
pub(crate) struct GpuTiles {
    comparison: Box<dyn Comparison>,
    of_rows: Side,
    rows: Encodings,
    columns: Encodings,
    device: Device,
    /// One call at a time: more would need more memory, and the queue is one.
    alone: Mutex<()>,
    /// The last tile of every thread that searches. What it finds it asks for next.
    last: Mutex<HashMap<ThreadId, Arc<Tile>>>,
}

/// The scores of some rows and columns, row by row.
struct Tile {
    rows: Vec<u32>,
    columns: Vec<u32>,
    scores: Vec<f32>,
}

/// Rows of a tile at most: enough work to fill a device.
const ROWS: usize = 1008;
/// Scores of a tile at most, unless a single row has more.
const SCORES: usize = 1 << 24;
/// Pairs computed together.
const PAIRS: usize = 1 << 15;

impl GpuTiles {
    pub(crate) fn new(
        comparison: Box<dyn Comparison>,
        of_rows: Side,
        (rows, columns): (Encodings, Encodings),
        device: Device,
    ) -> Self {
        let (alone, last) = (Mutex::default(), Mutex::default());
        GpuTiles { comparison, of_rows, rows, columns, device, alone, last }
    }

    fn one_at_a_time(&self) -> MutexGuard<'_, ()> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All pairs of rows and columns.
    fn scores(&self, rows: &[u32], columns: &[u32]) -> Result<Vec<f32>, Error> {
        let scores = {
            let _alone = self.one_at_a_time();
            let of_rows = self.rows.gather(rows, self.device)?;
            let of_columns = self.columns.gather(columns, self.device)?;
            let (images, texts) = self.of_rows.image_and_text(&of_rows, &of_columns);
            self.comparison.scores(images, texts)?
        };
        if self.of_rows == Side::Image {
            return Ok(scores);
        }
        let mut out = vec![0.0; scores.len()];
        turn(self.of_rows, &scores, columns.len(), &mut out);
        Ok(out)
    }

    /// Some pairs, by their positions in rows and columns.
    fn pairs(
        &self,
        rows: &[u32],
        columns: &[u32],
        pairs: &[(u32, u32)],
    ) -> Result<Vec<f32>, Error> {
        let _alone = self.one_at_a_time();
        let mut found = Vec::with_capacity(pairs.len());
        for pairs in pairs.chunks(PAIRS) {
            let (used_rows, of_row) = used(rows, pairs.iter().map(|pair| pair.0));
            let (used_columns, of_column) = used(columns, pairs.iter().map(|pair| pair.1));
            let of_rows = self.rows.gather(&used_rows, self.device)?;
            let of_columns = self.columns.gather(&used_columns, self.device)?;
            let (images, texts) = self.of_rows.image_and_text(&of_rows, &of_columns);
            let both = of_row.into_iter().zip(of_column);
            let turned: Vec<(u32, u32)> =
                both.map(|(row, column)| self.of_rows.image_and_text(row, column)).collect();
            found.extend(self.comparison.pair_scores(images, texts, &turned, None)?.to_f32s()?);
        }
        Ok(found)
    }

    /// The last tile of this thread, if it has these rows and columns.
    fn remembered(&self, rows: &[u32], columns: &[u32]) -> Option<Arc<Tile>> {
        let own = self.last().get(&thread::current().id()).cloned();
        own.filter(|tile| tile.rows == rows && tile.columns == columns)
    }

    fn last(&self) -> MutexGuard<'_, HashMap<ThreadId, Arc<Tile>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// How much a score may depend on what else is in a call, because cuBLAS sums in another order
    /// then; about ten times what was seen.
    fn tile_error(&self, _: &[u32], _: &[u32]) -> f64 {
        match self.device {
            Device::Cuda(Cuda { precision: Precision::Fp32, .. }) => 4e-6,
            Device::Cuda(_) => 1e-3,
            _ => 0.0,
        }
    }

    fn exact(&self, row: u32, columns: &[u32], out: &mut [f64]) -> Result<(), engine::Error> {
        let scores = self.scores(&[row], columns).map_err(failed)?;
        out.iter_mut().zip(scores).for_each(|(out, score)| *out = f64::from(score));
        Ok(())
    }

    fn exact_tile(
        &self,
        rows: &[u32],
        columns: &[u32],
        out: &mut [f64],
    ) -> Result<(), engine::Error> {
        let scores = self.scores(rows, columns).map_err(failed)?;
        out.iter_mut().zip(scores).for_each(|(out, score)| *out = f64::from(score));
        Ok(())
    }

    fn exact_pairs(
        &self,
        rows: &[u32],
        columns: &[u32],
        pairs: &[(u32, u32)],
        out: &mut [f64],
    ) -> Result<(), engine::Error> {
        if let Some(tile) = self.remembered(rows, columns) {
            for (out, &(row, column)) in out.iter_mut().zip(pairs) {
                *out = tile.scores[row as usize * columns.len() + column as usize].into();
            }
            return Ok(());
        }
        let found = self.pairs(rows, columns, pairs).map_err(failed)?;
        out.iter_mut().zip(found).for_each(|(out, found)| *out = f64::from(found));
        Ok(())
    }

    fn sieve<'a>(
        &'a self,
        columns: &'a [u32],
        _expected: Option<&[f64]>,
    ) -> Result<Box<dyn Sieve + 'a>, engine::Error> {
        Ok(Box::new(Search { tiles: self, columns }))
    }
}

/// A search that computes all scores and remembers those of its last rows.
struct Search<'a> {
    tiles: &'a GpuTiles,
    columns: &'a [u32],
}

impl Sieve for Search<'_> {
    fn above(&self, rows: &[u32], cuts: &[f64]) -> Result<Vec<(u32, u32)>, engine::Error> {
        let scores = self.tiles.scores(rows, self.columns).map_err(failed)?;
        let mut found = Vec::new();
        for (row, scores) in scores.chunks_exact(self.columns.len().max(1)).enumerate() {
            for (column, (&score, &cut)) in scores.iter().zip(cuts).enumerate() {
                // What is not finite is refused where it is looked at.
                if f64::from(score) > cut || !score.is_finite() {
                    found.push((row as u32, column as u32));
                }
            }
        }
        let (rows, columns) = (rows.to_vec(), self.columns.to_vec());
        let tile = Arc::new(Tile { rows, columns, scores });
        self.tiles.last().insert(thread::current().id(), tile);
        Ok(found)
    }

    fn nearest_misses(&self, rows: &[u32], thresholds: &[f64]) -> Option<Vec<f64>> {
        let tile = self.tiles.remembered(rows, self.columns)?;
        let of_row = |scores: &[f32]| {
            let misses =
                scores.iter().zip(thresholds).map(|(&s, threshold)| f64::from(s) - threshold);
            misses.filter(|miss| *miss <= 0.0).fold(f64::MIN, f64::max)
        };
        Some(tile.scores.chunks_exact(self.columns.len().max(1)).map(of_row).collect())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Imram, Inputs, Model, Texts};
    use nextpair_kernels::Tensor;

    /// The scores of a small model do not depend on who holds them, and the CPU stands in for a GPU.
    #[test]
    fn a_search_remembers_what_it_found() {
        let mut imram = Imram::default();
        (imram.encoders.dim, imram.encoders.word_dim) = (16, 8);
        let inputs = Inputs { image: 10, text: 30 };
        let model = Model::new(Config::Imram(imram), inputs, 3, Device::Cpu).unwrap();
        let features = (0..9 * 4 * 10).map(|at| ((at * 37) % 23) as f32 / 23.0).collect();
        let features = Tensor::new(features, &[9, 4, 10], Device::Cpu).unwrap();
        let words: Vec<Vec<u32>> =
            (0..7).map(|c| (0..2 + c % 4).map(|w| 3 * c + w).collect()).collect();
        let images = Encodings::of(&model.encode_images(&features).unwrap()).unwrap();
        let texts = Encodings::of(&model.encode_texts(&Texts::words(&words).unwrap()).unwrap());
        let texts = texts.unwrap();
        for side in [Side::Image, Side::Text] {
            let (rows, columns) = side.own_and_other(&images, &texts);
            let plain = model.similarity(side, rows, columns).unwrap();
            let both = (rows.clone(), columns.clone());
            let tiles = GpuTiles::new(model.comparison().unwrap(), side, both, Device::Cpu);
            let (some, every): (Vec<u32>, Vec<u32>) =
                (vec![5, 0, 3], (0..columns.len() as u32).collect());
            let mut expected = vec![0.0; some.len() * every.len()];
            plain.tile(&some, &every, &mut expected).unwrap();
            let cut = f64::from(expected[4]);
            let found = {
                let sieve = tiles.sieve(&every, None).unwrap();
                let found = sieve.above(&some, &vec![cut.next_down(); every.len()]).unwrap();
                assert_eq!(tiles.last().len(), 1);
                let mut values = vec![0.0; found.len()];
                tiles.exact_pairs(&some, &every, &found, &mut values).unwrap();
                for (&(row, column), value) in found.iter().zip(&values) {
                    let at = row as usize * every.len() + column as usize;
                    assert_eq!(f64::from(expected[at]), *value);
                }
                let thresholds = vec![cut; every.len()];
                let misses = sieve.nearest_misses(&some, &thresholds).unwrap();
                for (miss, scores) in misses.iter().zip(expected.chunks_exact(every.len())) {
                    let misses = scores.iter().map(|&score| f64::from(score) - cut);
                    let nearest = misses.filter(|miss| *miss <= 0.0).fold(f64::MIN, f64::max);
                    assert_eq!(*miss, nearest);
                }
                assert!(sieve.nearest_misses(&some[1..], &thresholds).is_none());
                found
            };
            let above = expected.iter().filter(|&&score| f64::from(score) >= cut).count();
            assert!(found.len() == above && above > 0 && above < expected.len());
            // Forgotten with the search; other pairs are computed.
            assert!(tiles.last().is_empty());
            let mut values = vec![0.0; 2];
            tiles.exact_pairs(&some, &every, &[(0, 1), (2, 4)], &mut values).unwrap();
            let of = |row: usize, column: usize| f64::from(expected[row * every.len() + column]);
            assert!((values[0] - of(0, 1)).abs() < 1e-6 && (values[1] - of(2, 4)).abs() < 1e-6);
        }
    }
}
