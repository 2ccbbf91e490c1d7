//! The gradient of the memory's weights.

use super::super::memory::Gated;
use super::BatchSums;
use crate::packed::{Left, Packed, Plan, Tiles, tile_size};

/// The memory's weights, transposed: from its outputs back to queries and rows.
pub(super) struct Turned {
    /// The transpose of the query half, as a left side.
    pub(super) query_tiles: Tiles,
    /// The query half and the context half, as right sides.
    query: Packed,
    context: Packed,
}

impl Turned {
    pub(super) fn new(memory: &Gated) -> Self {
        let size = memory.bias.len();
        let dim = size / 2;
        let [query, context] = &memory.halves;
        let plan = Plan::new(dim, 1, tile_size().0);
        Turned {
            query_tiles: Tiles::new(Left::transposed(query, dim), 0, size, plan),
            query: Packed::new(size, dim, query),
            context: Packed::new(size, dim, context),
        }
    }
}

/// The gradient of a memory so far, in the order of its tiles.
pub(super) struct MemorySums {
    query: Vec<f32>,
    context: Vec<f32>,
    bias: Vec<f64>,
}

impl MemorySums {
    pub(super) fn new(memory: &Gated) -> Self {
        let size = memory.bias.len();
        let zeros = || vec![0.0; size * size / 2];
        MemorySums { query: zeros(), context: zeros(), bias: vec![0.0; size] }
    }

    /// Adds the gradient of the query half, from rows of queries and the gradients of their
    /// projections.
    pub(super) fn add_queries(&mut self, queries: &[f32], outputs: &[f32]) {
        let size = self.bias.len();
        let right = Packed::new(outputs.len() / size, size / 2, queries);
        right.par_multiply_add(Left::transposed(outputs, size), &mut self.query);
        for row in outputs.chunks_exact(size) {
            self.bias.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x as f64);
        }
    }

    /// Back-propagates through the projections of contexts and first queries.
    pub(super) fn finish(
        &mut self,
        turned: &Turned,
        (contexts, queries): (&[f32], &[f32]),
        sums: &mut BatchSums,
    ) {
        let size = self.bias.len();
        self.add_queries(queries, &sums.started);
        turned.query.par_multiply_add(Left::rows(&sums.started, size), &mut sums.queries);
        let right = Packed::new(contexts.len() / (size / 2), size / 2, contexts);
        right.par_multiply_add(Left::transposed(&sums.projected, size), &mut self.context);
        turned.context.par_multiply_add(Left::rows(&sums.projected, size), &mut sums.contexts);
    }

    /// Linear weights and biases, gate weights and biases, in the order of the inputs.
    pub(super) fn unstack(self, memory: &Gated) -> [Vec<f32>; 4] {
        let dim = self.bias.len() / 2;
        let weights = || vec![0.0; 2 * dim * dim];
        let mut layers = [(weights(), vec![0.0; dim]), (weights(), vec![0.0; dim])];
        let rows = self.query.chunks_exact(dim).zip(self.context.chunks_exact(dim));
        let mut rows = rows.zip(self.bias);
        for tile in 0..memory.plan.count() {
            for (weights, biases) in &mut layers {
                let units = memory.plan.units_of(tile);
                for (coordinate, ((query, context), bias)) in units.zip(rows.by_ref()) {
                    let row = &mut weights[coordinate * 2 * dim..][..2 * dim];
                    row[..dim].copy_from_slice(query);
                    row[dim..].copy_from_slice(context);
                    biases[coordinate] = bias as f32;
                }
            }
        }
        let [(linear_weight, linear_bias), (gate_weight, gate_bias)] = layers;
        [linear_weight, linear_bias, gate_weight, gate_bias]
    }
}
