//! Sums over numbers in half precision that are exact in any order, and so may be taken in the fastest.
//!
//! A number in half precision is a whole multiple of 2^-24, a product of two of 2^-48. Multiples of that
//! below 2^5 have at most 53 binary digits, which double precision holds: while the magnitudes of all
//! terms add up to less, nothing is rounded, and every order gives the canonical sum.

use half::f16;
use nextpair_core::Element;

use crate::widest::{in_halves, widest};

/// Sums whose terms have magnitudes that add up to less than this are exact.
pub(crate) const EXACT: f64 = 32.0;

/// Sums side by side: enough for the widest vectors, and to hide the latency of their additions.
const LANES: usize = 32;

widest! {
    /// The sum of the squares of numbers in half precision. It is canonical if it is below [`EXACT`].
    squares(bytes: &[u8]) -> f64 {
        let (groups, rest) = bytes.as_chunks::<{ 2 * LANES }>();
        let mut sums = [0.0; LANES];
        for group in groups {
            for (lane, sum) in sums.iter_mut().enumerate() {
                let value = f16::decode(&group[2 * lane..]);
                *sum += value * value;
            }
        }
        let rest = rest.chunks_exact(2).map(f16::decode).map(|value| value * value);
        in_halves(sums, |one, other| one + other) + rest.sum::<f64>()
    }
}

widest! {
    /// The product of `x` and numbers in half precision. It is canonical if the numbers of `x` are such
    /// too and both norms multiply to less than [`EXACT`], which bounds the magnitudes (Cauchy and
    /// Schwarz).
    dot(x: &[f64], bytes: &[u8]) -> f64 {
        let (groups, rest) = bytes.as_chunks::<{ 2 * LANES }>();
        let (xs, last) = x.as_chunks::<LANES>();
        let mut sums = [0.0; LANES];
        for (x, group) in xs.iter().zip(groups) {
            for (lane, sum) in sums.iter_mut().enumerate() {
                *sum += x[lane] * f16::decode(&group[2 * lane..]);
            }
        }
        let rest = last.iter().zip(rest.chunks_exact(2)).map(|(x, y)| x * f16::decode(y));
        in_halves(sums, |one, other| one + other) + rest.sum::<f64>()
    }
}

widest! {
    /// `factor` times numbers in half precision, each rounded once to single precision.
    scaled(bytes: &[u8], factor: f64, out: &mut [f32]) -> () {
        for (out, bytes) in out.iter_mut().zip(bytes.chunks_exact(2)) {
            *out = (f16::decode(bytes) * factor) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draws;

    /// Draws numbers of half precision of all sizes, subnormal ones too.
    fn drawn(draws: &mut Draws, len: usize, largest: f64) -> (Vec<u8>, Vec<f64>) {
        let number = |_| {
            let size = largest * 2f64.powi(-(draws.below(28) as i32));
            f16::from_f64(draws.normal().clamp(-3.0, 3.0) / 3.0 * size)
        };
        let halves: Vec<f16> = (0..len).map(number).collect();
        let bytes = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        (bytes, halves.into_iter().map(f64::from).collect())
    }

    #[test]
    fn sums_have_the_bits_of_the_plain_order() {
        let mut draws = Draws::new(7);
        for round in 0..400 {
            let len = [1, 2, 31, 32, 33, 64, 100, 256, 515][round % 9];
            // The largest sums of magnitudes are just below the limit.
            let largest = (0.99 * EXACT / len as f64).sqrt();
            let (bytes, y) = drawn(&mut draws, len, largest);
            let (_, x) = drawn(&mut draws, len, largest);
            let plain = |x: &[f64]| x.iter().zip(&y).fold(0.0, |sum, (x, y)| sum + x * y);
            assert_eq!(dot(&x, &bytes).to_bits(), plain(&x).to_bits(), "{len}");
            assert_eq!(squares(&bytes).to_bits(), plain(&y).to_bits(), "{len}");
            let mut out = vec![0.0; len];
            scaled(&bytes, 0.3, &mut out);
            assert!(out.iter().zip(&y).all(|(out, y)| *out == (y * 0.3) as f32));
        }
    }

    #[test]
    fn what_is_not_a_number_is_not_below_the_limit() {
        for bad in [f16::NAN, f16::INFINITY, f16::MAX] {
            let bytes: Vec<u8> = [f16::ONE, bad].iter().flat_map(|h| h.to_le_bytes()).collect();
            let exact = squares(&bytes) < EXACT;
            assert!(!exact);
        }
    }
}
