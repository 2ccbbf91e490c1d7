//! From raw scores to attention weights.
//!
//! Queries stand side by side: the weights of a query are one lane of consecutive lines, and loops
//! over the attended rows are vector arithmetic. Only the normalisers run across the lanes, over
//! the queries of one item, in their order.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::Error;
use crate::elementwise::exp;
use crate::packed::{Packed, VECTORS};
use crate::unit::arch;

use super::Aggregation;

/// How to normalise raw scores before the softmax: over all queries of an item, for each attended
/// row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normaliser {
    /// Scales negative scores by a tenth, then divides by the Euclidean norm.
    ClippedL2,
    /// Divides by the Euclidean norm.
    L2,
    /// Scales negative scores by a tenth, then divides by the sum of magnitudes.
    ClippedL1,
    /// Divides by the sum of magnitudes.
    L1,
    /// Scales negative scores by a tenth.
    Clipped,
    /// Takes a softmax over the queries.
    Softmax,
    /// Leaves scores as they are.
    None,
}

impl Normaliser {
    /// Whether negative scores are scaled by a tenth.
    pub(crate) fn clips(self) -> bool {
        matches!(self, Normaliser::ClippedL2 | Normaliser::ClippedL1 | Normaliser::Clipped)
    }
}

/// Settings of attention and of its aggregation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Factor of the normalised scores before the softmax over the attended rows.
    pub temperature: f32,
    /// How to normalise scores.
    pub normaliser: Normaliser,
    /// How to aggregate the relevances of an item's queries.
    pub aggregation: Aggregation,
    /// Number of times the queries attend; the memory refines them in between.
    pub steps: usize,
    /// Whether to normalise refined queries.
    pub normalise_memory: bool,
}

impl Attention {
    /// Words that attend to regions as in SGRAF.
    pub fn alignment() -> Self {
        Attention {
            temperature: 9.0,
            normaliser: Normaliser::ClippedL2,
            aggregation: Aggregation::Mean,
            steps: 1,
            normalise_memory: false,
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let finite = |setting: &'static str, value: f32| {
            if value.is_finite() {
                return Ok(());
            }
            Err(Error::NotFinite { setting, value: value as f64 })
        };
        finite("the temperature", self.temperature)?;
        if let Aggregation::LogSumExp(factor) = self.aggregation {
            finite("the factor of LogSumExp", factor)?;
        }
        if self.steps == 0 { Err(Error::ZeroSteps) } else { Ok(()) }
    }

    /// Turns scores into weights, for items of queries in the given lanes.
    pub(super) fn weigh(&self, items: &[Range<usize>], scores: &Packed, weights: &mut Packed) {
        let Attention { normaliser, temperature, .. } = *self;
        arch().dispatch(Attend { normaliser, temperature, items, scores, weights });
    }
}

/// Added to norms before division.
pub(super) const EPSILON: f32 = 1e-8;

/// Slope of negative scores.
pub(super) const SLOPE: f32 = 0.1;

/// Cuts a run of lanes at the panels: each panel with its lanes.
pub(super) fn pieces(
    lanes: Range<usize>,
    width: usize,
) -> impl Iterator<Item = (usize, Range<usize>)> {
    (lanes.start / width..lanes.end.div_ceil(width)).map(move |panel| {
        let first = panel * width;
        (panel, lanes.start.max(first) - first..lanes.end.min(first + width) - first)
    })
}

/// Folds over the numbers of some lanes of a line, in their order.
#[inline(always)]
fn fold(
    matrix: &Packed,
    line: usize,
    lanes: &Range<usize>,
    start: f32,
    step: impl Fn(f32, f32) -> f32,
) -> f32 {
    let width = matrix.width();
    pieces(lanes.clone(), width).fold(start, |sum, (panel, lanes)| {
        matrix.panel(panel)[line * width..][lanes].iter().fold(sum, |sum, &x| step(sum, x))
    })
}

/// Changes the numbers of some lanes of a line.
#[inline(always)]
fn change(matrix: &mut Packed, line: usize, lanes: &Range<usize>, to: impl Fn(f32) -> f32) {
    let width = matrix.width();
    for (panel, lanes) in pieces(lanes.clone(), width) {
        matrix.panel_mut(panel)[line * width..][lanes].iter_mut().for_each(|x| *x = to(*x));
    }
}

