//! Runs the memory: replaces queries by refined ones.

use pulp::{Simd, WithSimd};

use crate::elementwise::{sigmoid, tanh};
use crate::packed::{Packed, VECTORS, accumulate, with_height};
use crate::unit::arch;

use super::memory::Gated;
use super::spans::{Attended, add_attended};

/// Numbers of queries that stay in cache while all weights pass by.
pub(super) const GROUP: usize = 128 << 10;

/// Replaces the queries `from` by those of the next step.
pub(super) struct Update<'a> {
    pub(super) memory: &'a Gated,
    /// The memory's projection of the queries, if already known.
    pub(super) started: Option<&'a Packed>,
    /// The attention of every span, in the order of the lanes.
    pub(super) attended: &'a [Attended<'a>],
    pub(super) from: &'a Packed,
    pub(super) to: &'a mut Packed,
    /// Where to keep proposals and gates, in the order of the memory's tiles, if wanted.
    pub(super) gates: Option<&'a mut Packed>,
}

impl Update<'_> {
    pub(super) fn run(mut self) {
        let columns = self.from.columns();
        self.to.shape(self.from.depth(), columns);
        if let Some(gates) = &mut self.gates {
            gates.shape(self.memory.bias.len(), columns);
        }
        arch().dispatch(self);
    }

    /// Computes one tile of dimensions of one panel.
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
                for (sum, &bias) in sums.iter_mut().zip(&self.memory.bias[rows.clone()]) {
                    *sum = [simd.splat_f32s(bias); VECTORS];
                }
                let weights = self.memory.query_tiles.values_of(tile);
                accumulate(simd, weights, self.from.panel(panel), &mut sums);
            }
        }
        let used = self.from.columns_of(panel).len();
        add_attended(simd, self.attended, tile, panel, used, &mut sums);
        let coordinates = self.memory.plan.units_of(tile);
        let lines = coordinates.start * width..coordinates.end * width;
        let (old, _) = S::as_simd_f32s(&self.from.panel(panel)[lines.clone()]);
        let (new, _) = S::as_mut_simd_f32s(&mut self.to.panel_mut(panel)[lines]);
        for c in 0..R / 2 {
            for v in 0..VECTORS {
                let proposal = tanh(simd, sums[c][v]);
                let gate = sigmoid(simd, sums[R / 2 + c][v]);
                (sums[c][v], sums[R / 2 + c][v]) = (proposal, gate);
                let change = simd.sub_f32s(old[c * VECTORS + v], proposal);
                new[c * VECTORS + v] = simd.mul_add_f32s(gate, change, proposal);
            }
        }
        if let Some(gates) = &mut self.gates {
            let (kept, _) = S::as_mut_simd_f32s(
                &mut gates.panel_mut(panel)[rows.start * width..rows.end * width],
            );
            let (kept, _) = kept.as_chunks_mut::<VECTORS>();
            kept.iter_mut().zip(sums).for_each(|(kept, sum)| *kept = sum);
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
