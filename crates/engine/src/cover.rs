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
//! computed only for items that are still on top then.

use std::collections::{BinaryHeap, HashMap};

use rayon::prelude::*;

use crate::canonical::exp;
use crate::centred::{Cosines, cosine, direction_error};
use crate::error::unless_stopped;
use crate::lazy::Bound;
use crate::packed::{Packed, ROWS};
use crate::points::Points;
use crate::screen::product;
use crate::top::{Field, kth_largest};
use crate::widest::widest;
use crate::{Error, Progress, ROW_BLOCK};

/// An item and how far it covers each point beyond what was covered: ascending points.
type Gains = Vec<(u32, f64)>;

/// A picked item.
pub(crate) struct Chosen {
    pub(crate) item: u32,
    /// By how much it raised the sum.
    pub(crate) gain: f64,
    /// Number of points that it covers better than anything before it.
    pub(crate) points: usize,
}

/// Weights of the items of a cover.
pub(crate) struct Weights {
    /// One weight per pool item; 1 without any.
    pub(crate) pool: Option<Vec<f64>>,
    /// The weight of everything paired.
    pub(crate) paired: f64,
}

/// How far points are covered, and by whom they could be covered better.
pub(crate) struct Cover<'a> {
    points: &'a Points,
    weights: &'a Weights,
    packed: Packed,
    levels: Vec<f64>,
    /// What items on top of the heap covered when they were last looked at.
    known: HashMap<u32, Gains>,
    /// Entries in `known`.
    entries: usize,
}

