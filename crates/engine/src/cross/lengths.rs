//! Lengths of vectors that stand side by side.

use pulp::{Arch, Simd, WithSimd};

use crate::packed::{Packed, VECTORS};

use super::attention::EPSILON;

/// The length of the vector in every lane of the panels.
pub(super) fn lengths(vectors: &Packed) -> Vec<f32> {
    let mut lengths = vec![0.0; vectors.panels() * vectors.width()];
    for (panel, lengths) in lengths.chunks_exact_mut(vectors.width()).enumerate() {
        Arch::new().dispatch(Lengths { panel: vectors.panel(panel), lengths });
    }
    lengths
}

/// Divides every vector by its length and a little more. Returns the lengths.
pub(super) fn normalise(vectors: &mut Packed) -> Vec<f32> {
    let lengths = lengths(vectors);
    for (panel, lengths) in lengths.chunks_exact(vectors.width()).enumerate() {
        Arch::new().dispatch(Divide { panel: vectors.panel_mut(panel), lengths });
    }
    lengths
}

struct Lengths<'a> {
    panel: &'a [f32],
    lengths: &'a mut [f32],
}

impl WithSimd for Lengths<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (vectors, _) = S::as_simd_f32s(self.panel);
        let (lines, _) = vectors.as_chunks::<VECTORS>();
        let (lengths, _) = S::as_mut_simd_f32s(self.lengths);
        // Four chains of every fourth coordinate: each addition need not wait for the last one.
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; 4];
        for lines in lines.chunks(sums.len()) {
            for (sums, line) in sums.iter_mut().zip(lines) {
                for v in 0..VECTORS {
                    sums[v] = simd.mul_add_f32s(line[v], line[v], sums[v]);
                }
            }
        }
        for v in 0..VECTORS {
            let even = simd.add_f32s(sums[0][v], sums[2][v]);
            let odd = simd.add_f32s(sums[1][v], sums[3][v]);
            lengths[v] = simd.sqrt_f32s(simd.add_f32s(even, odd));
        }
    }
}

struct Divide<'a> {
    panel: &'a mut [f32],
    lengths: &'a [f32],
}

impl WithSimd for Divide<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (lengths, _) = S::as_simd_f32s(self.lengths);
        let (vectors, _) = S::as_mut_simd_f32s(self.panel);
        let (lines, _) = vectors.as_chunks_mut::<VECTORS>();
        let mut factors = [simd.splat_f32s(0.0); VECTORS];
        for v in 0..VECTORS {
            let length = simd.add_f32s(lengths[v], simd.splat_f32s(EPSILON));
            factors[v] = simd.div_f32s(simd.splat_f32s(1.0), length);
        }
        for line in lines {
            for v in 0..VECTORS {
                line[v] = simd.mul_f32s(line[v], factors[v]);
            }
        }
    }
}
