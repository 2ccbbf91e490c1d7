//! A rotation that spreads the energy of every vector evenly over its dimensions.
//!
//! Embeddings often have a few outlying dimensions; 8-bit codes scaled to those would lose the
//! rest. Random signs and a blockwise Walsh-Hadamard transform keep all inner products and leave no
//! dimension sticking out, for a few additions per number. Only dimensions that are a multiple of a
//! vector register apart are mixed: enough to spread outliers, and fast.

use crate::Draws;
use crate::widest::widest;

/// The same rotation for all vectors of a dimension.
pub(super) struct Mixer {
    signs: Vec<f32>,
    block: usize,
    /// Smallest distance between mixed dimensions.
    step: usize,
}

/// Numbers in the widest vector register.
const LANES: usize = 16;

impl Mixer {
    pub(super) fn new(dim: usize) -> Self {
        let width = dim.next_multiple_of(64.min(dim.next_power_of_two()));
        let block = 1 << width.trailing_zeros();
        let mut draws = Draws::new(0x6d69_7865);
        let step = if block > 2 * LANES { LANES } else { 1 };
        // The transform needs a factor to keep norms; the signs carry it.
        let scale = 1.0 / ((block / step) as f32).sqrt();
        let sign = |_| if draws.bits() & 1 == 0 { scale } else { -scale };
        Mixer { signs: (0..width).map(sign).collect(), block, step }
    }

    /// Dimensions of a rotated vector: those of the input, rounded up.
    pub(super) fn width(&self) -> usize {
        self.signs.len()
    }

    /// Number of roundings of each number: one per butterfly, one for the factor itself and one for
    /// the product with it.
    pub(super) fn roundings(&self) -> usize {
        (self.block / self.step).trailing_zeros() as usize + 2
    }

    /// Rotates `vector`, whose numbers beyond the dimension are zero.
    pub(super) fn mix(&self, vector: &mut [f32]) {
        rotate(vector, &self.signs, self.block, self.step);
    }
}

widest! {
    /// Signs, then a Walsh-Hadamard transform of every block.
    rotate(vector: &mut [f32], signs: &[f32], length: usize, step: usize) -> () {
        vector.iter_mut().zip(signs).for_each(|(v, s)| *v *= s);
        for block in vector.chunks_exact_mut(length) {
            let mut half = step;
            while half < block.len() {
                for pair in block.chunks_exact_mut(2 * half) {
                    let (low, high) = pair.split_at_mut(half);
                    for (a, b) in low.iter_mut().zip(high) {
                        (*a, *b) = (*a + *b, *a - *b);
                    }
                }
                half *= 2;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_kept_and_outliers_spread() {
        for dim in [1, 5, 64, 100, 512] {
            let mixer = Mixer::new(dim);
            let mut draws = Draws::new(dim as u64);
            let mut vector = || -> Vec<f32> {
                let mut v: Vec<f32> = (0..dim).map(|_| draws.normal() as f32).collect();
                v[dim / 2] = 100.0;
                v.resize(mixer.width(), 0.0);
                v
            };
            let (mut x, mut y) = (vector(), vector());
            let dot = |x: &[f32], y: &[f32]| -> f64 {
                x.iter().zip(y).map(|(&x, &y)| x as f64 * y as f64).sum()
            };
            let before = dot(&x, &y);
            mixer.mix(&mut x);
            mixer.mix(&mut y);
            assert!((dot(&x, &y) - before).abs() < 1e-5 * before.abs());
            if dim >= 512 {
                assert!(x.iter().all(|v| v.abs() < 25.0));
            }
        }
    }
}
