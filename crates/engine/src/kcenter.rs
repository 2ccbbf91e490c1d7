//! Greedy k-center: repeatedly picks the item farthest from all centres.
//!
//! Distances to the nearest centre only fall as centres are added, so an old distance is an upper
//! bound. Only the item with the largest bound is updated. If it stays on top, it is the farthest,
//! and no other item needs an update.

use std::collections::BinaryHeap;

use nextpair_core::Dtype;
use rayon::prelude::*;

use crate::distance::NegativeDistance;
use crate::error::unless_stopped;
use crate::lazy::Bound;
use crate::screen::{Source, squared_distance};
use crate::top::{Field, kth_largest};
use crate::{Error, Progress, Vectors};

/// Returns `budget` items in the order of the picks, each with its distance when picked. Distances
/// are Euclidean, canonically from float64 squared distances in ascending dimension. Ties go to the
/// lower index.
pub fn k_center(
    centres: &Vectors,
    items: &Vectors,
    budget: usize,
    progress: &dyn Progress,
) -> Result<Vec<(u32, f64)>, Error> {
    let nearest = nearest(centres, items, progress)?;
    let mut heap: BinaryHeap<Bound> = nearest
        .into_iter()
        .zip(0..)
        .map(|((_, square), item)| Bound { value: square, item, seen: 0 })
        .collect();
    let mut chosen = Chosen { items, indices: Vec::new(), rounded: Vec::new() };
    let mut picks = Vec::with_capacity(budget);
    progress.start("k-center", budget as u64);
    let mut stale = Vec::new();
    while picks.len() < budget {
        unless_stopped(progress)?;
        let Some(top) = heap.pop() else { break };
        if top.seen == picks.len() {
            picks.push((top.item, top.value.sqrt()));
            chosen.push(top.item);
            progress.advance(1);
            continue;
        }
        // Update a batch at once: the next few on top are likely old as well.
        stale.push(top);
        while stale.len() < BATCH
            && heap.peek().is_some_and(|next| next.seen < picks.len())
            && let Some(next) = heap.pop()
        {
            stale.push(next);
        }
        let update = |candidate: &mut Bound| chosen.update(candidate);
        let work: usize = stale.iter().map(|c| picks.len() - c.seen).sum();
        if work * items.dim() > WORTH_THREADS {
            stale.par_iter_mut().for_each(update);
        } else {
            stale.iter_mut().for_each(update);
        }
        heap.extend(stale.drain(..));
    }
    Ok(picks)
}

/// The nearest centre of every item and its squared distance; ties go to the lower centre.
pub fn nearest(
    centres: &Vectors,
    items: &Vectors,
    progress: &dyn Progress,
) -> Result<Vec<(u32, f64)>, Error> {
    progress.start("nearest centres", centres.len() as u64 * items.len() as u64);
    nearest_within(centres, items, progress)
}

/// [`nearest`] within a progress phase that has begun.
pub(crate) fn nearest_within(
    centres: &Vectors,
    items: &Vectors,
    progress: &dyn Progress,
) -> Result<Vec<(u32, f64)>, Error> {
    if centres.dim() != items.dim() {
        return Err(Error::DimensionMismatch {
            left: "the centres",
            left_dim: centres.dim(),
            right: "the items",
            right_dim: items.dim(),
        });
    }
    if centres.is_empty() {
        return Err(Error::EmptyPaired);
    }
    let rows: Vec<u32> = (0..centres.len() as u32).collect();
    let columns: Vec<u32> = (0..items.len() as u32).collect();
    let field = Field { rows: &rows, group_of_row: &|row| row, barred: &|_| None };
    let distance = NegativeDistance::new(centres, items);
    let entries = kth_largest(&distance, &field, &columns, 1, progress)?;
    Ok(entries
        .into_iter()
        .map(|entry| entry.expect("there is at least one centre"))
        .map(|entry| (entry.row, -entry.value))
        .collect())
}

/// Candidates updated together.
const BATCH: usize = 32;
/// Multiplications below which threads cost more than they save.
const WORTH_THREADS: usize = 1 << 19;

/// The picks so far, as centres.
struct Chosen<'a> {
    items: &'a Vectors,
    indices: Vec<u32>,
    /// Their vectors in single precision.
    rounded: Vec<f32>,
}

impl Chosen<'_> {
    fn push(&mut self, index: u32) {
        let dim = self.items.dim();
        self.indices.push(index);
        let start = self.rounded.len();
        self.rounded.resize(start + dim, 0.0);
        self.items.read(index, 1.0, &mut self.rounded[start..]);
    }

    /// Updates `candidate` with the picks it has not seen.
    fn update(&self, candidate: &mut Bound) {
        let close = match self.items.matrix().dtype() {
            // Single precision does not hold them, so a rough distance proves nothing.
            Dtype::F64 => self.indices[candidate.seen..].to_vec(),
            Dtype::F16 | Dtype::F32 => self.maybe_closer(candidate),
        };
        if !close.is_empty() {
            let mut x = vec![0.0; self.items.dim()];
            self.items.matrix().read_f64(candidate.item as usize, &mut x);
            let mut squares = vec![0.0; close.len()];
            self.items.squared_distances(&x, &close, &mut squares);
            candidate.value = squares.into_iter().fold(candidate.value, f64::min);
        }
        candidate.seen = self.indices.len();
    }

    /// Unseen picks that a rough distance cannot rule out as nearest.
    fn maybe_closer(&self, candidate: &Bound) -> Vec<u32> {
        let dim = self.items.dim();
        let mut x = vec![0.0; dim];
        self.items.read(candidate.item, 1.0, &mut x);
        // Differences and squares of single-precision numbers, summed in single precision, are
        // within this factor of the true sum.
        let factor = 1.0 + (dim + 8) as f64 * f32::EPSILON as f64;
        let limit = candidate.value * factor + f32::MIN_POSITIVE as f64;
        let closer = |pick: &usize| {
            let rough = squared_distance(&x, &self.rounded[pick * dim..][..dim]) as f64;
            let far = rough.is_finite() && rough > limit;
            !far
        };
        let unseen = candidate.seen..self.indices.len();
        unseen.filter(closer).map(|pick| self.indices[pick]).collect()
    }
}
