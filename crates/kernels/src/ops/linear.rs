//! Linear layers.

use nextpair_cuda::{Array, Operand};
use rayon::prelude::*;

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Left, Packed, Real, Tensor};

/// `x Wᵀ + b` for every row `x`.
///
/// # Errors
/// If the shapes do not match.
pub fn linear(rows: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor, Error> {
    let ((count, depth), (columns, of_weight)) = (rows.matrix_shape()?, weight.matrix_shape()?);
    Error::check_dims("the rows of a layer", depth, "its weights", of_weight)?;
    Error::check_len("the bias of a layer", bias.len(), columns)?;
    apply(Linear { count, depth, columns }, &[rows, weight, bias])
}

struct Linear {
    count: usize,
    depth: usize,
    columns: usize,
}

impl Operation for Linear {
    fn shape(&self) -> Vec<usize> {
        vec![self.count, self.columns]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let &[rows, weight, bias] = inputs else { unreachable!("rows, weight and bias") };
        let weights = || weight.chunks_exact(self.depth).zip(bias);
        let row = |row| weights().map(move |(weight, &bias)| R::dot(row, weight) + bias);
        rows.chunks_exact(self.depth).flat_map(row).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = inputs[2].repeat(self.count);
        let weight = Packed::transposed(self.columns, self.depth, inputs[1]);
        weight.par_multiply_add(Left::rows(inputs[0], self.depth), &mut out);
        Ok(out)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let &Linear { count, depth, columns } = self;
        // Features are as large as everything else together, and need no gradient.
        let of_rows = wanted[0].then(|| {
            let mut out = vec![0.0; count * depth];
            let weight = Packed::new(columns, depth, inputs[1]);
            weight.par_multiply(Left::rows(upstream, columns), &mut out);
            out
        });
        let of_weight = outer(upstream, columns, inputs[0], depth);
        let mut of_bias = vec![0.0; columns];
        for row in upstream.chunks_exact(columns) {
            of_bias.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
        Ok(vec![of_rows, Some(of_weight), Some(of_bias)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let &Linear { count, depth, columns } = self;
        let out = unit.repeated(inputs[2], count)?;
        let rows = Operand::new(inputs[0], 0, depth);
        let weight = Operand::new(inputs[1], 0, depth).turned();
        unit.multiply((count, columns, depth), rows, weight, 1.0, Operand::new(&out, 0, columns))?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let &Linear { count, depth, columns } = self;
        let up = Operand::new(upstream, 0, columns);
        let of_rows = wanted[0].then(|| {
            let (out, weight) = (unit.empty(count * depth)?, Operand::new(inputs[1], 0, depth));
            let to = Operand::new(&out, 0, depth);
            unit.multiply((count, depth, columns), up, weight, 0.0, to)?;
            Ok::<_, Error>(out)
        });
        let (of_weight, of_bias) = (unit.empty(columns * depth)?, unit.empty(columns)?);
        let (rows, to) = (Operand::new(inputs[0], 0, depth), Operand::new(&of_weight, 0, depth));
        unit.multiply((columns, depth, count), up.turned(), rows, 0.0, to)?;
        unit.column_sums(upstream, columns, 0.0, &of_bias)?;
        Ok(vec![of_rows.transpose()?, Some(of_weight), Some(of_bias)])
    }
}

/// `leftᵀ right`, for equally many rows of `columns` and of `depth` numbers. Packs the narrower of
/// them, because packing is a copy.
fn outer(left: &[f32], columns: usize, right: &[f32], depth: usize) -> Vec<f32> {
    let count = left.len() / columns;
    let mut out = vec![0.0; columns * depth];
    if depth <= columns {
        let right = Packed::new(count, depth, right);
        right.par_multiply(Left::transposed(left, columns), &mut out);
        return out;
    }
    let mut turned = vec![0.0; columns * depth];
    let left = Packed::new(count, columns, left);
    left.par_multiply(Left::transposed(right, depth), &mut turned);
    // Squares of both sides stay in the nearest cache.
    const SIDE: usize = 32;
    out.par_chunks_mut(SIDE * depth).enumerate().for_each(|(band, out)| {
        for first in (0..depth).step_by(SIDE) {
            for (row, out) in out.chunks_exact_mut(depth).enumerate() {
                let column = band * SIDE + row;
                for at in first..depth.min(first + SIDE) {
                    out[at] = turned[at * columns + column];
                }
            }
        }
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        for (depth, columns) in [(5, 11), (70, 40)] {
            let inputs =
                [tensor(1, &[7, depth]), tensor(2, &[columns, depth]), tensor(3, &[columns])];
            judge(&inputs, 1e-5, |inputs| linear(&inputs[0], &inputs[1], &inputs[2]));
        }
    }

    #[test]
    fn what_is_not_tracked_costs_no_gradient() {
        let layer = Linear { count: 2, depth: 1, columns: 1 };
        let inputs: [&[f32]; 3] = [&[1.0, 2.0], &[3.0], &[0.0]];
        let gradients = layer.backward(&inputs, &[1.0, 1.0], &[false, true, true]).unwrap();
        assert_eq!(gradients, [None, Some(vec![3.0]), Some(vec![2.0])]);
    }
}
