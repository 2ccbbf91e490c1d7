//! Greedy cover of points: facility location with a Gaussian kernel (MaxHerding; Bae, Noh and
//! Sutherland, ECCV 2024).
//!
//! Points `v` are a sample of the pool and the paired set. With `k(v, i) = exp(-|f_v - f_i|² / s)`
//! on centred directions `f`, an item `i` of weight `w_i` covers a point up to `w_i k(v, i)`. Each
//! pick is the item that raises the sum of `q_v c_v` most, `c_v` being how far the point is covered
//! by anything paired or picked.
//!
//! The gain is monotone and submodular, so old gains are upper bounds (Minoux, 1978). Bounds come
//! from single-precision products, and are renewed for items on top of the heap; exact gains are
//! computed only for items that are still on top then. A GPU computes bounds of more items at once.

mod panel;

use std::collections::{BinaryHeap, HashMap};

use rayon::prelude::*;

use crate::canonical::exp;
use crate::centred::{Cosines, cosine};
use crate::device::{Gains, Levels, if_it_fits};
use crate::error::unless_stopped;
use crate::lazy::Bound;
use crate::packed::{Packed, ROWS};
use crate::points::Points;
use crate::product::product;
use crate::top::{Field, kth_largest};
use crate::{Error, Progress, ROW_BLOCK};
pub(crate) use panel::cosine_error;
use panel::{Panel, gain_above, rounded};

/// How far an item covers points beyond what was covered: ascending points.
type PointGains = Vec<(u32, f64)>;

/// A picked item.
pub(crate) struct CoverPick {
    pub(crate) item: u32,
    /// By how much it raised the sum.
    pub(crate) gain: f64,
    /// Number of points that it covers better than anything before it.
    pub(crate) points: usize,
    /// The pool items among them that it covers so much better, most first, and by which share of what was missing.
    pub(crate) learners: Vec<(u32, f64)>,
}

/// Weights of the items of a cover.
pub(crate) struct Weights {
    /// One weight per pool item; 1 without any.
    pub(crate) pool: Option<Vec<f64>>,
    /// The weight of everything paired.
    pub(crate) paired: f64,
}

/// The cover so far: how far points are covered, and which items could cover them better.
pub(crate) struct Cover<'a> {
    points: &'a Points,
    weights: &'a Weights,
    packed: Packed,
    gpu: Option<Gains<'a>>,
    levels: Vec<f64>,
    /// How far a point can be covered.
    most: f64,
    /// Cached gains by point, of items on top of the heap.
    known: HashMap<u32, PointGains>,
    /// Entries in `known`.
    entries: usize,
}

/// Items whose bounds are renewed together: a row block for each of a few threads.
const RENEWED: usize = 4 * ROW_BLOCK;
/// Items whose gains are computed exactly together.
const EXACT: usize = 16;
/// Cached entries at which the cache is cleared: 256 MB.
const REMEMBERED: usize = 16 << 20;
/// Points multiplied together in the first pass.
const POINTS_AT_ONCE: usize = 512;

impl<'a> Cover<'a> {
    /// Covers the points with everything paired.
    pub(crate) fn new(
        points: &'a Points,
        weights: &'a Weights,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let all: Vec<u32> = (0..points.len() as u32).collect();
        let paired: Vec<u32> = (0..points.paired.len() as u32).collect();
        let cosines = Cosines::new(&points.paired, &points.vectors);
        let field = Field { rows: &paired, group_of_row: &|row| row, barred: &|_| None };
        progress.start("paired items", paired.len() as u64 * all.len() as u64);
        let nearest = kth_largest(&cosines, &field, &all, 1, progress)?;
        let level = |entry: &crate::top::Entry| weights.paired * points.kernel(entry.value);
        let levels = nearest.iter().map(|entry| entry.as_ref().map_or(0.0, level)).collect();
        let packed = points.vectors.packed(&all);
        let gpu = if_it_fits(points.gains())?.flatten();
        let most = weights.pool.iter().flatten().fold(weights.paired, |most, &own| most.max(own));
        let known = HashMap::new();
        Ok(Cover { points, weights, packed, gpu, levels, most, known, entries: 0 })
    }

