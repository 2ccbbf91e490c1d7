//! The left side of a product, laid out in tiles as it is used.

use std::ops::Range;

/// The left side of a product, wherever its numbers lie.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    values: &'a [f32],
    row: usize,
    column: usize,
}

impl<'a> Left<'a> {
    /// Rows of `depth` numbers that begin every `stride` numbers.
    pub fn rows(values: &'a [f32], stride: usize) -> Self {
        Left { values, row: stride, column: 1 }
    }

    /// The transpose of a matrix with rows of `stride` numbers: its columns are the rows here.
    pub fn transposed(values: &'a [f32], stride: usize) -> Self {
        Left { values, row: 1, column: stride }
    }

    /// # Panics
    /// If `rows` rows of `depth` numbers are not there.
    pub(super) fn check(&self, rows: usize, depth: usize) {
        if rows > 0 && depth > 0 {
            let last = (rows - 1) * self.row + (depth - 1) * self.column;
            assert!(last < self.values.len(), "{rows} rows of {depth} in {}", self.values.len());
        }
    }
}

/// Steps of the depth that are laid out together.
const STRETCH: usize = 16;

/// Rows of a left side in tiles of nearly equal heights: for every step of the depth, the numbers
/// of the tile's rows side by side.
#[derive(Debug, Default)]
pub(crate) struct Tiles {
    values: Vec<f32>,
    depth: usize,
    rows: usize,
    count: usize,
}

impl Tiles {
    /// Lays out `rows` of `left` in tiles of at most `tallest`.
    #[inline(always)]
    pub(crate) fn fill(
        &mut self,
        left: Left<'_>,
        rows: Range<usize>,
        depth: usize,
        tallest: usize,
    ) {
        self.depth = depth;
        self.rows = rows.len();
        self.count = rows.len().div_ceil(tallest);
        self.values.resize(self.rows * depth, 0.0);
        for tile in 0..self.count {
            let Range { start, end } = self.rows_of(tile);
            let (height, first) = (end - start, rows.start + start);
            let to = &mut self.values[start * depth..end * depth];
            if left.row == 1 {
                for (k, to) in to.chunks_exact_mut(height).enumerate() {
                    to.copy_from_slice(&left.values[first + k * left.column..][..height]);
                }
                continue;
            }
            // A stretch of the depth at a time, which stays in the nearest cache.
            for (stretch, to) in to.chunks_mut(STRETCH * height).enumerate() {
                for r in 0..height {
                    let from = (first + r) * left.row + stretch * STRETCH * left.column;
                    let from = left.values[from..].iter().step_by(left.column);
                    to[r..].iter_mut().step_by(height).zip(from).for_each(|(to, from)| *to = *from);
                }
            }
        }
    }

    /// How many tiles there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The rows of a tile, counted from the first that was laid out.
    pub(crate) fn rows_of(&self, tile: usize) -> Range<usize> {
        self.rows * tile / self.count..self.rows * (tile + 1) / self.count
    }

    /// The numbers of a tile.
    pub(crate) fn values_of(&self, tile: usize) -> &[f32] {
        let Range { start, end } = self.rows_of(tile);
        &self.values[start * self.depth..end * self.depth]
    }
}
