//! Back-propagates from refined queries to the memory's pre-activations.

use pulp::{Simd, WithSimd};

use crate::packed::{Packed, VECTORS};
use crate::unit::arch;

use super::super::memory::Gated;

/// With the refined query `g q + (1 - g) o`, `o` a hyperbolic tangent and `g` a logistic function,
/// a gradient `d` of the refined query gives `d g` for the old query, `d (1 - g) (1 - o²)` for the
/// argument of the tangent and `d (q - o) g (1 - g)` for the argument of the gate.
pub(super) struct GatesBackward<'a> {
    pub(super) memory: &'a Gated,
    /// Proposals and gates of the forward pass.
    pub(super) gates: &'a Packed,
    /// The queries before they were refined.
    pub(super) queries: &'a Packed,
    /// The gradient of the refined queries, replaced by that of the old ones.
    pub(super) gradient: &'a mut Packed,
    /// Receives the gradient of the memory's pre-activations.
    pub(super) arguments: &'a mut Packed,
}

impl GatesBackward<'_> {
    pub(super) fn run(self) {
        self.arguments.shape(self.gates.depth(), self.gates.columns());
        arch().dispatch(self);
    }
}

impl WithSimd for GatesBackward<'_> {
    type Output = ();

    // Inlined, like everything it calls, so that it is compiled for the vector unit in use.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let one = simd.splat_f32s(1.0);
        let plan = self.memory.plan;
        for panel in 0..self.queries.panels() {
            let (queries, _) = S::as_simd_f32s(self.queries.panel(panel));
            let (gates, _) = S::as_simd_f32s(self.gates.panel(panel));
            let (gradient, _) = S::as_mut_simd_f32s(self.gradient.panel_mut(panel));
            let (arguments, _) = S::as_mut_simd_f32s(self.arguments.panel_mut(panel));
            for tile in 0..plan.count() {
                let (units, rows) = (plan.units_of(tile), plan.rows_of(tile));
                let half = units.len() * VECTORS;
                for i in 0..half {
                    let (unit, proposed) = (units.start * VECTORS + i, rows.start * VECTORS + i);
                    let (o, g) = (gates[proposed], gates[proposed + half]);
                    let d = gradient[unit];
                    let closed = simd.mul_f32s(d, simd.sub_f32s(one, g));
                    let opened = simd.mul_f32s(d, g);
                    let bent = simd.sub_f32s(one, simd.mul_f32s(o, o));
                    arguments[proposed] = simd.mul_f32s(closed, bent);
                    let change = simd.mul_f32s(simd.sub_f32s(queries[unit], o), g);
                    arguments[proposed + half] = simd.mul_f32s(closed, change);
                    gradient[unit] = opened;
                }
            }
        }
    }
}
