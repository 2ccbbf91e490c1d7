//! Back-propagates from attention weights to raw scores.

use std::array::from_fn;
use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::packed::{Packed, VECTORS};
use crate::unit::arch;

use super::super::Normaliser;
use super::super::attention::{EPSILON, SLOPE, for_lines, lines_of, normalise, pieces};

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
        let width = VECTORS * S::F32_LANES;
        for_lines!(items, scores.depth(), |line, lanes| L => {
            let lines = Lines::<L> { width, line, lanes };
            normalise_backward(normaliser, lines, self.normalised, gradient)
        });
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

/// Some lanes of `L` lines from `line` on, in panels of `width` lanes.
#[derive(Clone, Copy)]
struct Lines<'a, const L: usize> {
    width: usize,
    line: usize,
    lanes: &'a Range<usize>,
}

/// Back-propagates through the norms over the queries of an item, for some attended rows. `x` is the
/// input of the norms, or the output of a softmax.
#[inline(always)]
fn normalise_backward<const L: usize>(
    normaliser: Normaliser,
    lines: Lines<'_, L>,
    x: &Packed,
    gradient: &mut Packed,
) {
    if matches!(normaliser, Normaliser::Clipped | Normaliser::None) {
        return;
    }
    let along = lines.sums(x, gradient, |x, g| x * g);
    match normaliser {
        Normaliser::ClippedL2 | Normaliser::L2 => {
            let squares = lines.sums(x, gradient, |x, _| x * x);
            let factors = from_fn(|l| {
                let length = squares[l].sqrt();
                let own = 1.0 / (length + EPSILON);
                (own, if length > 0.0 { along[l] / length * own * own } else { 0.0 })
            });
            lines.change(x, gradient, factors, |x, g, (own, norm)| g * own - x * norm);
        }
        Normaliser::ClippedL1 | Normaliser::L1 => {
            let sums = lines.sums(x, gradient, |x, _| x.abs());
            let factors = from_fn(|l| {
                let own = 1.0 / (sums[l] + EPSILON);
                (own, along[l] * own * own)
            });
            let sign = |x: f32| if x == 0.0 { 0.0 } else { x.signum() };
            lines.change(x, gradient, factors, |x, g, (own, norm)| g * own - sign(x) * norm);
        }
        _ => lines.change(x, gradient, along, |x, g, along| x * (g - along)),
    }
}

impl<const L: usize> Lines<'_, L> {
    /// For every line the sum of a function of two matrices over the lanes, in their order.
    #[inline(always)]
    fn sums(self, x: &Packed, y: &Packed, term: impl Fn(f32, f32) -> f32) -> [f32; L] {
        let mut sums = [0.0; L];
        for (panel, lanes) in pieces(self.lanes, self.width) {
            let Lines { width, line, .. } = self;
            let x: [&[f32]; L] = lines_of(x.panel(panel), width, line, lanes.clone());
            let y: [&[f32]; L] = lines_of(y.panel(panel), width, line, lanes.clone());
            for at in 0..lanes.len() {
                for l in 0..L {
                    sums[l] += term(x[l][at], y[l][at]);
                }
            }
        }
        sums
    }

    /// Replaces `y` by a function of both matrices and of what belongs to the line.
    #[inline(always)]
    fn change<T: Copy>(
        self,
        x: &Packed,
        y: &mut Packed,
        of_lines: [T; L],
        to: impl Fn(f32, f32, T) -> f32,
    ) {
        let first = self.line * self.width;
        for (panel, lanes) in pieces(self.lanes, self.width) {
            let x = x.panel(panel)[first..].chunks_exact(self.width);
            let y = y.panel_mut(panel)[first..].chunks_exact_mut(self.width);
            for ((x, y), of_line) in x.zip(y).zip(of_lines) {
                let y = y[lanes.clone()].iter_mut();
                y.zip(&x[lanes.clone()]).for_each(|(y, &x)| *y = to(x, *y, of_line));
            }
        }
    }
}
