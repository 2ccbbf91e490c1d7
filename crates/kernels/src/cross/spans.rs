//! Products that differ from span to span of a chunk.

use std::ops::Range;

use pulp::Simd;

use crate::packed::{Packed, Sums, Tiles, VECTORS, accumulate};

/// The attention of a span: one number per attended row and lane.
#[derive(Clone, Copy)]
pub(super) struct Attended<'a> {
    /// The first panel.
    pub(super) first: usize,
    /// The lanes, counted from that panel.
    pub(super) lanes: (usize, usize),
    /// The weights of the attended rows.
    pub(super) weights: &'a Packed,
    /// The rows to add, as the left side of a product with the weights.
    pub(super) added: &'a Tiles,
}

impl Attended<'_> {
    /// The lanes of the span in a panel of the chunk.
    fn lanes_in(&self, panel: usize, width: usize) -> Range<usize> {
        let first = (panel - self.first) * width;
        self.lanes.0.max(first) - first..self.lanes.1.min(first + width) - first
    }
}

/// Adds the attended rows of a panel's queries to a tile of sums. `used` lanes of the panel are not
/// padding; `attended` is in the order of the lanes.
#[inline(always)]
pub(super) fn add_attended<S: Simd, const R: usize>(
    simd: S,
    attended: &[Attended<'_>],
    tile: usize,
    panel: usize,
    used: usize,
    sums: &mut [Sums<S>; R],
) {
    let width = VECTORS * S::F32_LANES;
    let begun = attended.partition_point(|a| a.first <= panel);
    let over = attended.partition_point(|a| a.first + a.lanes.1.div_ceil(width) <= panel);
    for attended in &attended[over..begun] {
        let lanes = attended.lanes_in(panel, width);
        let added = attended.added.values_of(tile);
        let weights = attended.weights.panel(panel - attended.first);
        if lanes == (0..used) {
            accumulate(simd, added, weights, sums);
        } else {
            // Other lanes of the panel belong to other contexts.
            let mut with = *sums;
            accumulate(simd, added, weights, &mut with);
            take_lanes(simd, lanes, &with, sums);
        }
    }
}

/// Copies the sums of some lanes.
#[inline(always)]
fn take_lanes<S: Simd, const R: usize>(
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
