//! The left side of a product, laid out in tiles on use.

use std::ops::Range;

use super::{Aligned, with_height};

/// The left side of a product, anywhere in memory.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    values: &'a [f32],
    row: usize,
    column: usize,
}

impl<'a> Left<'a> {
    /// Rows that begin every `stride` numbers.
    pub fn rows(values: &'a [f32], stride: usize) -> Self {
        Left { values, row: stride, column: 1 }
    }

    /// The transpose of a matrix with rows of `stride` numbers: its columns become the rows.
    pub fn transposed(values: &'a [f32], stride: usize) -> Self {
        Left { values, row: 1, column: stride }
    }

    /// # Panics
    /// If there are fewer than `rows` rows of `depth` numbers.
    pub(super) fn check(&self, rows: usize, depth: usize) {
        if rows > 0 && depth > 0 {
            let last = (rows - 1) * self.row + (depth - 1) * self.column;
            assert!(last < self.values.len(), "{rows} rows of {depth} in {}", self.values.len());
        }
    }
}

/// Steps of the depth laid out together.
const STRETCH: usize = 16;

/// Rows of a left side in tiles of nearly equal heights: for every step of the depth, the numbers
/// of the tile's rows side by side.
#[derive(Debug, Default)]
pub(crate) struct Tiles {
    values: Aligned,
    depth: usize,
    plan: Plan,
}

/// How rows are divided into tiles. A unit is a number of rows that stay together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plan {
    unit: usize,
    units: usize,
    count: usize,
}

impl Plan {
    /// Plans as few tiles as possible, of at most `tallest` rows.
    pub(crate) fn new(units: usize, unit: usize, tallest: usize) -> Self {
        Plan { unit, units, count: units.div_ceil(tallest / unit) }
    }

    /// Number of tiles.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The units of a tile.
    pub(crate) fn units_of(&self, tile: usize) -> Range<usize> {
        self.units * tile / self.count..self.units * (tile + 1) / self.count
    }

    /// The rows of a tile.
    pub(crate) fn rows_of(&self, tile: usize) -> Range<usize> {
        let Range { start, end } = self.units_of(tile);
        start * self.unit..end * self.unit
    }
}

impl Tiles {
    /// Lays out the planned number of rows of `left`, from `first` on, in memory of their own.
    pub(crate) fn new(left: Left<'_>, first: usize, depth: usize, plan: Plan) -> Self {
        let mut tiles = Tiles::default();
        tiles.fill(left, first, depth, plan);
        tiles
    }

    /// Lays out the planned number of rows of `left`, from `first` on.
    #[inline(always)]
    pub(crate) fn fill(&mut self, left: Left<'_>, first: usize, depth: usize, plan: Plan) {
        (self.depth, self.plan) = (depth, plan);
        self.values.resize(plan.units * plan.unit * depth);
        // Without depth there is nothing to lay out, and no number to read.
        for tile in (0..plan.count).filter(|_| depth > 0) {
            let Range { start, end } = plan.rows_of(tile);
            let (height, first) = (end - start, first + start);
            let to = &mut self.values[start * depth..end * depth];
            if left.row == 1 {
                let from = &left.values[first..];
                with_height!(height, R => copy_lines::<R>(from, left.column, to));
                continue;
            }
            // One stretch of the depth at a time, which stays in the nearest cache.
            for (stretch, to) in to.chunks_mut(STRETCH * height).enumerate() {
                for r in 0..height {
                    let from = (first + r) * left.row + stretch * STRETCH * left.column;
                    let from = left.values[from..].iter().step_by(left.column);
                    to[r..].iter_mut().step_by(height).zip(from).for_each(|(to, from)| *to = *from);
                }
            }
        }
    }

    /// The division into tiles.
    pub(crate) fn plan(&self) -> Plan {
        self.plan
    }

    /// The numbers of a tile.
    #[inline(always)]
    pub(crate) fn values_of(&self, tile: usize) -> &[f32] {
        let Range { start, end } = self.plan.rows_of(tile);
        &self.values[start * self.depth..end * self.depth]
    }
}

/// Copies as many lines of `R` numbers as fit into `to`; they begin every `stride` numbers. The
/// length is a constant, because calls to copy a few numbers cost more than the copies.
#[inline(always)]
fn copy_lines<const R: usize>(from: &[f32], stride: usize, to: &mut [f32]) {
    let (lines, _) = to.as_chunks_mut::<R>();
    for (k, line) in lines.iter_mut().enumerate() {
        *line = *from[k * stride..].first_chunk::<R>().expect("checked when the product began");
    }
}
