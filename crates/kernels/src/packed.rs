//! Single-precision products whose right side is laid out once and used many times.
//!
//! A general product lays out its right side every time, which costs as much as the product itself
//! when the left side has few rows. Weights of a model do not change between products. So they stay
//! in the order in which the innermost loop reads them: in panels of two vectors of columns.
//!
//! Every number of a product is one chain of fused multiply-adds in the order of the depth. Its
//! bits do not depend on the other rows, on its position or on the number of threads.

mod aligned;
mod columns;
mod left;
mod task;
mod tile;

use std::ops::Range;

pub(crate) use aligned::Aligned;
pub use left::Left;
pub(crate) use left::{Plan, Tiles};
use task::Job;
pub(crate) use tile::{Sums, VECTORS, accumulate, panel_product, tile_size, with_height};

/// The right side of products, `depth` rows of `columns` numbers.
///
/// ```
/// use nextpair_kernels::{Left, Packed};
///
/// let right = Packed::new(2, 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// let mut out = [0.0; 3];
/// right.multiply(Left::rows(&[1.0, 10.0], 2), &mut out);
/// assert_eq!(out, [41.0, 52.0, 63.0]);
/// ```
#[derive(Debug)]
pub struct Packed {
    depth: usize,
    columns: usize,
    /// Columns per panel.
    width: usize,
    values: Aligned,
}

impl Packed {
    /// Lays out a matrix of `depth` rows of `columns` numbers.
    ///
    /// # Panics
    /// If `values` has the wrong length.
    pub fn new(depth: usize, columns: usize, values: &[f32]) -> Self {
        let mut packed = Self::empty();
        packed.repack(depth, columns, values);
        packed
    }

    /// Lays out the transpose of a matrix of `columns` rows of `depth` numbers, such as the
    /// weights `W` of a layer `x Wᵀ`.
    ///
    /// # Panics
    /// If `values` has the wrong length.
    pub fn transposed(columns: usize, depth: usize, values: &[f32]) -> Self {
        let mut packed = Self::empty();
        packed.repack_transposed(columns, depth, values);
        packed
    }

    /// An empty matrix, to be laid out later.
    pub(crate) fn empty() -> Self {
        let (_, width) = tile_size();
        Packed { depth: 0, columns: 0, width, values: Aligned::default() }
    }

    /// Lays out another matrix as [`Packed::new`] does, and reuses the memory if it fits.
    ///
    /// # Panics
    /// If `values` has the wrong length.
    pub fn repack(&mut self, depth: usize, columns: usize, values: &[f32]) {
        assert_eq!(values.len(), depth * columns, "{depth} rows of {columns} numbers");
        self.shape(depth, columns);
        let width = self.width;
        for (p, panel) in self.panels_mut().enumerate() {
            let first = p * width;
            let present = width.min(columns - first);
            for (k, line) in panel.chunks_exact_mut(width).enumerate() {
                copy_line(&values[k * columns + first..][..present], &mut line[..present]);
                line[present..].fill(0.0);
            }
        }
    }

    /// Lays out the transpose of another matrix as [`Packed::transposed`] does, and reuses the
    /// memory if it fits.
    ///
    /// # Panics
    /// If `values` has the wrong length.
    pub fn repack_transposed(&mut self, columns: usize, depth: usize, values: &[f32]) {
        assert_eq!(values.len(), depth * columns, "{columns} rows of {depth} numbers");
        self.repack_columns(depth, columns, |column| &values[column * depth..][..depth]);
    }

    /// Makes room for a matrix. The caller must write its panels.
    pub(crate) fn shape(&mut self, depth: usize, columns: usize) {
        (self.depth, self.columns) = (depth, columns);
        self.values.resize(self.panels() * depth * self.width);
    }

    fn panels_mut(&mut self) -> impl Iterator<Item = &mut [f32]> {
        // An empty panel has no numbers to write, but chunks must not be empty.
        let size = (self.depth * self.width).max(1);
        self.values.chunks_exact_mut(size)
    }

    /// Rows of the right side.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Columns of the right side, and of every product.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of panels.
    pub(crate) fn panels(&self) -> usize {
        self.columns.div_ceil(self.width)
    }

    /// The columns of a panel: their vectors for every step of the depth.
    #[inline(always)]
    pub(crate) fn panel(&self, panel: usize) -> &[f32] {
        let size = self.depth * self.width;
        &self.values[panel * size..][..size]
    }

    /// The same, for writing.
    #[inline(always)]
    pub(crate) fn panel_mut(&mut self, panel: usize) -> &mut [f32] {
        let size = self.depth * self.width;
        &mut self.values[panel * size..][..size]
    }

    /// Columns per panel on this CPU.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The column indices of a panel.
    #[inline(always)]
    pub(crate) fn columns_of(&self, panel: usize) -> Range<usize> {
        panel * self.width..self.columns.min((panel + 1) * self.width)
    }

