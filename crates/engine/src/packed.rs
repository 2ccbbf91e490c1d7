//! Canonical products of many pairs: float64, ascending dimension, several vectors side by side.
//!
//! A canonical sum is a chain of dependent additions, so one pair at a time leaves the CPU idle.
//! Here every lane of a register is a chain of its own, and its bits are those of the plain loop.

use crate::widest::widest;

/// Vectors, interleaved in groups so that one load reads the same dimension of a whole group.
pub(crate) struct Packed {
    dim: usize,
    count: usize,
    /// Groups of [`LANES`] vectors; the last one is filled with zeros.
    values: Vec<f64>,
}

/// Vectors of a group.
const LANES: usize = 16;
/// Rows multiplied with a group at once.
pub(crate) const ROWS: usize = 4;
/// Rows that share a pass over the groups.
const BLOCK: usize = 64;

impl Packed {
    /// Packs `count` vectors; `read` writes one of them.
    pub(crate) fn new(dim: usize, count: usize, mut read: impl FnMut(usize, &mut [f64])) -> Self {
        let mut values = vec![0.0; count.div_ceil(LANES) * LANES * dim];
        let mut vector = vec![0.0; dim];
        for at in 0..count {
            read(at, &mut vector);
            let group = &mut values[at / LANES * LANES * dim..][..LANES * dim];
            let places = group.iter_mut().skip(at % LANES).step_by(LANES);
            places.zip(&vector).for_each(|(place, value)| *place = *value);
        }
        Packed { dim, count, values }
    }

    /// Number of vectors.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Writes the canonical dot products of `rows`, one vector after the other, with all packed
    /// vectors to `out`, row by row.
    pub(crate) fn products(&self, rows: &[f64], out: &mut [f64]) {
        self.products_from(rows, out, |_| 0);
    }

    /// Like [`products`](Self::products) of the packed vectors themselves: only those with a vector that is not before
    /// the row's block.
    pub(crate) fn upper_products(&self, rows: &[f64], out: &mut [f64]) {
        self.products_from(rows, out, |block| block * (BLOCK / LANES));
    }

    /// The products with the groups from the first one for a block on.
    fn products_from(&self, rows: &[f64], out: &mut [f64], first: impl Fn(usize) -> usize) {
        let (dim, count) = (self.dim, self.count);
        let mut interleaved = vec![0.0; dim * BLOCK.min((rows.len() / dim).next_multiple_of(ROWS))];
        let blocks = rows.chunks(BLOCK * dim).zip(out.chunks_mut(BLOCK * count));
        for (block, (rows, out)) in blocks.enumerate() {
            for (at, row) in rows.chunks_exact(dim).enumerate() {
                let four = &mut interleaved[at / ROWS * ROWS * dim..][..ROWS * dim];
                let places = four.iter_mut().skip(at % ROWS).step_by(ROWS);
                places.zip(row).for_each(|(place, value)| *place = *value);
            }
            // A group stays in cache while all rows of the block pass by.
            let groups = self.values.chunks_exact(LANES * dim).enumerate();
            for (group, packed) in groups.skip(first(block)) {
                let lanes = group * LANES..count.min((group + 1) * LANES);
                let fours = interleaved.chunks_exact(ROWS * dim);
                for (four, out) in fours.zip(out.chunks_mut(ROWS * count)) {
                    let sums = multiply(four, packed);
                    for (out, sums) in out.chunks_exact_mut(count).zip(&sums) {
                        out[lanes.clone()].copy_from_slice(&sums[..lanes.len()]);
                    }
                }
            }
        }
    }
}

widest! {
    /// Products of interleaved rows with a group.
    multiply(rows: &[f64], group: &[f64]) -> [[f64; LANES]; ROWS] {
        let mut sums = [[0.0; LANES]; ROWS];
        let (rows, _) = rows.as_chunks::<ROWS>();
        let (group, _) = group.as_chunks::<LANES>();
        for (row, group) in rows.iter().zip(group) {
            for (sums, x) in sums.iter_mut().zip(row) {
                for (sum, y) in sums.iter_mut().zip(group) {
                    *sum += x * y;
                }
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draws;

    #[test]
    fn products_have_the_bits_of_the_plain_loop() {
        let mut draws = Draws::new(1);
        for (rows, columns, dim) in [(1, 1, 1), (3, 17, 5), (9, 40, 33), (4, 16, 8), (131, 18, 3)] {
            let mut values =
                |count: usize| -> Vec<f64> { (0..count * dim).map(|_| draws.normal()).collect() };
            let (x, y) = (values(rows), values(columns));
            let packed =
                Packed::new(dim, columns, |at, out| out.copy_from_slice(&y[at * dim..][..dim]));
            let mut found = vec![f64::NAN; rows * columns];
            packed.products(&x, &mut found);
            for (at, found) in found.iter().enumerate() {
                let (x, y) = (&x[at / columns * dim..][..dim], &y[at % columns * dim..][..dim]);
                let mut sum = 0.0;
                for k in 0..dim {
                    sum += x[k] * y[k];
                }
                assert_eq!(found.to_bits(), f64::to_bits(sum));
            }
        }
    }

    #[test]
    fn upper_products_are_half_of_all() {
        let (mut draws, dim, count) = (Draws::new(2), 7, 150);
        let x: Vec<f64> = (0..count * dim).map(|_| draws.normal()).collect();
        let packed = Packed::new(dim, count, |at, out| out.copy_from_slice(&x[at * dim..][..dim]));
        let (mut all, mut upper) = (vec![0.0; count * count], vec![0.0; count * count]);
        packed.products(&x, &mut all);
        packed.upper_products(&x, &mut upper);
        for (at, (all, upper)) in all.iter().zip(&upper).enumerate() {
            assert!(all == upper || (at % count < at / count && *upper == 0.0), "{at}");
        }
        assert!(upper.contains(&0.0));
    }
}
