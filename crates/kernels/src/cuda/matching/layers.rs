//! Rows through the two layers of a memory, and padded rows.

use nextpair_cuda::{Array, Operand};

use crate::Error;
use crate::cuda::Unit;
use crate::cuda::tables::MemoryArrays;

/// Rows of items, padded to as many.
pub(super) fn pad(
    unit: &Unit,
    rows: &Array<f32>,
    offsets: &Array<u32>,
    items: Option<&Array<u32>>,
    (count, most, dim): (usize, usize, usize),
) -> Result<Array<f32>, Error> {
    let out = unit.empty(count * most * dim)?;
    let arguments =
        [(&out).into(), rows.into(), offsets.into(), items.into(), most.into(), dim.into()];
    unit.run("pad_items", Unit::rows(count * most), &arguments)?;
    Ok(out)
}

/// Both layers of a memory, one below the other: one product has both.
pub(super) struct Layers {
    dim: usize,
    /// `2 dim` rows of `2 dim` numbers: the first half of a row is for queries, the second for
    /// contexts.
    weights: Array<f32>,
    bias: Array<f32>,
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
        Ok(Layers { dim, weights: stacked(linear, gate)?, bias: stacked(of_linear, of_gate)? })
    }

    /// Writes the biases to every row.
    pub(super) fn biased(&self, unit: &Unit, count: usize, out: &Array<f32>) -> Result<(), Error> {
        unit.repeat(&self.bias, count, out)
    }

    /// What the layers make of rows, by the half of their weights that begins with column `half`.
    pub(super) fn project(
        &self,
        unit: &Unit,
        (rows, count): (&Array<f32>, usize),
        half: usize,
        keep: f32,
        out: &Array<f32>,
    ) -> Result<(), Error> {
        let dim = self.dim;
        let right = Operand::new(&self.weights, half, 2 * dim).turned();
        let (left, to) = (Operand::new(rows, 0, dim), Operand::new(out, 0, 2 * dim));
        unit.multiply((count, 2 * dim, dim), left, right, keep, to)
    }

    /// Adds the gradient of rows whose projection has the gradient `of_layers`.
    pub(super) fn add_projected(
        &self,
        unit: &Unit,
        half: usize,
        (of_layers, count): (&Array<f32>, usize),
        out: &Array<f32>,
    ) -> Result<(), Error> {
        let dim = self.dim;
        let right = Operand::new(&self.weights, half, 2 * dim);
        let (left, to) = (Operand::new(of_layers, 0, 2 * dim), Operand::new(out, 0, dim));
        unit.multiply((count, dim, 2 * dim), left, right, 1.0, to)
    }
}