    /// How much of the points is uncovered.
    pub(crate) fn uncovered(&self) -> f64 {
        self.missing(&self.levels)
    }

    fn missing(&self, levels: &[f64]) -> f64 {
        let missing = |(point, level): (u32, &f64)| self.points.weight(point) * (self.most - level);
        (0..).zip(levels).map(missing).fold(0.0, |sum, missing| sum + missing)
    }

    /// The same once some more items are paired.
    pub(crate) fn uncovered_with(&self, items: &[u32]) -> f64 {
        let mut levels = self.levels.clone();
        for items in items.chunks(16 * ROWS) {
            let some = items.par_chunks(ROWS).flat_map_iter(|items| self.covered(items));
            for (point, value) in some.collect::<Vec<_>>().into_iter().flatten() {
                let level = &mut levels[point as usize];
                *level = level.max(value);
            }
        }
        self.missing(&levels)
    }

    /// Picks `budget` items, ties to the lower index, each with so many learners.
    pub(crate) fn pick(
        &mut self,
        (budget, learners): (usize, usize),
        progress: &dyn Progress,
    ) -> Result<Vec<CoverPick>, Error> {
        let mut heap = BinaryHeap::from(self.bounds(progress)?);
        progress.start("picks", budget as u64);
        let mut chosen: Vec<CoverPick> = Vec::with_capacity(budget);
        while chosen.len() < budget {
            unless_stopped(progress)?;
            let Some(top) = heap.pop() else { break };
            let state = self.state(&top, chosen.len());
            let at_once = match state {
                State::Current => {
                    let next = self.choose(top, &chosen, learners);
                    chosen.push(next);
                    progress.advance(1);
                    continue;
                }
                State::Bounded | State::Known => EXACT,
                State::Old => RENEWED.max(self.at_once() / 4),
            };
            // The next few on top are likely stale as well.
            let mut batch = vec![top];
            while batch.len() < at_once
                && heap.peek().is_some_and(|next| self.state(next, chosen.len()) == state)
                && let Some(next) = heap.pop()
            {
                batch.push(next);
            }
            match state {
                State::Old => self.renew(&mut batch, chosen.len())?,
                _ => self.compute(&mut batch, chosen.len()),
            }
            heap.extend(batch);
        }
        Ok(chosen)
    }

    fn state(&self, bound: &Bound, picks: usize) -> State {
        match bound.seen {
            seen if seen == exact(picks) => State::Current,
            _ if self.known.contains_key(&bound.item) => State::Known,
            seen if seen == bounded(picks) => State::Bounded,
            _ => State::Old,
        }
    }

    /// Picks an item whose gain is up to date.
    fn choose(&mut self, top: Bound, before: &[CoverPick], learners: usize) -> CoverPick {
        let gains = match self.known.remove(&top.item) {
            Some(gains) => {
                self.entries -= gains.len();
                gains
            }
            // The cache was cleared since.
            None => self.covered(&[top.item]).remove(0),
        };
        let learners = match learners {
            0 => Vec::new(),
            most => self.learners(&gains, (top.item, before), most),
        };
        for &(point, value) in &gains {
            self.levels[point as usize] = value;
        }
        CoverPick { item: top.item, gain: top.value, points: gains.len(), learners }
    }

    /// The pool items that an item covers so much better, but for itself and those that are chosen.
    fn learners(
        &self,
        gains: &PointGains,
        (item, before): (u32, &[CoverPick]),
        most: usize,
    ) -> Vec<(u32, f64)> {
        let gain = |&(point, value): &(u32, f64)| {
            let level = self.levels[point as usize];
            let share = (value - level) / (self.most - level);
            Some((self.points.pool_item(point)?, value - level, share))
        };
        let mut all: Vec<(u32, f64, f64)> = gains.iter().filter_map(gain).collect();
        all.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        let is_left = |other: &u32| *other != item && before.iter().all(|one| one.item != *other);
        let left = all.into_iter().map(|(other, _, share)| (other, share));
        left.filter(|(other, _)| is_left(other)).take(most).collect()
    }

