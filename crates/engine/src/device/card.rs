//! A GPU with a few queues that work side by side.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use half::f16;
use nextpair_cuda::{Argument, Array, Element, Gpu, Grid, Kernels, Staging};

use super::Tiles;
use crate::Error;
use crate::screen::Source;

pub(super) const KERNELS: Kernels = Kernels {
    name: "search",
    sources: &[
        include_str!("../../cuda/search.cu"),
        include_str!("../../cuda/farthest.cu"),
        include_str!("../../cuda/gains.cu"),
        include_str!("../../cuda/design.cu"),
    ],
};

/// Bytes of the host that a queue copies at once.
const STAGED: usize = 40 << 20;
/// Most numbers of a vector: a queue's memory holds one such vector in doubles, with its shift.
pub(super) const LONGEST: usize = 1 << 20;

/// A GPU.
pub(crate) struct Card {
    /// Owns the memory that queues share. It does no work itself.
    pub(super) queue: Arc<Gpu>,
    pub(super) tiles: Tiles,
    lanes: Mutex<Lanes>,
    freed: Condvar,
}

/// Queues that wait for work, how many there are in all, and how many there can be.
struct Lanes {
    free: Vec<Lane>,
    made: usize,
    most: usize,
}

impl Default for Lanes {
    fn default() -> Self {
        Lanes { free: Vec::new(), made: 0, most: usize::MAX }
    }
}

/// A queue of work and its memory of the host.
pub(super) struct Lane {
    pub(super) gpu: Arc<Gpu>,
    pub(super) staging: Staging,
}

impl Card {
    pub(super) fn open(index: usize, tiles: Tiles) -> Result<Self, Error> {
        let queue = Gpu::open(index)?;
        let Tiles { rows, columns, lanes, .. } = tiles;
        let tiles = Tiles {
            rows: rows.clamp(1, 1 << 16),
            columns: columns.clamp(8, 1 << 16).next_multiple_of(8),
            lanes: lanes.max(1),
            ..tiles
        };
        Ok(Card { queue, tiles, lanes: Mutex::default(), freed: Condvar::new() })
    }

    /// An idle queue; waits for one if all are busy. Its holder must not wait for other threads, which may be
    /// waiting for a queue.
    pub(super) fn lane(&self) -> Result<LaneGuard<'_>, Error> {
        let mut lanes = self.lanes();
        loop {
            if let Some(lane) = lanes.free.pop() {
                return Ok(LaneGuard { card: self, lane: Some(lane) });
            }
            if lanes.made < self.tiles.lanes.min(lanes.most) {
                lanes.made += 1;
                drop(lanes);
                let opened = Lane::open(self.queue.index());
                if let Ok(lane) = opened {
                    return Ok(LaneGuard { card: self, lane: Some(lane) });
                }
                lanes = self.lanes();
                lanes.made -= 1;
                // Another program may have taken the memory for more: there are those that work.
                if lanes.made == 0 {
                    self.freed.notify_one();
                    opened?;
                }
                lanes.most = lanes.made;
                continue;
            }
            lanes = self.freed.wait(lanes).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue in use; it becomes idle again when this is dropped.
pub(super) struct LaneGuard<'a> {
    card: &'a Card,
    lane: Option<Lane>,
}

impl Deref for LaneGuard<'_> {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        self.lane.as_ref().expect("a queue until it goes back")
    }
}

impl DerefMut for LaneGuard<'_> {
    fn deref_mut(&mut self) -> &mut Lane {
        self.lane.as_mut().expect("a queue until it goes back")
    }
}

impl Drop for LaneGuard<'_> {
    fn drop(&mut self) {
        self.card.lanes().free.extend(self.lane.take());
        self.card.freed.notify_one();
    }
}

/// Bytes of a double, the type of inverse norms and shifts.
const DOUBLE: usize = size_of::<f64>();

impl Lane {
    fn open(index: usize) -> Result<Self, Error> {
        let gpu = Gpu::open(index)?;
        let staging = Staging::new(&gpu, STAGED)?;
        Ok(Lane { gpu, staging })
    }

    /// Copies vectors as they are stored and codes them there, one after the other from the code
    /// `first` of `codes` on.
    pub(super) fn code(
        &mut self,
        source: &dyn Source,
        vectors: &[u32],
        codes: &Array<f16>,
        first: usize,
    ) -> Result<(), Error> {
        self.convert("code", source, vectors, codes, first)
    }

    /// Copies vectors as they are stored and writes their directions in single precision, one after
    /// the other.
    pub(super) fn direct(
        &mut self,
        source: &dyn Source,
        vectors: &[u32],
        directions: &Array<f32>,
    ) -> Result<(), Error> {
        self.convert("direct", source, vectors, directions, 0)
    }

    /// Copies vectors as they are stored, for a kernel that makes codes of them.
    fn convert<T: Element>(
        &mut self,
        kernel: &'static str,
        source: &dyn Source,
        vectors: &[u32],
        codes: &Array<T>,
        first: usize,
    ) -> Result<(), Error> {
        source.check_rows(vectors)?;
        let (matrix, width) = (source.matrix(), width(source.dim()));
        let shift = source.shift().unwrap_or_default();
        let size = matrix.dtype().size();
        let row = matrix.dim() * size;
        let at_once = (STAGED - shift.len() * DOUBLE) / (DOUBLE + row);
        for (part, vectors) in vectors.chunks(at_once).enumerate() {
            let inverses = shift.len() * DOUBLE;
            let rows = inverses + vectors.len() * DOUBLE;
            let bytes = rows + vectors.len() * row;
            let staged = &mut self.staging.numbers::<u8>()?[..bytes];
            put(&mut staged[..inverses], shift.iter().copied());
            put(
                &mut staged[inverses..rows],
                vectors.iter().map(|&vector| match source.norm(vector) {
                    norm if norm > 0.0 => 1.0 / norm,
                    _ => 0.0,
                }),
            );
            for (&vector, staged) in vectors.iter().zip(staged[rows..].chunks_exact_mut(row)) {
                staged.copy_from_slice(matrix.row_bytes(vector as usize));
            }
            let raw = Array::<u8>::empty(&self.gpu, bytes)?;
            self.staging.send(&raw, 0, bytes)?;
            let shift = if inverses == 0 { nextpair_cuda::Pointer::NULL } else { raw.pointer() };
            let arguments: [Argument; 8] = [
                raw.at(rows).into(),
                size.into(),
                raw.at(inverses).into(),
                shift.into(),
                codes.at((first + part * at_once) * width).into(),
                vectors.len().into(),
                matrix.dim().into(),
                width.into(),
            ];
            let grid = Grid::blocks(vectors.len().div_ceil(8), 256);
            assert!((first + part * at_once + vectors.len()) * width <= codes.len());
            // SAFETY: both kernels take these; they read what was copied, `raw` having all of it, and
            // write so many codes of their type, for which there is room.
            unsafe { self.gpu.launch(&KERNELS, kernel, grid, &arguments)? };
        }
        Ok(())
    }
}

/// Writes numbers as they lie in memory.
fn put(bytes: &mut [u8], numbers: impl Iterator<Item = f64>) {
    for (bytes, number) in bytes.chunks_exact_mut(DOUBLE).zip(numbers) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
}

/// The length of a code: a multiple of eight numbers, as products want it.
pub(super) fn width(dim: usize) -> usize {
    dim.next_multiple_of(8)
}
