//! Norms and products of vectors that stand side by side, lane by lane.

use pulp::{Simd, WithSimd};

use crate::packed::{Packed, VECTORS};
use crate::unit::arch;

use super::attention::EPSILON;

/// The norm of the vector in every lane of the panels.
pub(super) fn lengths(vectors: &Packed) -> Vec<f32> {
    let mut lengths = dots(vectors, vectors);
    lengths.iter_mut().for_each(|length| *length = length.sqrt());
    lengths
}

/// Divides every vector by its norm plus epsilon. Returns the norms.
pub(super) fn normalise(vectors: &mut Packed) -> Vec<f32> {
    let lengths = lengths(vectors);
    let factors: Vec<f32> = lengths.iter().map(|length| 1.0 / (length + EPSILON)).collect();
    let width = vectors.width();
    for (panel, factors) in factors.chunks_exact(width).enumerate() {
        arch().dispatch(Scale { to: vectors.panel_mut(panel), factors });
    }
    lengths
}

/// Turns the gradient of normalised vectors into the gradient of their inputs: with
/// `y = x / (n + ε)` and `n` the norm of `x`, it is `dy / (n + ε) - y (dy·y) / n`.
pub(super) fn normalise_backward(gradient: &mut Packed, normalised: &Packed, lengths: &[f32]) {
    let along = dots(gradient, normalised);
    let own: Vec<f32> = lengths.iter().map(|length| 1.0 / (length + EPSILON)).collect();
    let radial = along.iter().zip(lengths);
    let radial = radial.map(|(along, &length)| if length > 0.0 { -along / length } else { 0.0 });
    let radial: Vec<f32> = radial.collect();
    let width = gradient.width();
    for (panel, factors) in own.chunks_exact(width).enumerate() {
        arch().dispatch(Scale { to: gradient.panel_mut(panel), factors });
    }
    add_scaled(gradient, normalised, &radial);
}

/// The dot product of the vectors in every lane of the panels.
fn dots(x: &Packed, y: &Packed) -> Vec<f32> {
    let mut dots = vec![0.0; x.panels() * x.width()];
    for (panel, dots) in dots.chunks_exact_mut(x.width()).enumerate() {
        arch().dispatch(Dots { x: x.panel(panel), y: y.panel(panel), dots });
    }
    dots
}

/// Adds to every vector of `to` that of `from` times the factor of its lane.
pub(super) fn add_scaled(to: &mut Packed, from: &Packed, factors: &[f32]) {
    for (panel, factors) in factors.chunks_exact(from.width()).enumerate() {
        let (to, from) = (to.panel_mut(panel), from.panel(panel));
        arch().dispatch(AddScaled { to, from, factors });
    }
}

struct Dots<'a> {
    x: &'a [f32],
    y: &'a [f32],
    dots: &'a mut [f32],
}

impl WithSimd for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (x, _) = S::as_simd_f32s(self.x);
        let (y, _) = S::as_simd_f32s(self.y);
        let (dots, _) = S::as_mut_simd_f32s(self.dots);
        // Four chains of every fourth dimension, so that no addition waits for the last one.
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; 4];
        for (x, y) in x.chunks(4 * VECTORS).zip(y.chunks(4 * VECTORS)) {
            for (i, (&x, &y)) in x.iter().zip(y).enumerate() {
                let sum = &mut sums[i / VECTORS][i % VECTORS];
                *sum = simd.mul_add_f32s(x, y, *sum);
            }
        }
        for v in 0..VECTORS {
            let even = simd.add_f32s(sums[0][v], sums[2][v]);
            let odd = simd.add_f32s(sums[1][v], sums[3][v]);
            dots[v] = simd.add_f32s(even, odd);
        }
    }
}

struct Scale<'a> {
    to: &'a mut [f32],
    factors: &'a [f32],
}

impl WithSimd for Scale<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (factors, _) = S::as_simd_f32s(self.factors);
        let (vectors, _) = S::as_mut_simd_f32s(self.to);
        for line in vectors.chunks_exact_mut(VECTORS) {
            for v in 0..VECTORS {
                line[v] = simd.mul_f32s(line[v], factors[v]);
            }
        }
    }
}

struct AddScaled<'a> {
    to: &'a mut [f32],
    from: &'a [f32],
    factors: &'a [f32],
}

impl WithSimd for AddScaled<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (factors, _) = S::as_simd_f32s(self.factors);
        let (from, _) = S::as_simd_f32s(self.from);
        let (to, _) = S::as_mut_simd_f32s(self.to);
        for (to, from) in to.chunks_exact_mut(VECTORS).zip(from.chunks_exact(VECTORS)) {
            for v in 0..VECTORS {
                to[v] = simd.mul_add_f32s(from[v], factors[v], to[v]);
            }
        }
    }
}