    fn weight(&self, item: u32) -> f64 {
        self.weights.pool.as_ref().map_or(1.0, |weights| weights[item as usize])
    }

    /// Computes the exact gains of some items: all of them cached, or none.
    fn compute(&mut self, batch: &mut [Bound], picks: usize) {
        let known = |bound: &Bound| self.known.remove(&bound.item);
        let mut gains: Vec<PointGains> = batch.iter().filter_map(known).collect();
        self.entries -= gains.iter().map(Vec::len).sum::<usize>();
        if gains.is_empty() {
            let items: Vec<u32> = batch.iter().map(|bound| bound.item).collect();
            gains = items.par_chunks(ROWS).flat_map_iter(|items| self.covered(items)).collect();
        }
        for (bound, gains) in batch.iter_mut().zip(&mut gains) {
            gains.retain(|&(point, value)| value > self.levels[point as usize]);
            let gain = |&(point, value): &(u32, f64)| {
                self.points.weight(point) * (value - self.levels[point as usize])
            };
            bound.value = gains.iter().map(gain).fold(0.0, |sum, gain| sum + gain);
            bound.seen = exact(picks);
        }
        let entries: usize = gains.iter().map(Vec::len).sum();
        if self.entries + entries > REMEMBERED {
            self.known.clear();
            self.entries = 0;
        }
        self.entries += entries;
        self.known.extend(batch.iter().map(|bound| bound.item).zip(gains));
    }

    /// What some items cover beyond the levels, exactly.
    fn covered(&self, items: &[u32]) -> Vec<PointGains> {
        let (pool, vectors) = (&self.points.pool, &self.points.vectors);
        let mut products = vec![0.0; items.len() * self.packed.len()];
        self.packed.products(&pool.differences(items), &mut products);
        let of_item = |(&item, products): (&u32, &[f64])| {
            let (length, weight) = (pool.length(item as usize), self.weight(item));
            let value = |(point, &product): (u32, &f64)| {
                let cosine = cosine(product, length, vectors.length(point as usize));
                (point, weight * self.points.kernel(cosine))
            };
            let better = |&(point, value): &(u32, f64)| value > self.levels[point as usize];
            (0..).zip(products).map(value).filter(better).collect()
        };
        items.iter().zip(products.chunks_exact(self.packed.len())).map(of_item).collect()
    }

    /// Renews the bounds of some items.
    fn renew(&self, batch: &mut [Bound], picks: usize) -> Result<(), Error> {
        let screen = self.screen()?;
        let share = batch.len().div_ceil(rayon::current_num_threads());
        let block = share.clamp(1, self.at_once().max(ROW_BLOCK));
        batch.par_chunks_mut(block).try_for_each(|batch| {
            let items: Vec<u32> = batch.iter().map(|bound| bound.item).collect();
            for (bound, value) in batch.iter_mut().zip(self.block(&items, &screen)?) {
                // A gain never grows, so the lower of two bounds holds.
                bound.value = value.min(bound.value);
                bound.seen = bounded(picks);
            }
            Ok(())
        })
    }

    /// Items whose bounds are computed at once: more of a GPU.
    fn at_once(&self) -> usize {
        self.gpu.as_ref().map_or(ROW_BLOCK, Gains::at_once)
    }

    /// Points and levels, where bounds are computed.
    fn screen(&self) -> Result<Screen, Error> {
        let all: Vec<u32> = (0..self.points.len() as u32).collect();
        if let Some(gpu) = &self.gpu {
            let (levels, weights) = rounded(self.points, &self.levels, &all);
            if let Some(levels) = if_it_fits(gpu.levels(&levels, &weights))? {
                return Ok(Screen::Gpu(levels));
            }
        }
        Ok(Screen::Cpu(self.panels()))
    }

