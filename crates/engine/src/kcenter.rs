//! Greedy k-center: repeatedly picks the item farthest from all centres.
//!
//! Distances to the nearest centre only fall as centres are added, so an old distance is an upper
//! bound. Only the item with the largest bound is updated. If it stays on top, it is the farthest,
//! and no other item needs an update.
//!
//! Where many items lie near each other, many are on top for a while before a pick is found near
//! them. A GPU compares all items with new picks at once, and lists the few that may be farthest.

use std::collections::BinaryHeap;

use nextpair_core::Dtype;
use rayon::prelude::*;

use crate::centred::mean_of;
use crate::device::{FarItems, Farthest, if_it_fits};
use crate::distance::NegativeDistance;
use crate::error::unless_stopped;
use crate::lazy::Bound;
use crate::screen::{Source, squared_distance};
use crate::similarity::Similarity;
use crate::top::{Field, kth_largest};
use crate::{Error, Progress, Vectors};

/// Returns `budget` items in the order of the picks, each with its distance when picked. Distances
/// are Euclidean, canonically from float64 squared distances in ascending dimension. Ties go to the
/// lower index.
///
/// Without centres, the first pick is the item nearest to the mean of all. It has the distance of the
/// second.
pub fn k_center(
    centres: &Vectors,
    items: &Vectors,
    budget: usize,
    progress: &dyn Progress,
) -> Result<Vec<(u32, f64)>, Error> {
    if centres.is_empty() {
        return from_the_middle(items, budget, progress);
    }
    progress.start("nearest centres", centres.len() as u64 * items.len() as u64);
    let distance = distance_between(centres, items)?;
    let nearest = nearest_by(&distance, progress)?;
    let squares: Vec<f64> = nearest.into_iter().map(|(_, square)| square).collect();
    progress.start("k-center", budget as u64);
    let farthest = if_it_fits(distance.farthest(&squares, budget))?.flatten();
    let known = squares.into_iter().zip(0..).map(|(value, item)| Bound { value, item, seen: 0 });
    let chosen = Centres { items, indices: Vec::new(), rounded: Vec::new() };
    let mut greedy = Greedy { known: known.collect(), chosen, picks: Vec::new(), budget, progress };
    if let Some(farthest) = farthest {
        if_it_fits(greedy.pick_by(&farthest))?;
    }
    greedy.pick_among(Candidates::All)?;
    Ok(greedy.picks)
}

/// [`k_center`] without centres.
fn from_the_middle(
    items: &Vectors,
    budget: usize,
    progress: &dyn Progress,
) -> Result<Vec<(u32, f64)>, Error> {
    let all: Vec<u32> = (0..items.len() as u32).collect();
    let mean = mean_of(&[(items, &all)], items.dim());
    let mut squares = vec![0.0; all.len()];
    let pieces = squares.par_chunks_mut(AT_ONCE).zip(all.par_chunks(AT_ONCE));
    pieces.for_each(|(squares, some)| items.squared_distances(&mean, some, squares));
    let nearer = |one: &u32, other: &u32| {
        squares[*one as usize].total_cmp(&squares[*other as usize]).then(one.cmp(other))
    };
    let Some(first) = all.into_iter().min_by(nearer).filter(|_| budget > 0) else {
        return Ok(Vec::new());
    };
    let centre =
        Vectors::new(items.matrix().gather(&[first]), "the first pick")?.on(items.device());
    let mut picks = k_center(&centre, items, budget, progress)?;
    // At no distance from itself, it comes last if at all.
    picks.retain(|&(item, _)| item != first);
    picks.insert(0, (first, picks.first().map_or(0.0, |&(_, distance)| distance)));
    picks.truncate(budget);
    Ok(picks)
}

/// Items whose distances to the mean one thread computes at once.
const AT_ONCE: usize = 1024;

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
    nearest_by(&distance_between(centres, items)?, progress)
}

fn distance_between(centres: &Vectors, items: &Vectors) -> Result<NegativeDistance, Error> {
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
    Ok(NegativeDistance::new(centres, items))
}

fn nearest_by(
    distance: &NegativeDistance,
    progress: &dyn Progress,
) -> Result<Vec<(u32, f64)>, Error> {
    let rows: Vec<u32> = (0..distance.rows() as u32).collect();
    let columns: Vec<u32> = (0..distance.columns() as u32).collect();
    let field = Field { rows: &rows, group_of_row: &|row| row, barred: &|_| None };
    let entries = kth_largest(distance, &field, &columns, 1, progress)?;
    Ok(entries
        .into_iter()
        .map(|entry| entry.expect("there is at least one centre"))
        .map(|entry| (entry.row, -entry.value))
        .collect())
}