/// Items whose bounds are renewed together: a row block for each of a few threads.
const RENEWED: usize = 4 * ROW_BLOCK;
/// Items whose gains are computed exactly together.
const EXACT: usize = 16;
/// Entries that are remembered before all are forgotten: 256 MB.
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
        Ok(Cover { points, weights, packed, levels, known: HashMap::new(), entries: 0 })
    }

    /// Picks `budget` items, ties to the lower index.
    pub(crate) fn pick(
        mut self,
        budget: usize,
        progress: &dyn Progress,
    ) -> Result<Vec<Chosen>, Error> {
        let mut heap = BinaryHeap::from(self.bounds(progress)?);
        progress.start("picks", budget as u64);
        let mut chosen: Vec<Chosen> = Vec::with_capacity(budget);
        while chosen.len() < budget {
            unless_stopped(progress)?;
            let Some(top) = heap.pop() else { break };
            let state = self.state(&top, chosen.len());
            let at_once = match state {
                State::Current => {
                    chosen.push(self.choose(top));
                    progress.advance(1);
                    continue;
                }
                State::Bounded | State::Known => EXACT,
                State::Old => RENEWED,
            };
            // The next few on top are likely in the same state.
            let mut batch = vec![top];
            while batch.len() < at_once
                && heap.peek().is_some_and(|next| self.state(next, chosen.len()) == state)
                && let Some(next) = heap.pop()
            {
                batch.push(next);
            }
            match state {
                State::Old => self.renew(&mut batch, chosen.len()),
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

    /// Takes an item whose gain is current.
    fn choose(&mut self, top: Bound) -> Chosen {
        let gains = match self.known.remove(&top.item) {
            Some(gains) => {
                self.entries -= gains.len();
                gains
            }
            // Forgotten since it was computed.
            None => self.covered(&[top.item]).remove(0),
        };
        for &(point, value) in &gains {
            self.levels[point as usize] = value;
        }
        Chosen { item: top.item, gain: top.value, points: gains.len() }
    }

    fn weight(&self, item: u32) -> f64 {
        self.weights.pool.as_ref().map_or(1.0, |weights| weights[item as usize])
    }

    /// Computes the exact gains of some items, all of them known before or none.
    fn compute(&mut self, batch: &mut [Bound], picks: usize) {
        let known = |bound: &Bound| self.known.remove(&bound.item);
        let mut gains: Vec<Gains> = batch.iter().filter_map(known).collect();
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
    fn covered(&self, items: &[u32]) -> Vec<Gains> {
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
    fn renew(&self, batch: &mut [Bound], picks: usize) {
        let panels = self.panels();
        let block = batch.len().div_ceil(rayon::current_num_threads()).clamp(1, ROW_BLOCK);
        batch.par_chunks_mut(block).for_each(|batch| {
            let items: Vec<u32> = batch.iter().map(|bound| bound.item).collect();
            for (bound, value) in batch.iter_mut().zip(self.block(&items, &panels)) {
                // A gain never grows, so the lower of two bounds holds.
                bound.value = value.min(bound.value);
                bound.seen = bounded(picks);
            }
        });
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
        let panels = self.panels();
        let items: Vec<u32> = (0..pool.len() as u32).collect();
        let block = |items: &[u32]| {
            unless_stopped(progress)?;
            let values = self.block(items, &panels);
            progress.advance(items.len() as u64 * vectors.len() as u64);
            let bound = |(&item, value)| Bound { value, item, seen: bounded(0) };
            Ok(items.iter().zip(values).map(bound).collect())
        };
        let blocks: Result<Vec<Vec<Bound>>, Error> =
            items.par_chunks(ROW_BLOCK).map(block).collect();
        Ok(blocks?.concat())
    }

    /// Upper bounds on the gains of some items.
    fn block(&self, items: &[u32], panels: &[Panel]) -> Vec<f64> {
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
        // Sums of up to 32 lanes in single precision, and the weight that was rounded.
        bounds.iter_mut().for_each(|gain| *gain = *gain * (1.0 + 1e-4) + 1e-30);
        bounds
    }
}

/// What is known of an item on the heap.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its exact gain.
    Current,
    /// What it covered before the last picks.
    Known,
    /// A bound on its gain.
    Bounded,
    /// A bound from before the last picks.
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

/// Some points in single precision, rounded towards larger gains.
pub(crate) struct Panel {
    directions: Vec<f32>,
    levels: Vec<f32>,
    weights: Vec<f32>,
    /// Bound on the error of a cosine.
    error: f32,
}

impl Panel {
    fn new(points: &Points, levels: &[f64], which: &[u32]) -> Self {
        let directions = points.vectors.directions(which);
        let down = |&point: &u32| ((levels[point as usize] * (1.0 - 1e-6)) as f32).max(0.0);
        let up = |&point: &u32| (points.weight(point) * (1.0 + 1e-6)) as f32;
        Panel {
            levels: which.iter().map(down).collect(),
            weights: which.iter().map(up).collect(),
            // With the rounding of a sum near 1.
            error: (direction_error(directions.len() / which.len()) * 1.001 + 5e-7) as f32,
            directions,
        }
    }
}

widest! {
    /// At least the gain of an item at some points, from its cosines; `slope` is `2 / s`.
    gain_above(cosines: &[f32], panel: &Panel, weight: f32, slope: f32) -> f32 {
        const LANES: usize = 32;
        let term = |cosine: f32, level: f32, weight_of_point: f32| {
            let exponent = ((cosine + panel.error - 1.0) * slope).clamp(-80.0, 0.0);
            weight_of_point * (weight * exp_above(exponent) - level).max(0.0)
        };
        let mut sums = [0.0f32; LANES];
        let (cosines, last) = cosines.as_chunks::<LANES>();
        let (levels, last_levels) = panel.levels.as_chunks::<LANES>();
        let (weights, last_weights) = panel.weights.as_chunks::<LANES>();
        for ((cosines, levels), weights) in cosines.iter().zip(levels).zip(weights) {
            for lane in 0..LANES {
                sums[lane] += term(cosines[lane], levels[lane], weights[lane]);
            }
        }
        let mut sum: f32 = sums.iter().sum();
        for ((&cosine, &level), &weight_of_point) in last.iter().zip(last_levels).zip(last_weights) {
            sum += term(cosine, level, weight_of_point);
        }
        sum
    }
}

/// At least `exp(x)` for `x` in [-80, 0], and at most 0.002 % more.
#[inline(always)]
fn exp_above(x: f32) -> f32 {
    const ROUNDER: f32 = 12_582_912.0;
    let shifted = x * std::f32::consts::LOG2_E + ROUNDER;
    let power = shifted - ROUNDER;
    let rest = x - power * 0.693_359_4 + power * 2.121_944_4e-4;
    let mut sum = 1.0 / 720.0;
    for factor in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum * rest + factor;
    }
    let scale = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    // The series, the rounding of `x` and its product are within 1e-5.
    sum * scale * (1.0 + 1e-5)
}

/// The kernel of a cosine: `exp(-|f_v - f_i|² / s)`, where `|f_v - f_i|² = 2 - 2 cos`.
pub(crate) fn kernel(cosine: f64, bandwidth: f64) -> f64 {
    exp(-squared_distance(cosine) / bandwidth)
}

/// The squared distance of two directions.
pub(crate) fn squared_distance(cosine: f64) -> f64 {
    (2.0 - 2.0 * cosine).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rough_exponential_is_never_below() {
        for step in 0..=80_000 {
            let x = -step as f32 * 0.001;
            let (above, exact) = (f64::from(exp_above(x)), f64::from(x).exp());
            assert!(above >= exact && above <= exact * (1.0 + 2e-5), "exp({x}): {above} {exact}");
        }
    }
}
