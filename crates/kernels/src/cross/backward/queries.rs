//! Back-propagates to the queries of a chunk, from the memory and from the scores.

use pulp::{Simd, WithSimd};

use crate::packed::{Packed, Tiles, VECTORS, accumulate, with_height};
use crate::unit::arch;

use super::super::spans::{Attended, add_attended};
use super::super::update::GROUP;

/// Adds to the gradient of the queries two products: the memory's weights with the gradient of its
/// outputs, and the rows of contexts with the gradients of their scores.
pub(super) struct QueriesBackward<'a> {
    /// The transpose of the memory's weights, and the gradient of its outputs.
    pub(super) memory: Option<(&'a Tiles, &'a Packed)>,
    /// The gradients of scores with the transposes of the contexts' rows.
    pub(super) scored: &'a [Attended<'a>],
    pub(super) gradient: &'a mut Packed,
}

impl QueriesBackward<'_> {
    pub(super) fn run(self) {
        arch().dispatch(self);
    }

    #[inline(always)]
    fn tile<S: Simd, const R: usize>(&mut self, simd: S, tile: usize, panel: usize) {
        let width = VECTORS * S::F32_LANES;
        let used = self.gradient.columns_of(panel).len();
        let rows = self.scored[0].added.plan().rows_of(tile);
        let lines = &mut self.gradient.panel_mut(panel)[rows.start * width..rows.end * width];
        let (lines, _) = S::as_mut_simd_f32s(lines);
        let (lines, _) = lines.as_chunks_mut::<VECTORS>();
        let mut sums = [[simd.splat_f32s(0.0); VECTORS]; R];
        sums.iter_mut().zip(&*lines).for_each(|(sum, line)| *sum = *line);
        if let Some((weights, arguments)) = self.memory {
            accumulate(simd, weights.values_of(tile), arguments.panel(panel), &mut sums);
        }
        add_attended(simd, self.scored, tile, panel, used, &mut sums);
        lines.iter_mut().zip(sums).for_each(|(line, sum)| *line = sum);
    }
}

impl WithSimd for QueriesBackward<'_> {
    type Output = ();

    // Inlined, like everything it calls, so that it is compiled for the vector unit in use.
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let Some(scored) = self.scored.first() else { return };
        let plan = scored.added.plan();
        let depth = self.memory.map_or(1, |(_, arguments)| arguments.depth());
        let group = (GROUP / (depth * self.gradient.width())).max(1);
        let panels = self.gradient.panels();
        for first in (0..panels).step_by(group) {
            for tile in 0..plan.count() {
                for panel in first..panels.min(first + group) {
                    with_height!(plan.rows_of(tile).len(), R => {
                        self.tile::<S, R>(simd, tile, panel)
                    });
                }
            }
        }
    }
}
