//! The gated memory, which refines a query by its attended vector.
//!
//! With `q` the query and `f` the attended vector, `o = tanh(L [q; f] + l)`,
//! `g = sigmoid(G [q; f] + m)` and the new query is `g q + (1 - g) o`. Each weight matrix is split
//! into a half that acts on `q` and a half that acts on `f`. As `f` is a weighted mean of the
//! attended rows, so is its projection by the second half: rows are projected once for all queries,
//! and `f` itself is never needed.

use crate::Error;
use crate::packed::{Left, Packed, Plan, Tiles, tile_size};

/// The weights of a gated memory, each `dim x 2 dim` with one row per output and the query's half
/// first, and their `dim` biases.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// Weights of the proposal.
    pub linear_weight: &'a [f32],
    /// Biases of the proposal.
    pub linear_bias: &'a [f32],
    /// Weights of the gate.
    pub gate_weight: &'a [f32],
    /// Biases of the gate.
    pub gate_bias: &'a [f32],
}

/// A memory laid out for products. The rows of both layers are stacked in the order of tiles. Each
/// tile has the rows of the proposal for some dimensions, then those of the gate for the same
/// dimensions, so that both are in registers when a dimension of the query is replaced.
#[derive(Debug)]
pub(super) struct Gated {
    /// Dimensions in units of two rows.
    pub(super) plan: Plan,
    /// The query half, as the left side of products.
    pub(super) query_tiles: Tiles,
    /// The query half, as the right side.
    query: Packed,
    /// The context half, as the right side.
    context: Packed,
    pub(super) bias: Vec<f32>,
    /// Both halves as rows, for gradients.
    pub(super) halves: [Vec<f32>; 2],
}

impl Gated {
    pub(super) fn new(dim: usize, memory: Memory<'_>) -> Result<Self, Error> {
        let layers = [
            (memory.linear_weight, memory.linear_bias, ["the linear weights", "the linear biases"]),
            (memory.gate_weight, memory.gate_bias, ["the gate weights", "the gate biases"]),
        ];
        for (weight, bias, [weights, biases]) in layers {
            Error::check_len(weights, weight.len(), 2 * dim * dim)?;
            Error::check_len(biases, bias.len(), dim)?;
        }
        let plan = Plan::new(dim, 2, tile_size().0);
        let (mut query, mut context) = (Vec::new(), Vec::new());
        let mut stacked = Vec::with_capacity(2 * dim);
        for tile in 0..plan.count() {
            for (weight, bias, _) in layers {
                for coordinate in plan.units_of(tile) {
                    let row = &weight[coordinate * 2 * dim..][..2 * dim];
                    query.extend_from_slice(&row[..dim]);
                    context.extend_from_slice(&row[dim..]);
                    stacked.push(bias[coordinate]);
                }
            }
        }
        Ok(Gated {
            plan,
            query_tiles: Tiles::new(Left::rows(&query, dim), 0, dim, plan),
            query: Packed::transposed(2 * dim, dim, &query),
            context: Packed::transposed(2 * dim, dim, &context),
            bias: stacked,
            halves: [query, context],
        })
    }

    /// Projects rows of queries by the query half, biases included, in the order of tiles.
    pub(super) fn started(&self, queries: &[f32]) -> Vec<f32> {
        let rows = queries.len() / self.query.depth();
        let mut started = self.bias.repeat(rows);
        self.query.par_multiply_add(Left::rows(queries, self.query.depth()), &mut started);
        started
    }

    /// Projects attended rows by the context half, in the order of tiles.
    pub(super) fn projected(&self, rows: &[f32]) -> Vec<f32> {
        let (dim, size) = (self.context.depth(), self.bias.len());
        let mut projected = vec![0.0; rows.len() / dim * size];
        self.context.par_multiply(Left::rows(rows, dim), &mut projected);
        projected
    }
}
