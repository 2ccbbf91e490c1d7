//! Back-propagates from cosines to weights, first scores and norms.

use pulp::{Simd, WithSimd};

use crate::packed::{Packed, VECTORS, panel_product};
use crate::unit::arch;

use super::super::context::Context;
use super::super::forward::LEAST;

/// With `p = a·s` the product of a query and its attended vector, `c = √(aᵀ G a)` the norm of the
/// attended vector and `n` the norm of the query, the cosine is `r = p / (n c)`. A gradient `g` of
/// the cosine gives
///
/// - `g s / (n c) - g r G a / c²` for the weights,
/// - `g a / (n c)` for the first scores,
/// - `-g r a aᵀ / (2 c²)` for `G`,
/// - and `-g r / n²` times the query for the query, because its norm is in the cosine too.
///
/// Where `n c` is below the smallest divisor of a cosine, only the first terms remain.
pub(super) struct RelevanceBackward<'a> {
    pub(super) context: &'a Context,
    pub(super) first: &'a Packed,
    pub(super) weights: &'a Packed,
    /// Norms of the queries, by lanes of the span's panels, as in the next three fields.
    pub(super) norms: &'a [f32],
    /// Gradients of their cosines.
    pub(super) gains: &'a [f32],
    /// Receives the factor of `a aᵀ` in the gradient of `G`.
    pub(super) squares: &'a mut [f32],
    /// Receives the factor of the query in its own gradient.
    pub(super) radial: &'a mut [f32],
    /// Receives the gradient of the weights.
    pub(super) weights_gradient: &'a mut Packed,
    /// The gradient of the first scores is added to it.
    pub(super) first_gradient: &'a mut Packed,
}

impl RelevanceBackward<'_> {
    pub(super) fn run(self) {
        self.weights_gradient.shape(self.weights.depth(), self.weights.columns());
        arch().dispatch(self);
    }
}

impl WithSimd for RelevanceBackward<'_> {
    type Output = ();

    // Inlined, like everything it calls, so that it is compiled for the vector unit in use.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let zero = simd.splat_f32s(0.0);
        let (least, half) = (simd.splat_f32s(LEAST), simd.splat_f32s(0.5));
        let width = VECTORS * S::F32_LANES;
        for panel in 0..self.weights.panels() {
            let to = self.weights_gradient.panel_mut(panel);
            // Holds the products with the Gram matrix before it holds the gradient.
            panel_product(simd, &self.context.gram, self.weights.panel(panel), false, to);
            let (to, _) = S::as_mut_simd_f32s(to);
            let (weights, _) = S::as_simd_f32s(self.weights.panel(panel));
            let (first, _) = S::as_simd_f32s(self.first.panel(panel));
            let (first_gradient, _) = S::as_mut_simd_f32s(self.first_gradient.panel_mut(panel));
            let lanes = panel * width..(panel + 1) * width;
            let (norms, _) = S::as_simd_f32s(&self.norms[lanes.clone()]);
            let (gains, _) = S::as_simd_f32s(&self.gains[lanes.clone()]);
            let (squares, _) = S::as_mut_simd_f32s(&mut self.squares[lanes.clone()]);
            let (radial, _) = S::as_mut_simd_f32s(&mut self.radial[lanes]);
            for v in 0..VECTORS {
                let (mut product, mut square) = (zero, zero);
                for row in (v..weights.len()).step_by(VECTORS) {
                    product = simd.mul_add_f32s(weights[row], first[row], product);
                    square = simd.mul_add_f32s(weights[row], to[row], square);
                }
                let square = simd.max_f32s(square, zero);
                let lengths = simd.mul_f32s(norms[v], simd.sqrt_f32s(square));
                let counts = simd.greater_than_f32s(lengths, least);
                let share = simd.div_f32s(gains[v], simd.max_f32s(lengths, least));
                // `g r`, to be divided by the square of either norm.
                let gained = simd.mul_f32s(share, product);
                let over = |square| simd.select_f32s(counts, simd.div_f32s(gained, square), zero);
                let by_context = over(square);
                let by_query = over(simd.mul_f32s(norms[v], norms[v]));
                let minus = simd.sub_f32s(zero, by_context);
                squares[v] = simd.mul_f32s(minus, half);
                radial[v] = simd.sub_f32s(zero, by_query);
                for row in (v..weights.len()).step_by(VECTORS) {
                    let overlap = simd.mul_f32s(minus, to[row]);
                    to[row] = simd.mul_add_f32s(share, first[row], overlap);
                    first_gradient[row] =
                        simd.mul_add_f32s(share, weights[row], first_gradient[row]);
                }
            }
        }
    }
}
