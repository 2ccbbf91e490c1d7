//! The memory at work: queries replaced by what their gates let through.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use crate::elementwise::{sigmoid, tanh};
use crate::packed::{Packed, Sums, Tiles, VECTORS, accumulate, with_height};

use super::memory::Gated;

/// Numbers of queries that stay in cache while all weights pass by.
const GROUP: usize = 128 << 10;

/// What the queries of a span attended to.
#[derive(Clone, Copy)]
pub(super) struct Attended<'a> {
    /// The first panel.
    pub(super) first: usize,
    /// The lanes, counted from that panel.
    pub(super) lanes: (usize, usize),
    /// The weights of the attended rows.
    pub(super) weights: &'a Packed,
    /// What the memory made of the rows.
    pub(super) projected: &'a Tiles,
}

impl Attended<'_> {
    /// The lanes in a panel of the chunk.
    fn lanes_in(&self, panel: usize, width: usize) -> Range<usize> {
        let first = (panel - self.first) * width;
        self.lanes.0.max(first) - first..self.lanes.1.min(first + width) - first
    }
}

/// Replaces the queries `from` by those of the next step.
pub(super) struct Update<'a> {
    pub(super) memory: &'a Gated,
    /// What the memory makes of the queries, where that is known already.
    pub(super) started: Option<&'a Packed>,
    /// In the order of their lanes.
    pub(super) attended: &'a [Attended<'a>],
    pub(super) from: &'a Packed,
    pub(super) to: &'a mut Packed,
}

impl Update<'_> {
    pub(super) fn run(self) {
        self.to.shape(self.from.depth(), self.from.columns());
        Arch::new().dispatch(self);
    }

    /// What the queries of a panel attended to.
    fn attended_in(&self, panel: usize) -> &[Attended<'_>] {
        let width = self.from.width();
        let ends = |a: &Attended<'_>| a.first + a.lanes.1.div_ceil(width);
        let first = self.attended.partition_point(|a| ends(a) <= panel);
        let end = self.attended.partition_point(|a| a.first <= panel);
        &self.attended[first..end]
    }

    /// One tile of coordinates of one panel.
    #[inline(always)]
    fn tile<S: Simd, const R: usize>(&mut self, simd: S, tile: usize, panel: usize) {
        let width = VECTORS * S::F32_LANES;
        let rows = self.memory.plan.rows_of(tile);
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; R];
        match self.started {
            Some(started) => {
                let lines = &started.panel(panel)[rows.start * width..rows.end * width];
                let (vectors, _) = S::as_simd_f32s(lines);
                let (lines, _) = vectors.as_chunks::<VECTORS>();
                sums.iter_mut().zip(lines).for_each(|(sum, line)| *sum = *line);
            }
            None => {
                for (sum, &bias) in sums.iter_mut().zip(&self.memory.bias[rows]) {
                    *sum = [simd.splat_f32s(bias); VECTORS];
                }
                let weights = self.memory.query_tiles.values_of(tile);
                accumulate(simd, weights, self.from.panel(panel), &mut sums);
            }
        }
        let used = self.from.columns_of(panel).len();
        for attended in self.attended_in(panel) {
            let lanes = attended.lanes_in(panel, width);
            let projected = attended.projected.values_of(tile);
            let weights = attended.weights.panel(panel - attended.first);
            if lanes == (0..used) {
                accumulate(simd, projected, weights, &mut sums);
            } else {
                let mut added = sums;
                accumulate(simd, projected, weights, &mut added);
                take_lanes(simd, lanes, &added, &mut sums);
            }
        }
        let coordinates = self.memory.plan.units_of(tile);
        let lines = coordinates.start * width..coordinates.end * width;
        let (old, _) = S::as_simd_f32s(&self.from.panel(panel)[lines.clone()]);
        let (new, _) = S::as_mut_simd_f32s(&mut self.to.panel_mut(panel)[lines]);
        for c in 0..R / 2 {
            for v in 0..VECTORS {
                let proposal = tanh(simd, sums[c][v]);
                let gate = sigmoid(simd, sums[R / 2 + c][v]);
                let change = simd.sub_f32s(old[c * VECTORS + v], proposal);
                new[c * VECTORS + v] = simd.mul_add_f32s(gate, change, proposal);
            }
        }
    }
}

impl WithSimd for Update<'_> {
    type Output = ();

    // Inlined, like everything it calls, so that it is compiled for the vector unit in use.
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let plan = self.memory.plan;
        let panels = self.from.panels();
        let group = (GROUP / (self.from.depth() * self.from.width())).max(1);
        for first in (0..panels).step_by(group) {
            for tile in 0..plan.count() {
                for panel in first..panels.min(first + group) {
                    with_height!(even plan.rows_of(tile).len(), R => {
                        self.tile::<S, R>(simd, tile, panel)
                    });
                }
            }
        }
    }
}

/// Takes over the sums of some lanes.
#[inline(always)]
pub(super) fn take_lanes<S: Simd, const R: usize>(
    simd: S,
    lanes: Range<usize>,
    from: &[Sums<S>; R],
    to: &mut [Sums<S>; R],
) {
    for v in 0..VECTORS {
        let mut taken = simd.splat_f32s(0.0);
        let first = v * S::F32_LANES;
        let within = lanes.start.max(first)..lanes.end.min(first + S::F32_LANES);
        if !within.is_empty() {
            let marks = pulp::bytemuck::cast_slice_mut::<_, f32>(std::slice::from_mut(&mut taken));
            marks[within.start - first..within.end - first].fill(1.0);
        }
        let mask = simd.greater_than_f32s(taken, simd.splat_f32s(0.5));
        for r in 0..R {
            to[r][v] = simd.select_f32s(mask, from[r][v], to[r][v]);
        }
    }
}
