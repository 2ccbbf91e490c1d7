//! Back-propagates from attention weights to raw scores.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::packed::{Packed, VECTORS};
use crate::unit::arch;

use super::super::Normaliser;
use super::super::attention::{EPSILON, SLOPE, every, normalise, pieces};

/// Replaces the gradient of the weights by the gradient of the scores.
pub(in super::super) struct AttendBackward<'a> {
    pub(in super::super) normaliser: Normaliser,
    pub(in super::super) temperature: f32,
    /// The lanes of every item's queries.
    pub(in super::super) items: &'a [Range<usize>],
    pub(in super::super) scores: &'a Packed,
    pub(in super::super) weights: &'a Packed,
    pub(in super::super) gradient: &'a mut Packed,
    /// Scratch memory for the normaliser's input or output.
    pub(in super::super) normalised: &'a mut Packed,
}

impl AttendBackward<'_> {
    pub(in super::super) fn run(self) {
        self.normalised.shape(self.scores.depth(), self.scores.columns());
        arch().dispatch(self);
    }
}

impl WithSimd for AttendBackward<'_> {
    type Output = ();

    // Inlined, like everything it calls, so that it is compiled for the vector unit in use.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let AttendBackward { normaliser, temperature, items, scores, weights, gradient, .. } = self;
        let (zero, one) = (simd.splat_f32s(0.0), simd.splat_f32s(1.0));
        let slope = |x| {
            let positive = simd.greater_than_f32s(x, zero);
            simd.select_f32s(positive, one, simd.splat_f32s(SLOPE))
        };
        for panel in 0..scores.panels() {
            softmax_backward(simd, temperature, weights.panel(panel), gradient.panel_mut(panel));
            let (from, _) = S::as_simd_f32s(scores.panel(panel));
            let (to, _) = S::as_mut_simd_f32s(self.normalised.panel_mut(panel));
            for (to, &from) in to.iter_mut().zip(from) {
                *to = if normaliser.clips() { simd.mul_f32s(from, slope(from)) } else { from };
            }
        }
        if normaliser == Normaliser::Softmax {
            normalise(simd, normaliser, 1.0, items, self.normalised);
        }
        for (line, lanes) in every(items, scores.depth()) {
            normalise_backward(normaliser, line, lanes, self.normalised, gradient);
        }
        for panel in (0..scores.panels()).filter(|_| normaliser.clips()) {
            let (scores, _) = S::as_simd_f32s(scores.panel(panel));
            let (gradient, _) = S::as_mut_simd_f32s(gradient.panel_mut(panel));
            for (gradient, &score) in gradient.iter_mut().zip(scores) {
                *gradient = simd.mul_f32s(*gradient, slope(score));
            }
        }
    }
}

/// With `a` the softmax of `t x`, the gradient of `x` is `t a (da - a·da)`.
#[inline(always)]
fn softmax_backward<S: Simd>(simd: S, temperature: f32, weights: &[f32], gradient: &mut [f32]) {
    let (weights, _) = S::as_simd_f32s(weights);
    let (gradient, _) = S::as_mut_simd_f32s(gradient);
    let temperature = simd.splat_f32s(temperature);
    for v in 0..VECTORS {
        let mut along = simd.splat_f32s(0.0);
        for row in (v..weights.len()).step_by(VECTORS) {
            along = simd.mul_add_f32s(weights[row], gradient[row], along);
        }
        for row in (v..weights.len()).step_by(VECTORS) {
            let share = simd.mul_f32s(temperature, weights[row]);
            gradient[row] = simd.mul_f32s(share, simd.sub_f32s(gradient[row], along));
        }
    }
}

/// Back-propagates through the norm over the queries of an item, for one attended row. `x` is the
/// input of the norm, or the output of a softmax.
#[inline(always)]
fn normalise_backward(
    normaliser: Normaliser,
    line: usize,
    lanes: &Range<usize>,
    x: &Packed,
    gradient: &mut Packed,
) {
    if matches!(normaliser, Normaliser::Clipped | Normaliser::None) {
        return;
    }
    let along = sum(x, gradient, line, lanes, |x, g| x * g);
    match normaliser {
        Normaliser::ClippedL2 | Normaliser::L2 => {
            let length = sum(x, gradient, line, lanes, |x, _| x * x).sqrt();
            let own = 1.0 / (length + EPSILON);
            let norm = if length > 0.0 { along / length * own * own } else { 0.0 };
            change(x, gradient, line, lanes, |x, g| g * own - x * norm);
        }
        Normaliser::ClippedL1 | Normaliser::L1 => {
            let own = 1.0 / (sum(x, gradient, line, lanes, |x, _| x.abs()) + EPSILON);
            let norm = along * own * own;
            let sign = |x: f32| if x == 0.0 { 0.0 } else { x.signum() };
            change(x, gradient, line, lanes, |x, g| g * own - sign(x) * norm);
        }
        _ => change(x, gradient, line, lanes, |x, g| x * (g - along)),
    }
}

/// The sum of a function of two matrices over some lanes of a line, in their order.
#[inline(always)]
fn sum(
    x: &Packed,
    y: &Packed,
    line: usize,
    lanes: &Range<usize>,
    term: impl Fn(f32, f32) -> f32,
) -> f32 {
    let width = x.width();
    pieces(lanes.clone(), width).fold(0.0, |sum, (panel, lanes)| {
        let x = &x.panel(panel)[line * width..][lanes.clone()];
        let y = &y.panel(panel)[line * width..][lanes];
        x.iter().zip(y).fold(sum, |sum, (&x, &y)| sum + term(x, y))
    })
}

/// Replaces `y` by a function of both matrices in some lanes of a line.
#[inline(always)]
fn change(
    x: &Packed,
    y: &mut Packed,
    line: usize,
    lanes: &Range<usize>,
    to: impl Fn(f32, f32) -> f32,
) {
    let width = x.width();
    for (panel, lanes) in pieces(lanes.clone(), width) {
        let x = &x.panel(panel)[line * width..][lanes.clone()];
        let y = &mut y.panel_mut(panel)[line * width..][lanes];
        x.iter().zip(y).for_each(|(&x, y)| *y = to(x, *y));
    }
}
