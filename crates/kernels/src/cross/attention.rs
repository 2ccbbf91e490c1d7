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

/// Runs `$call` for all lines of every item, with the constant `$count` set to the number of lines
/// that it takes from `$line` on. Sums over an item's lanes are chains, and one alone would wait for
/// its last addition: so several run side by side.
macro_rules! for_lines {
    ($items:expr, $lines:expr, |$line:ident, $lanes:ident| $count:ident => $call:expr) => {
        for $lanes in $items {
            let mut $line = 0;
            for_lines!(@ $lines, $line, $count => $call, 8 4 1);
        }
    };
    (@ $lines:expr, $line:ident, $count:ident => $call:expr, $($number:literal)*) => {$({
        const $count: usize = $number;
        while $line + $count <= $lines {
            $call;
            $line += $count;
        }
    })*};
}
pub(super) use for_lines;

/// Cuts a run of lanes at the panels: each panel with its lanes.
#[inline(always)]
pub(super) fn pieces(
    lanes: &Range<usize>,
    width: usize,
) -> impl Iterator<Item = (usize, Range<usize>)> {
    let Range { start, end } = *lanes;
    (start / width..end.div_ceil(width)).map(move |panel| {
        let first = panel * width;
        (panel, start.max(first) - first..end.min(first + width) - first)
    })
}

/// Some lanes of a panel for each of `L` lines from `line` on. Panels are `width` lanes wide, a
/// constant where this is inlined.
#[inline(always)]
pub(super) fn lines_of<const L: usize>(
    panel: &[f32],
    width: usize,
    line: usize,
    lanes: Range<usize>,
) -> [&[f32]; L] {
    let lines = &panel[line * width..][..L * width];
    let mut all = [&lines[..0]; L];
    for l in 0..L {
        all[l] = &lines[l * width..][lanes.clone()];
    }
    all
}

/// Folds over the numbers of some lanes, in their order, for each of `L` lines from `line` on.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
fn fold<const L: usize>(
    matrix: &Packed,
    width: usize,
    line: usize,
    lanes: &Range<usize>,
    start: f32,
    step: impl Fn(f32, f32) -> f32,
) -> [f32; L] {
    let mut sums = [start; L];
    for (panel, lanes) in pieces(lanes, width) {
        let lines: [&[f32]; L] = lines_of(matrix.panel(panel), width, line, lanes.clone());
        for at in 0..lanes.len() {
            for l in 0..L {
                sums[l] = step(sums[l], lines[l][at]);
            }
        }
    }
    sums
}

/// Changes the numbers of some lanes of `L` lines, each with the number of its line.
#[inline(always)]
fn change<const L: usize>(
    matrix: &mut Packed,
    width: usize,
    line: usize,
    lanes: &Range<usize>,
    numbers: [f32; L],
    to: impl Fn(f32, f32) -> f32,
) {
    for (panel, lanes) in pieces(lanes, width) {
        let lines = matrix.panel_mut(panel)[line * width..].chunks_exact_mut(width);
        for (line, number) in lines.zip(numbers) {
            line[lanes.clone()].iter_mut().for_each(|x| *x = to(*x, number));
        }
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
    let (width, depth) = (VECTORS * S::F32_LANES, weights.depth());
    if normaliser == Normaliser::Softmax {
        for_lines!(items, depth, |line, lanes| L => {
            let largest: [f32; L] = fold(weights, width, line, lanes, f32::NEG_INFINITY, f32::max);
            change(weights, width, line, lanes, largest, |x, largest| x - largest);
        });
        for panel in 0..weights.panels() {
            let (vectors, _) = S::as_mut_simd_f32s(weights.panel_mut(panel));
            vectors.iter_mut().for_each(|x| *x = exp(simd, *x));
        }
    }
    for_lines!(items, depth, |line, lanes| L => {
        let norms: [f32; L] = match normaliser {
            Normaliser::ClippedL2 | Normaliser::L2 => {
                fold(weights, width, line, lanes, 0.0, |sum, x| x.mul_add(x, sum))
                    .map(|square| square.sqrt() + EPSILON)
            }
            Normaliser::ClippedL1 | Normaliser::L1 => {
                fold(weights, width, line, lanes, 0.0, |sum, x| sum + x.abs())
                    .map(|sum| sum + EPSILON)
            }
            Normaliser::Softmax => fold(weights, width, line, lanes, 0.0, |sum, x| sum + x),
            Normaliser::Clipped | Normaliser::None => [1.0; L],
        };
        let factors = norms.map(|norm| temperature / norm);
        change(weights, width, line, lanes, factors, |x, factor| x * factor);
    });
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
