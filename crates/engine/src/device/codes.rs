//! Codes of vectors on a GPU.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use half::f16;
use nextpair_cuda::Array;

use super::card::{Card, Lane, width};
use crate::Error;
use crate::screen::Source;

/// The codes of all vectors of a source, if there is room for them: each is put there when it is first
/// needed and stays. Without room they are copied and coded whenever they are needed.
pub(super) struct Codes {
    card: Arc<Card>,
    /// All codes, row by row.
    pub(super) kept: Option<Array<f16>>,
    /// Which blocks of them are there.
    there: Vec<AtomicBool>,
    count: usize,
}

/// Vectors that are put there together.
pub(super) const BLOCK: usize = 4096;
/// The share of the GPU's memory that is left for everything else.
const LEFT: usize = 8;

impl Codes {
    pub(super) fn new(card: &Arc<Card>, source: &dyn Source) -> Result<Self, Error> {
        let (count, width) = (source.matrix().rows(), width(source.dim()));
        let (free, total) = card.queue.available()?;
        let fits = count * width * size_of::<f16>() + total / LEFT <= free;
        let kept = match card.tiles.keep && fits {
            true => Array::empty(&card.queue, count * width).ok(),
            false => None,
        };
        let there = (0..count.div_ceil(BLOCK)).map(|_| AtomicBool::new(false)).collect();
        Ok(Codes { card: card.clone(), kept, there, count })
    }

    pub(super) fn is_on(&self, card: &Arc<Card>) -> bool {
        Arc::ptr_eq(&self.card, card)
    }

    /// Puts those of some rows there that are not. Others may use them when the queue is done and
    /// [`done`](Self::done) has been told.
    pub(super) fn load(
        &self,
        lane: &mut Lane,
        source: &dyn Source,
        rows: Range<usize>,
    ) -> Result<LoadedBlocks, Error> {
        let mut loaded = LoadedBlocks(Vec::new());
        let Some(kept) = &self.kept else { return Ok(loaded) };
        for block in rows.start / BLOCK..rows.end.div_ceil(BLOCK) {
            // Two queues may both load a block: both write the same.
            if !self.there[block].load(Ordering::Acquire) {
                let first = block * BLOCK;
                let end = self.count.min(first + BLOCK);
                let rows: Vec<u32> = (first as u32..end as u32).collect();
                lane.code(source, &rows, kept, first)?;
                loaded.0.push(block);
            }
        }
        Ok(loaded)
    }

    /// Notes that what was loaded is there.
    pub(super) fn done(&self, loaded: LoadedBlocks) {
        for block in loaded.0 {
            self.there[block].store(true, Ordering::Release);
        }
    }

    /// Whether all of some rows are loaded.
    pub(super) fn has(&self, rows: Range<usize>) -> bool {
        let mut blocks = rows.start / BLOCK..rows.end.div_ceil(BLOCK);
        self.kept.is_none() || blocks.all(|block| self.there[block].load(Ordering::Acquire))
    }

    /// All codes, if these rows are there.
    pub(super) fn having(&self, rows: &[u32]) -> Option<&Array<f16>> {
        let there = |&row: &u32| self.there[row as usize / BLOCK].load(Ordering::Acquire);
        self.kept.as_ref().filter(|_| rows.iter().all(there))
    }
}

/// Blocks that are being loaded.
#[must_use]
pub(super) struct LoadedBlocks(Vec<usize>);

/// Gives the memory back to the GPU, where other programs and models may want it.
impl Drop for Codes {
    fn drop(&mut self) {
        self.kept = None;
        // What fails was reported by the work before.
        let _ = self.card.queue.release();
    }
}
