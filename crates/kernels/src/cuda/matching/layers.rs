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

/// Writes the biases of both layers to every row.
pub(super) fn biased(
    unit: &Unit,
    memory: MemoryArrays<'_>,
    count: usize,
    out: &Array<f32>,
) -> Result<(), Error> {
    let [_, linear, _, gate] = memory;
    let bias = unit.empty(linear.len() + gate.len())?;
    bias.copy_from(0, linear, 0, linear.len())?;
    bias.copy_from(linear.len(), gate, 0, gate.len())?;
    unit.repeat(&bias, count, out)
}

/// What both layers make of rows, by the half of their weights that begins with column `half`.
pub(super) fn project(
    unit: &Unit,
    (rows, count): (&Array<f32>, usize),
    dim: usize,
    memory: MemoryArrays<'_>,
    half: usize,
    keep: f32,
    out: &Array<f32>,
) -> Result<(), Error> {
    for (gate, weight) in [memory[0], memory[2]].into_iter().enumerate() {
        let (left, right) = (Operand::new(rows, 0, dim), Operand::new(weight, half, 2 * dim));
        let to = Operand::new(out, gate * dim, 2 * dim);
        unit.multiply((count, dim, dim), left, right.turned(), keep, to)?;
    }
    Ok(())
}

/// Adds the gradient of rows whose projection has the gradient `of_layers`.
pub(super) fn add_projected(
    unit: &Unit,
    dim: usize,
    memory: MemoryArrays<'_>,
    half: usize,
    (of_layers, count): (&Array<f32>, usize),
    out: &Array<f32>,
) -> Result<(), Error> {
    for (gate, weight) in [memory[0], memory[2]].into_iter().enumerate() {
        let left = Operand::new(of_layers, gate * dim, 2 * dim);
        let (right, to) = (Operand::new(weight, half, 2 * dim), Operand::new(out, 0, dim));
        unit.multiply((count, dim, dim), left, right, 1.0, to)?;
    }
    Ok(())
}