/// The picks so far, and the next ones.
struct Greedy<'a> {
    /// The distance of every item when it was last looked at. One that is picked is below all.
    known: Vec<Bound>,
    chosen: Centres<'a>,
    picks: Vec<(u32, f64)>,
    budget: usize,
    progress: &'a dyn Progress,
}

/// Items to pick from.
enum Candidates {
    /// All that are left.
    All,
    /// A list from a GPU, valid while its items are farther than all others, with a limit on multiplications.
    Some(FarItems, usize),
}

/// Items that a GPU lists for each pick that is left: some are near each other.
const LISTED: usize = 4;

impl Greedy<'_> {
    /// Picks by lists of a GPU, while they are shorter than the pool.
    fn pick_by(&mut self, farthest: &Farthest<'_>) -> Result<(), Error> {
        let (mut added, mut least) = (0, farthest.at_least());
        while self.picks.len() < self.budget {
            unless_stopped(self.progress)?;
            farthest.add(&self.chosen.indices[added..])?;
            added = self.picks.len();
            let wanted = least.max(LISTED * (self.budget - self.picks.len()));
            let Some(far) = farthest.farthest(wanted)? else { break };
            self.pick_among(Candidates::Some(far, farthest.patience()))?;
            if self.picks.len() == added {
                // Every listed item is nearer than its bound: the farthest may be unlisted.
                least = LISTED * wanted;
            }
        }
        Ok(())
    }

    fn pick_among(&mut self, among: Candidates) -> Result<(), Error> {
        let left = |bound: &Bound| bound.value >= 0.0;
        let (mut heap, floor, patience): (BinaryHeap<Bound>, f64, usize) = match among {
            Candidates::All => (self.known.iter().copied().filter(left).collect(), 0.0, usize::MAX),
            Candidates::Some(FarItems { floor, items }, patience) => {
                let known = items.into_iter().map(|item| self.known[item as usize]);
                (known.filter(left).collect(), floor, patience)
            }
        };
        let (before, mut done) = (self.picks.len(), 0);
        let mut stale = Vec::new();
        while self.picks.len() < self.budget {
            unless_stopped(self.progress)?;
            let Some(top) = heap.pop() else { break };
            let tired = done > patience && self.picks.len() > before;
            if top.value < floor || tired {
                heap.push(top);
                break;
            }
            if top.seen == self.picks.len() {
                self.picks.push((top.item, top.value.sqrt()));
                self.chosen.push(top.item);
                self.known[top.item as usize].value = f64::NEG_INFINITY;
                self.progress.advance(1);
                continue;
            }
            // Update a batch at once: the next few on top are likely stale as well.
            stale.push(top);
            while stale.len() < BATCH
                && heap.peek().is_some_and(|next| next.seen < self.picks.len())
                && let Some(next) = heap.pop()
            {
                stale.push(next);
            }
            done += self.chosen.update_all(&mut stale);
            heap.extend(stale.drain(..));
        }
        for bound in heap {
            self.known[bound.item as usize] = bound;
        }
        Ok(())
    }
}

/// Candidates updated together.
const BATCH: usize = 32;
/// Multiplications below which threads cost more than they save.
const WORTH_THREADS: usize = 1 << 19;

/// The picks so far, as centres.
struct Centres<'a> {
    items: &'a Vectors,
    indices: Vec<u32>,
    /// Their vectors in single precision.
    rounded: Vec<f32>,
}

impl Centres<'_> {
    fn push(&mut self, index: u32) {
        let dim = self.items.dim();
        self.indices.push(index);
        let start = self.rounded.len();
        self.rounded.resize(start + dim, 0.0);
        self.items.read(index, 1.0, &mut self.rounded[start..]);
    }

    /// Updates candidates with the picks they have not seen; says how much it multiplied.
    fn update_all(&self, candidates: &mut [Bound]) -> usize {
        let unseen: usize = candidates.iter().map(|c| self.indices.len() - c.seen).sum();
        let work = unseen * self.items.dim();
        if work > WORTH_THREADS {
            candidates.par_iter_mut().for_each(|candidate| self.update(candidate));
        } else {
            candidates.iter_mut().for_each(|candidate| self.update(candidate));
        }
        work
    }

    /// Updates `candidate` with the picks it has not seen.
    fn update(&self, candidate: &mut Bound) {
        let close = match self.items.matrix().dtype() {
            // Single precision does not hold them, so a rough distance proves nothing.
            Dtype::F64 => self.indices[candidate.seen..].to_vec(),
            Dtype::F16 | Dtype::Bf16 | Dtype::F32 => self.maybe_closer(candidate),
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
