//! Products of bytes: rows of `u8` times weights of `i8`, as quantised encoders ask for them.
//!
//! A CPU with AVX-512 VNNI multiplies 64 bytes and adds them to 16 sums in one instruction. Weights
//! stay in the order in which the innermost loop reads them, as in [`crate::Packed`]. Sums are
//! exact, so they do not depend on who computes them.

#[cfg(target_arch = "x86_64")]
mod avx512;

use nextpair_core::cpu;

/// Weights of `depth` rows of `columns` bytes, laid out for this CPU.
#[derive(Debug)]
pub struct ByteWeights {
    depth: usize,
    columns: usize,
    /// Panel after panel: for every [`GROUP`] steps of the depth its lines, side by side.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "x86-64 alone has products")
    )]
    lines: Vec<Line>,
    /// The sum of every column.
    sums: Vec<i32>,
}

/// What becomes of the sums of a product: `sum * scale + bias`, by column.
#[derive(Clone, Copy, Debug)]
pub struct Scaling<'a> {
    /// One factor per column.
    pub scales: &'a [f32],
    /// One number per column.
    pub bias: &'a [f32],
}

/// Steps of the depth that one instruction adds up.
const GROUP: usize = 4;
/// Columns of a line.
const LANES: usize = 16;

/// [`GROUP`] bytes of each of [`LANES`] columns.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([i8; GROUP * LANES]);

impl ByteWeights {
    /// Lays out weights, row by row. `None` if this CPU has no products of bytes.
    ///
    /// # Panics
    /// If `weights` has the wrong length.
    pub fn new(depth: usize, columns: usize, weights: &[i8]) -> Option<Self> {
        assert_eq!(weights.len(), depth * columns, "{depth} rows of {columns} bytes");
        if !has_byte_products() {
            return None;
        }
        let groups = depth.div_ceil(GROUP);
        let mut lines = Vec::with_capacity(columns.div_ceil(LANES) * groups);
        let mut first = 0;
        for vectors in crate::convolution::panels(columns.div_ceil(LANES)) {
            for line in 0..groups * vectors {
                let (group, start) = (line / vectors, first + line % vectors * LANES);
                let present = LANES.min(columns - start);
                let mut bytes = [0; GROUP * LANES];
                for step in group * GROUP..depth.min((group + 1) * GROUP) {
                    let from = &weights[step * columns + start..][..present];
                    let to = bytes[step % GROUP..].iter_mut().step_by(GROUP);
                    to.zip(from).for_each(|(to, from)| *to = *from);
                }
                lines.push(Line(bytes));
            }
            first += vectors * LANES;
        }
        let mut sums = vec![0; columns];
        for row in weights.chunks_exact(columns.max(1)) {
            sums.iter_mut().zip(row).for_each(|(sum, &byte)| *sum += i32::from(byte));
        }
        Some(ByteWeights { depth, columns, lines, sums })
    }

    /// Rows of the weights, and bytes of a row of the left side.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Columns of the weights, and of the product.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// `out = (rows - zero) · self`, scaled. The length of `out` sets the number of rows.
    ///
    /// # Panics
    /// If a length does not fit.
    pub fn multiply(&self, rows: &[u8], zero: u8, scaling: Scaling<'_>, out: &mut [f32]) {
        let Scaling { scales, bias } = scaling;
        assert!(scales.len() == self.columns && bias.len() == self.columns, "one per column");
        let count = out.len() / self.columns.max(1);
        assert_eq!(out.len(), count * self.columns, "whole rows");
        assert_eq!(rows.len(), count * self.depth, "{count} rows of {} bytes", self.depth);
        if out.is_empty() {
            return;
        }
        // Sums wrap around, and come back with what is added.
        let zero = -i32::from(zero);
        let starts: Vec<i32> = self.sums.iter().map(|&sum| zero.wrapping_mul(sum)).collect();
        let width = self.depth.next_multiple_of(GROUP);
        if width == self.depth {
            return self.run(rows, &starts, scaling, out);
        }
        // The bytes that fill a group up meet weights of zero.
        let mut wide = vec![0; count * width];
        for (to, from) in wide.chunks_exact_mut(width).zip(rows.chunks(self.depth.max(1))) {
            to[..self.depth].copy_from_slice(from);
        }
        self.run(&wide, &starts, scaling, out);
    }

    #[cfg(target_arch = "x86_64")]
    fn run(&self, rows: &[u8], starts: &[i32], scaling: Scaling<'_>, out: &mut [f32]) {
        // SAFETY: weights exist only where `has_byte_products` holds.
        unsafe { avx512::multiply(self, rows, starts, scaling, out) };
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn run(&self, _: &[u8], _: &[i32], _: Scaling<'_>, _: &mut [f32]) {
        unreachable!("there are no weights without products of bytes");
    }
}

/// Whether this CPU multiplies bytes in a way that is known here.
fn has_byte_products() -> bool {
    cpu().avx512_vnni
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(count: usize, seed: usize) -> Vec<u8> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1009 % 256) as u8).collect()
    }

    #[test]
    fn every_shape_equals_the_definition() {
        let shapes =
            [(1, 1, 1), (3, 5, 2), (9, 40, 31), (14, 384, 64), (8, 12, 49), (17, 1000, 97)];
        for (rows, depth, columns) in shapes {
            let left = bytes(rows * depth, 1);
            let right: Vec<i8> = bytes(depth * columns, 2).iter().map(|&b| b as i8).collect();
            let Some(weights) = ByteWeights::new(depth, columns, &right) else { return };
            let scales: Vec<f32> = (0..columns).map(|c| 0.001 * c as f32 - 0.01).collect();
            let bias: Vec<f32> = (0..columns).map(|c| c as f32 / 3.0).collect();
            for zero in [0, 7, 255] {
                let mut out = vec![f32::NAN; rows * columns];
                let scaling = Scaling { scales: &scales, bias: &bias };
                weights.multiply(&left, zero, scaling, &mut out);
                for (n, number) in out.iter().enumerate() {
                    let (row, column) = (n / columns, n % columns);
                    let sum: i32 = (0..depth)
                        .map(|k| {
                            (i32::from(left[row * depth + k]) - i32::from(zero))
                                * i32::from(right[k * columns + column])
                        })
                        .sum();
                    let expected = sum as f32 * scales[column] + bias[column];
                    assert_eq!(*number, expected, "{rows} x {depth} x {columns}, zero {zero}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "2 rows of 3 bytes")]
    fn missing_bytes_are_refused() {
        let Some(weights) = ByteWeights::new(3, 1, &[1, 2, 3]) else {
            panic!("2 rows of 3 bytes");
        };
        weights.multiply(&[0; 5], 0, Scaling { scales: &[1.0], bias: &[0.0] }, &mut [0.0; 2]);
    }
}
