//! Gates and state of one word, in one pass over its numbers.

use pulp::{Simd, WithSimd};

use crate::elementwise::{sigmoid, tanh};
use crate::unit::arch;

/// One word of one caption: what its state is made of, and where it goes.
pub(super) struct Gates<'a> {
    /// The product of the weights with the input, as the next two in the order r, z, n.
    pub(super) given: &'a [f32],
    /// The product of the weights with the previous state.
    pub(super) recurrent: &'a [f32],
    pub(super) bias: &'a [f32],
    /// The previous state.
    pub(super) before: &'a [f32],
    /// Receives r, z, c and the recurrent part of c before r.
    pub(super) gates: &'a mut [f32],
    /// Receives the state.
    pub(super) state: &'a mut [f32],
}

/// The argument of a gate.
#[inline(always)]
fn argument<S: Simd>(simd: S, given: S::f32s, recurrent: S::f32s, bias: S::f32s) -> S::f32s {
    simd.add_f32s(simd.add_f32s(recurrent, bias), given)
}

/// The numbers in `gates` and the state, of some lanes of a word.
#[inline(always)]
fn pass<S: Simd>(
    simd: S,
    [given, recurrent, bias]: [[S::f32s; 3]; 3],
    before: S::f32s,
) -> [S::f32s; 5] {
    let r = sigmoid(simd, argument(simd, given[0], recurrent[0], bias[0]));
    let z = sigmoid(simd, argument(simd, given[1], recurrent[1], bias[1]));
    let inner = simd.add_f32s(recurrent[2], bias[2]);
    let c = tanh(simd, simd.add_f32s(given[2], simd.mul_f32s(r, inner)));
    let change = simd.mul_f32s(z, simd.sub_f32s(before, c));
    [r, z, c, inner, simd.add_f32s(c, change)]
}

impl Gates<'_> {
    pub(super) fn run(self) {
        arch().dispatch(self);
    }
}

impl WithSimd for Gates<'_> {
    type Output = ();

    // Inlined, like everything it calls, so that it is compiled for the vector unit in use.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (dim, zero) = (self.state.len(), simd.splat_f32s(0.0));
        let inputs = [self.given, self.recurrent, self.bias];
        let (reset, rest) = self.gates.split_at_mut(dim);
        let (keep, rest) = rest.split_at_mut(dim);
        let (candidate, inner) = rest.split_at_mut(dim);
        let mut outputs = [reset, keep, candidate, inner, self.state];
        let mut parts = [[zero; 3]; 3];
        let whole = dim - dim % S::F32_LANES;
        // By index, because a closure would not be compiled for the vector unit.
        for first in (0..whole).step_by(S::F32_LANES) {
            for (part, input) in parts.iter_mut().zip(inputs) {
                for gate in 0..3 {
                    part[gate] = whole_vector::<S>(&input[gate * dim + first..]);
                }
            }
            let found = pass(simd, parts, whole_vector::<S>(&self.before[first..]));
            for (to, found) in outputs.iter_mut().zip(found) {
                S::as_mut_simd_f32s(&mut to[first..]).0[0] = found;
            }
        }
        if whole == dim {
            return;
        }
        for (part, input) in parts.iter_mut().zip(inputs) {
            for gate in 0..3 {
                part[gate] = simd.partial_load_f32s(&input[gate * dim + whole..(gate + 1) * dim]);
            }
        }
        let found = pass(simd, parts, simd.partial_load_f32s(&self.before[whole..dim]));
        for (to, found) in outputs.iter_mut().zip(found) {
            simd.partial_store_f32s(&mut to[whole..dim], found);
        }
    }
}

/// The first numbers of `from`.
#[inline(always)]
fn whole_vector<S: Simd>(from: &[f32]) -> S::f32s {
    S::as_simd_f32s(from).0[0]
}