/// Turns scores, one line per attended row, into weights.
struct Attend<'a> {
    normaliser: Normaliser,
    temperature: f32,
    /// The lanes of every item's queries.
    items: &'a [Range<usize>],
    scores: &'a Packed,
    weights: &'a mut Packed,
}

impl WithSimd for Attend<'_> {
    type Output = ();

    // Inlined, like everything it calls, so that it is compiled for the vector unit in use.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Attend { normaliser, temperature, items, scores, weights } = self;
        weights.shape(scores.depth(), scores.columns());
        let slope = simd.splat_f32s(SLOPE);
        for panel in 0..scores.panels() {
            let (from, _) = S::as_simd_f32s(scores.panel(panel));
            let (to, _) = S::as_mut_simd_f32s(weights.panel_mut(panel));
            for (to, &from) in to.iter_mut().zip(from) {
                let cut = simd.max_f32s(from, simd.mul_f32s(from, slope));
                *to = if normaliser.clips() { cut } else { from };
            }
        }
        normalise(simd, normaliser, temperature, items, weights);
        for panel in 0..weights.panels() {
            softmax(simd, weights.panel_mut(panel));
        }
    }
}

/// Divides by the norms over the queries of every item, and multiplies by the temperature.
#[inline(always)]
pub(super) fn normalise<S: Simd>(
    simd: S,
    normaliser: Normaliser,
    temperature: f32,
    items: &[Range<usize>],
    weights: &mut Packed,
) {
    if normaliser == Normaliser::Softmax {
        for (line, lanes) in every(items, weights.depth()) {
            let largest = fold(weights, line, lanes, f32::NEG_INFINITY, f32::max);
            change(weights, line, lanes, |x| x - largest);
        }
        for panel in 0..weights.panels() {
            let (vectors, _) = S::as_mut_simd_f32s(weights.panel_mut(panel));
            vectors.iter_mut().for_each(|x| *x = exp(simd, *x));
        }
    }
    for (line, lanes) in every(items, weights.depth()) {
        let norm = match normaliser {
            Normaliser::ClippedL2 | Normaliser::L2 => {
                fold(weights, line, lanes, 0.0, |sum, x| x.mul_add(x, sum)).sqrt() + EPSILON
            }
            Normaliser::ClippedL1 | Normaliser::L1 => {
                fold(weights, line, lanes, 0.0, |sum, x| sum + x.abs()) + EPSILON
            }
            Normaliser::Softmax => fold(weights, line, lanes, 0.0, |sum, x| sum + x),
            Normaliser::Clipped | Normaliser::None => 1.0,
        };
        let factor = temperature / norm;
        change(weights, line, lanes, |x| x * factor);
    }
}

/// Every item with every line.
#[inline(always)]
pub(super) fn every(
    items: &[Range<usize>],
    lines: usize,
) -> impl Iterator<Item = (usize, &Range<usize>)> {
    items.iter().flat_map(move |lanes| (0..lines).map(move |line| (line, lanes)))
}

/// Softmax over the lines of a panel, each lane on its own.
#[inline(always)]
fn softmax<S: Simd>(simd: S, panel: &mut [f32]) {
    let (vectors, _) = S::as_mut_simd_f32s(panel);
    let (lines, _) = vectors.as_chunks_mut::<VECTORS>();
    for v in 0..VECTORS {
        let mut largest = simd.splat_f32s(f32::NEG_INFINITY);
        for line in lines.iter() {
            largest = simd.max_f32s(line[v], largest);
        }
        let mut sum = simd.splat_f32s(0.0);
        for line in lines.iter_mut() {
            line[v] = exp(simd, simd.sub_f32s(line[v], largest));
            sum = simd.add_f32s(sum, line[v]);
        }
        let share = simd.div_f32s(simd.splat_f32s(1.0), sum);
        for line in lines.iter_mut() {
            line[v] = simd.mul_f32s(line[v], share);
        }
    }
}