    fn panels(&self) -> Vec<Panel> {
        let all: Vec<u32> = (0..self.points.len() as u32).collect();
        let panel = |points: &[u32]| Panel::new(self.points, &self.levels, points);
        all.chunks(POINTS_AT_ONCE).map(panel).collect()
    }

    /// An upper bound on the gain of every pool item.
    fn bounds(&self, progress: &dyn Progress) -> Result<Vec<Bound>, Error> {
        let Points { pool, vectors, .. } = self.points;
        progress.start("kernel", pool.len() as u64 * vectors.len() as u64);
        let screen = self.screen()?;
        let items: Vec<u32> = (0..pool.len() as u32).collect();
        let block = |items: &[u32]| {
            unless_stopped(progress)?;
            let values = self.block(items, &screen)?;
            progress.advance(items.len() as u64 * vectors.len() as u64);
            let bound = |(&item, value)| Bound { value, item, seen: bounded(0) };
            Ok(items.iter().zip(values).map(bound).collect())
        };
        let blocks: Result<Vec<Vec<Bound>>, Error> =
            items.par_chunks(self.at_once()).map(block).collect();
        Ok(blocks?.concat())
    }

    /// Upper bounds on the gains of some items.
    fn block(&self, items: &[u32], screen: &Screen) -> Result<Vec<f64>, Error> {
        let found = match (screen, &self.gpu) {
            (Screen::Cpu(panels), _) => Some(self.block_here(items, panels)),
            (Screen::Gpu(levels), Some(gpu)) => {
                let weights: Vec<f32> = items.iter().map(|&i| self.weight(i) as f32).collect();
                if_it_fits(gpu.above(items, &weights, levels))?
                    .map(|gains| gains.into_iter().map(f64::from).collect())
            }
            (Screen::Gpu(_), None) => None,
        };
        let mut bounds = found.unwrap_or_else(|| self.block_here(items, &self.panels()));
        // Sums of up to 32 lanes in single precision, and the weight that was rounded.
        bounds.iter_mut().for_each(|gain| *gain = *gain * (1.0 + 1e-4) + 1e-30);
        Ok(bounds)
    }

    /// At least the gains of some items, but for the rounding of sums.
    fn block_here(&self, items: &[u32], panels: &[Panel]) -> Vec<f64> {
        let directions = self.points.pool.directions(items);
        let dim = directions.len() / items.len();
        let mut bounds = vec![0.0; items.len()];
        let mut cosines = Vec::new();
        for panel in panels {
            let width = panel.levels.len();
            cosines.resize(items.len() * width, 0.0);
            let shape = (items.len(), dim, width);
            product(shape, (&directions, dim, 1), (&panel.directions, 1, dim), &mut cosines);
            for ((bound, cosines), &item) in
                bounds.iter_mut().zip(cosines.chunks_exact(width)).zip(items)
            {
                let weight = self.weight(item) as f32;
                *bound += f64::from(gain_above(cosines, panel, weight, self.points.slope()));
            }
        }
        bounds
    }
}

/// Where bounds are computed, with the points or their levels.
enum Screen {
    Cpu(Vec<Panel>),
    Gpu(Levels),
}

/// The state of an item on the heap.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its gain is exact and up to date.
    Current,
    /// Its exact gain is stale: from before the last picks.
    Known,
    /// Its bound is up to date.
    Bounded,
    /// Its bound is stale.
    Old,
}

/// The mark of a bound that is computed after so many picks.
fn bounded(picks: usize) -> usize {
    2 * picks
}

/// The mark of an exact gain after so many picks.
fn exact(picks: usize) -> usize {
    2 * picks + 1
}

/// The kernel of a cosine: `exp(-|f_v - f_i|² / s)`, where `|f_v - f_i|² = 2 - 2 cos`.
pub(crate) fn kernel(cosine: f64, bandwidth: f64) -> f64 {
    exp(-squared_distance(cosine) / bandwidth)
}

/// The squared distance of two directions.
pub(crate) fn squared_distance(cosine: f64) -> f64 {
    (2.0 - 2.0 * cosine).max(0.0)
}
