//! Upper bounds on what items add to a cover of points, by a GPU.
//!
//! Cosines are products of directions in single precision, with the CPU's error bound. The bound of half precision is
//! too loose: it would keep the many points that an item covers only a little worse than others.

use std::sync::Arc;

use nextpair_cuda::{Argument, Array, Grid, Operand, Precision, Product};

use super::card::{Card, KERNELS, width};
use super::search::AT_ONCE;
use crate::Error;
use crate::screen::Source;

/// The points of a cover on a GPU.
pub(crate) struct Gains<'a> {
    card: Arc<Card>,
    items: &'a dyn Source,
    directions: Array<f32>,
    points: usize,
    /// A bound on the error of a cosine.
    error: f32,
    /// The slope of the kernel's exponent.
    slope: f32,
}

/// How far points are covered, rounded down, and their weights, rounded up.
pub(crate) struct Levels {
    levels: Array<f32>,
    weights: Array<f32>,
}

impl<'a> Gains<'a> {
    /// All `count` vectors of `points`, to be covered by `items`.
    pub(crate) fn new(
        card: Arc<Card>,
        items: &'a dyn Source,
        (points, count): (&dyn Source, usize),
        (error, slope): (f32, f32),
    ) -> Result<Self, Error> {
        let all: Vec<u32> = (0..count as u32).collect();
        let directions = Array::empty(&card.queue, count * width(points.dim()))?;
        let mut lane = card.lane()?;
        lane.direct(points, &all, &directions)?;
        // Other queues read them.
        lane.gpu.wait()?;
        drop(lane);
        Ok(Gains { card, items, directions, points: count, error, slope })
    }

    /// Items that are compared at once.
    pub(crate) fn at_once(&self) -> usize {
        let tiles = self.card.tiles;
        let scores = tiles.rows * tiles.columns / self.points.max(1);
        scores.min(AT_ONCE / width(self.items.dim())).max(1)
    }

    /// Puts levels and weights of the points there.
    pub(crate) fn levels(&self, levels: &[f32], weights: &[f32]) -> Result<Levels, Error> {
        let of = |numbers: &[f32]| Array::of(&self.card.queue, numbers);
        let levels = Levels { levels: of(levels)?, weights: of(weights)? };
        self.card.queue.wait()?;
        Ok(levels)
    }

    /// At least the gain of every one of `items`, whose weights are `of_items`, but for the rounding
    /// of a sum in single precision.
    pub(crate) fn above(
        &self,
        items: &[u32],
        of_items: &[f32],
        Levels { levels, weights }: &Levels,
    ) -> Result<Vec<f32>, Error> {
        let width = width(self.items.dim());
        let stride = self.points.next_multiple_of(8);
        let mut lane = self.card.lane()?;
        let gpu = lane.gpu.clone();
        let directions: Array<f32> = Array::empty(&gpu, items.len() * width)?;
        lane.direct(self.items, items, &directions)?;
        let of_items = Array::of(&gpu, of_items)?;
        let cosines: Array<f32> = Array::empty(&gpu, items.len() * stride)?;
        let gains: Array<f32> = Array::zeros(&gpu, items.len())?;
        let product = Product {
            rows: items.len(),
            columns: self.points,
            depth: width,
            left: Operand::new(&directions, 0, width),
            right: Operand::new(&self.directions, 0, width).turned(),
            keep: 0.0,
            precision: Precision::Single,
        };
        gpu.multiply(product, Operand::new(&cosines, 0, stride))?;
        let arguments: [Argument; 10] = [
            (&cosines).into(),
            (&of_items).into(),
            levels.into(),
            weights.into(),
            items.len().into(),
            self.points.into(),
            stride.into(),
            self.error.into(),
            self.slope.into(),
            (&gains).into(),
        ];
        let grid = Grid::blocks(items.len().div_ceil(8), 256);
        // SAFETY: the kernel takes these; there are as many cosines as items and points, and numbers of
        // all of them.
        unsafe { gpu.launch(&KERNELS, "gain", grid, &arguments)? };
        Ok(gains.to_vec()?)
    }
}
