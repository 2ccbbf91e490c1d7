//! Rows through the two layers of a memory.

use std::sync::OnceLock;

use nextpair_cuda::{Array, Operand};

use crate::Error;
use crate::cuda::Unit;
use crate::cuda::factor::Factor;
use crate::cuda::tables::MemoryArrays;

/// Both layers of a memory, one below the other: one product has both.
pub(super) struct Layers {
    dim: usize,
    /// `2 dim` rows of `2 dim` numbers: the first half of a row is for queries, the second for
    /// contexts.
    weights: Array<f32>,
    pub(super) bias: Array<f32>,
    /// The weights as a factor, once that is wanted.
    factor: OnceLock<Factor>,
}

impl Layers {
    pub(super) fn new(unit: &Unit, dim: usize, memory: MemoryArrays<'_>) -> Result<Self, Error> {
        let [linear, of_linear, gate, of_gate] = memory;
        let stacked = |first: &Array<f32>, second: &Array<f32>| {
            let both = unit.empty(first.len() + second.len())?;
            both.copy_from(0, first, 0, first.len())?;
            both.copy_from(first.len(), second, 0, second.len())?;
            Ok::<_, Error>(both)
        };
        let (weights, bias) = (stacked(linear, gate)?, stacked(of_linear, of_gate)?);
        Ok(Layers { dim, weights, bias, factor: OnceLock::new() })
    }

    /// What the layers make of rows, by the half of their weights that begins with column `half` and
    /// without the biases.
    pub(super) fn project(
        &self,
        unit: &Unit,
        (rows, count): (&Array<f32>, usize),
        half: usize,
        out: &Array<f32>,
    ) -> Result<(), Error> {
        let dim = self.dim;
        let right = Operand::new(&self.weights, half, 2 * dim).turned();
        let (left, to) = (Operand::new(rows, 0, dim), Operand::new(out, 0, 2 * dim));
        unit.multiply((count, 2 * dim, dim), left, right, 0.0, to)
    }

    /// Adds the gradient of rows whose projection has the gradient `of_layers`.
    pub(super) fn add_projected(
        &self,
        unit: &Unit,
        half: usize,
        of_layers: &Factor,
        out: &Array<f32>,
    ) -> Result<(), Error> {
        let (dim, count) = (self.dim, out.len() / self.dim);
        let weights = match self.factor.get() {
            Some(factor) => factor,
            None => {
                let factor = unit.factor(&self.weights, 2 * dim, 2 * dim)?;
                self.factor.get_or_init(|| factor)
            }
        };
        let right = weights.operand(half, 2 * dim);
        let (left, to) = (of_layers.operand(0, 2 * dim), Operand::new(out, 0, dim));
        unit.multiply((count, dim, 2 * dim), left, right, 1.0, to)
    }
}
