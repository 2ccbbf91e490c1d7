//! Greedy cover of points: facility location with a Gaussian kernel (MaxHerding; Bae, Noh and
//! Sutherland, ECCV 2024).
//!
//! Points `v` are a sample of the pool and the paired set. With `k(v, i) = exp(-|f_v - f_i|² / s)`
//! on centred directions `f`, an item `i` of weight `w_i` covers a point up to `w_i k(v, i)`. Each
//! pick is the item that raises the sum of `q_v c_v` most, `c_v` being how far the point is covered
//! by anything paired or picked.
//!
//! The gain is monotone and submodular, so old gains are upper bounds (Minoux, 1978). The first
//! bounds come from single-precision products; exact gains are computed only for items on top.

use std::collections::{BinaryHeap, HashMap};

use rayon::prelude::*;

use crate::canonical::exp;
use crate::centred::{Centred, Cosines, cosine, direction_error};
use crate::error::unless_stopped;
use crate::lazy::Bound;
use crate::packed::Packed;
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

/// Candidates looked at together.
const BATCH: usize = 32;
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
        let mut stale: Vec<Bound> = Vec::with_capacity(BATCH);
        while chosen.len() < budget {
            unless_stopped(progress)?;
            let Some(top) = heap.pop() else { break };
            if top.seen == chosen.len() + 1 {
                let gains = match self.known.remove(&top.item) {
                    Some(gains) => {
                        self.entries -= gains.len();
                        gains
                    }
                    // Forgotten since it was looked at.
                    None => self.covered(top.item),
                };
                for &(point, value) in &gains {
                    self.levels[point as usize] = value;
                }
                chosen.push(Chosen { item: top.item, gain: top.value, points: gains.len() });
                progress.advance(1);
                continue;
            }
            // Look at a batch at once: the next few on top are likely old as well.
            stale.push(top);
            while stale.len() < BATCH
                && heap.peek().is_some_and(|next| next.seen <= chosen.len())
                && let Some(next) = heap.pop()
            {
                stale.push(next);
            }
            self.update(&mut stale, chosen.len() + 1);
            heap.extend(stale.drain(..));
        }
        Ok(chosen)
    }

    fn weight(&self, item: u32) -> f64 {
        self.weights.pool.as_ref().map_or(1.0, |weights| weights[item as usize])
    }

    /// Exact gains of some items, as of the picks so far; `seen` marks them as such.
    fn update(&mut self, stale: &mut [Bound], seen: usize) {
        let old: Vec<Option<Gains>> =
            stale.iter().map(|bound| self.known.remove(&bound.item)).collect();
        self.entries -= old.iter().flatten().map(Vec::len).sum::<usize>();
        let new = |(bound, old): (&mut Bound, Option<Gains>)| {
            let mut gains = old.unwrap_or_else(|| self.covered(bound.item));
            gains.retain(|&(point, value)| value > self.levels[point as usize]);
            let gain = |&(point, value): &(u32, f64)| {
                self.points.weight(point) * (value - self.levels[point as usize])
            };
            bound.value = gains.iter().map(gain).fold(0.0, |sum, gain| sum + gain);
            bound.seen = seen;
            (bound.item, gains)
        };
        let new: Vec<(u32, Gains)> = stale.par_iter_mut().zip(old).map(new).collect();
        self.entries += new.iter().map(|(_, gains)| gains.len()).sum::<usize>();
        if self.entries > REMEMBERED {
            self.known.clear();
            self.entries = new.iter().map(|(_, gains)| gains.len()).sum();
        }
        self.known.extend(new);
    }

    /// What an item covers beyond the levels, exactly.
    fn covered(&self, item: u32) -> Gains {
        let (pool, vectors) = (&self.points.pool, &self.points.vectors);
        let (length, weight) = (pool.length(item as usize), self.weight(item));
        let mut products = vec![0.0; self.packed.len()];
        self.packed.products(&pool.differences(&[item]), &mut products);
        let value = |(point, product): (u32, f64)| {
            let cosine = cosine(product, length, vectors.length(point as usize));
            (point, weight * self.points.kernel(cosine))
        };
        let better = |&(point, value): &(u32, f64)| value > self.levels[point as usize];
        (0..).zip(products).map(value).filter(better).collect()
    }

    /// An upper bound on the gain of every pool item.
    fn bounds(&self, progress: &dyn Progress) -> Result<Vec<Bound>, Error> {
        let Points { pool, vectors, .. } = self.points;
        progress.start("kernel", pool.len() as u64 * vectors.len() as u64);
        let all: Vec<u32> = (0..vectors.len() as u32).collect();
        let panels: Vec<Panel> = (all.chunks(POINTS_AT_ONCE))
            .map(|points| Panel::new(self.points, &self.levels, points))
            .collect();
        let items: Vec<u32> = (0..pool.len() as u32).collect();
        let block = |items: &[u32]| {
            unless_stopped(progress)?;
            let bounds = self.block(pool, items, &panels);
            progress.advance(items.len() as u64 * vectors.len() as u64);
            Ok(bounds)
        };
        let blocks: Result<Vec<_>, Error> = items.par_chunks(ROW_BLOCK).map(block).collect();
        Ok(blocks?.concat())
    }

    fn block(&self, pool: &Centred, items: &[u32], panels: &[Panel]) -> Vec<Bound> {
        let directions = pool.directions(items);
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
        let raised = |gain: f64| gain * (1.0 + 1e-4) + 1e-30;
        let bound = |(gain, &item): (f64, &u32)| Bound { value: raised(gain), item, seen: 0 };
        bounds.into_iter().zip(items).map(bound).collect()
    }
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