    /// `out = left · self` on this thread. The length of `out` sets the number of rows.
    ///
    /// # Panics
    /// If `out` does not divide into rows, or `left` has fewer rows than `out`.
    pub fn multiply(&self, left: Left<'_>, out: &mut [f32]) {
        self.run(left, out, false, 1);
    }

    /// `out += left · self` on this thread: the sums continue from the numbers in `out`.
    ///
    /// # Panics
    /// As [`Packed::multiply`].
    pub fn multiply_add(&self, left: Left<'_>, out: &mut [f32]) {
        self.run(left, out, true, 1);
    }

    /// [`Packed::multiply`] on all threads.
    ///
    /// # Panics
    /// As [`Packed::multiply`].
    pub fn par_multiply(&self, left: Left<'_>, out: &mut [f32]) {
        self.run(left, out, false, rayon::current_num_threads());
    }

    /// [`Packed::multiply_add`] on all threads.
    ///
    /// # Panics
    /// As [`Packed::multiply`].
    pub fn par_multiply_add(&self, left: Left<'_>, out: &mut [f32]) {
        self.run(left, out, true, rayon::current_num_threads());
    }

    fn run(&self, left: Left<'_>, out: &mut [f32], add: bool, threads: usize) {
        if out.is_empty() {
            return;
        }
        assert!(self.columns > 0 && out.len().is_multiple_of(self.columns), "rows of out");
        left.check(out.len() / self.columns, self.depth);
        Job { packed: self, left, add }.run(out, threads);
    }
}

/// Copies a line in pieces of known length: a call per line would cost more than the copy.
#[inline(always)]
fn copy_line(from: &[f32], to: &mut [f32]) {
    let ((from, from_rest), (to, to_rest)) = (from.as_chunks::<8>(), to.as_chunks_mut::<8>());
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    to_rest.iter_mut().zip(from_rest).for_each(|(to, from)| *to = *from);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without a pattern that could hide a mistake.
    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 504.5 - 1.0).collect()
    }

    /// The definition: one chain of fused multiply-adds per number.
    fn plain(left: &[f32], right: &[f32], depth: usize, columns: usize, out: &mut [f32]) {
        for (i, out) in out.iter_mut().enumerate() {
            let (row, column) = (i / columns, i % columns);
            for k in 0..depth {
                *out = left[row * depth + k].mul_add(right[k * columns + column], *out);
            }
        }
    }

    fn transpose(values: &[f32], columns: usize) -> Vec<f32> {
        (0..columns).flat_map(|c| values.iter().skip(c).step_by(columns)).copied().collect()
    }

    #[test]
    fn every_shape_and_way_gives_the_same_bits() {
        let mut reused = Packed::new(3, 5, &numbers(15, 1));
        let shapes = [(1, 1, 1), (5, 3, 2), (13, 40, 31), (14, 64, 97), (25, 7, 32), (37, 0, 5)];
        let large = [(300, 500, 70), (64, 1024, 200)];
        for (rows, depth, columns) in shapes.into_iter().chain(large) {
            let (left, right) = (numbers(rows * depth, 2), numbers(depth * columns, 3));
            let before = numbers(rows * columns, 4);
            let (mut product, mut sum) = (vec![0.0; rows * columns], before.clone());
            plain(&left, &right, depth, columns, &mut product);
            plain(&left, &right, depth, columns, &mut sum);
            let packed = Packed::new(depth, columns, &right);
            let turned = Packed::transposed(columns, depth, &transpose(&right, columns));
            reused.repack(depth, columns, &right);
            let columns_first = transpose(&left, depth.max(1));
            for packed in [&packed, &turned, &reused] {
                for left in [Left::rows(&left, depth), Left::transposed(&columns_first, rows)] {
                    let mut out = before.clone();
                    packed.multiply(left, &mut out);
                    assert_eq!(out, product, "{rows} x {depth} x {columns}");
                    out.copy_from_slice(&before);
                    packed.par_multiply(left, &mut out);
                    assert_eq!(out, product);
                    out.copy_from_slice(&before);
                    packed.multiply_add(left, &mut out);
                    assert_eq!(out, sum);
                    out.copy_from_slice(&before);
                    packed.par_multiply_add(left, &mut out);
                    assert_eq!(out, sum);
                }
            }
        }
    }

    #[test]
    fn rows_may_lie_apart() {
        let (wide, right) = (numbers(4 * 9, 5), numbers(6 * 40, 6));
        let narrow: Vec<f32> = wide.chunks(9).flat_map(|row| &row[2..8]).copied().collect();
        let packed = Packed::new(6, 40, &right);
        let (mut apart, mut together) = (vec![0.0; 4 * 40], vec![0.0; 4 * 40]);
        packed.multiply(Left::rows(&wide[2..], 9), &mut apart);
        packed.multiply(Left::rows(&narrow, 6), &mut together);
        assert_eq!(apart, together);
    }

    #[test]
    #[should_panic(expected = "3 rows of 2 in 5")]
    fn missing_rows_are_refused() {
        Packed::new(2, 1, &[1.0, 2.0]).multiply(Left::rows(&[0.0; 5], 2), &mut [0.0; 3]);
    }
}
