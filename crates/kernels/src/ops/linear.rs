//! Linear layers.

use nextpair_cuda::{Array, Operand};
use rayon::prelude::*;

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Left, Packed, Real, Tensor};

/// `x Wᵀ + b` for every row `x`.
///
/// A weight of three axes is that of several members of an ensemble: then the rows are those of the
/// first member, of the second, and so on, equally many of each, and the bias has a row for each.
///
/// # Errors
/// If the shapes do not match.
pub fn linear(rows: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor, Error> {
    let (all, depth) = rows.matrix_shape()?;
    let (members, columns, of_weight) = match *weight.shape() {
        [members, columns, depth] => (members, columns, depth),
        _ => (1, weight.matrix_shape()?.0, weight.matrix_shape()?.1),
    };
    Error::check_dims("the rows of a layer", depth, "its weights", of_weight)?;
    Error::check_len("the bias of a layer", bias.len(), members * columns)?;
    let count = all / members.max(1);
    Error::check_len("the rows of members", all, members * count)?;
    apply(Linear { members, count, depth, columns }, &[rows, weight, bias])
}

struct Linear {
    members: usize,
    /// Rows of each member.
    count: usize,
    depth: usize,
    columns: usize,
}

impl Linear {
    /// The inputs of a member.
    fn inputs<'a, N>(&self, inputs: &[&'a [N]], member: usize) -> [&'a [N]; 3] {
        let &[rows, weight, bias] = inputs else { unreachable!("rows, weight and bias") };
        let part = |numbers: &'a [N], each: usize| &numbers[member * each..][..each];
        let &Linear { count, depth, columns, .. } = self;
        [part(rows, count * depth), part(weight, columns * depth), part(bias, columns)]
    }

    /// The result of a member.
    fn forward_of(&self, [rows, weight, bias]: [&[f32]; 3]) -> Vec<f32> {
        let mut out = bias.repeat(self.count);
        let weight = Packed::transposed(self.columns, self.depth, weight);
        weight.par_multiply_add(Left::rows(rows, self.depth), &mut out);
        out
    }

    /// The gradients of a member.
    fn backward_of(
        &self,
        [rows, weight, _]: [&[f32]; 3],
        upstream: &[f32],
        wanted: &[bool],
    ) -> [Option<Vec<f32>>; 3] {
        let &Linear { count, depth, columns, .. } = self;
        // Features are as large as everything else together, and need no gradient.
        let of_rows = wanted[0].then(|| {
            let mut out = vec![0.0; count * depth];
            let weight = Packed::new(columns, depth, weight);
            weight.par_multiply(Left::rows(upstream, columns), &mut out);
            out
        });
        let of_weight = outer(upstream, columns, rows, depth);
        let mut of_bias = vec![0.0; columns];
        for row in upstream.chunks_exact(columns) {
            of_bias.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
        [of_rows, Some(of_weight), Some(of_bias)]
    }
}

impl Operation for Linear {
    fn shape(&self) -> Vec<usize> {
        vec![self.members * self.count, self.columns]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let mut out = Vec::with_capacity(self.members * self.count * self.columns);
        for member in 0..self.members {
            let [rows, weight, bias] = self.inputs(inputs, member);
            let weights = || weight.chunks_exact(self.depth).zip(bias);
            let row = |row| weights().map(move |(weight, &bias)| R::dot(row, weight) + bias);
            out.extend(rows.chunks_exact(self.depth).flat_map(row));
        }
        out
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = self.forward_of(self.inputs(inputs, 0));
        for member in 1..self.members {
            out.extend(self.forward_of(self.inputs(inputs, member)));
        }
        Ok(out)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let each = self.count * self.columns;
        let member = |member: usize| {
            let upstream = &upstream[member * each..][..each];
            self.backward_of(self.inputs(inputs, member), upstream, wanted)
        };
        let mut all = member(0);
        for next in (1..self.members).map(member) {
            for (all, next) in all.iter_mut().zip(next) {
                all.iter_mut().zip(next).for_each(|(all, next)| all.extend(next));
            }
        }
        Ok(all.into())
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let &Linear { members, count, depth, columns, .. } = self;
        let out = unit.each_repeated(inputs[2], columns, count)?;
        let rows = Operand::new(inputs[0], 0, depth).apart(count * depth);
        let weight = Operand::new(inputs[1], 0, depth).apart(columns * depth).turned();
        let to = Operand::new(&out, 0, columns).apart(count * columns);
        unit.multiply_each(members, (count, columns, depth), rows, weight, 1.0, to)?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let &Linear { members, count, depth, columns, .. } = self;
        let of_out = unit.factor(upstream, columns, depth)?;
        let up = of_out.operand(0, columns).apart(count * columns);
        let of_rows = wanted[0].then(|| {
            let (out, weight) =
                (unit.empty(members * count * depth)?, unit.factor(inputs[1], depth, columns)?);
            let weight = weight.operand(0, depth).apart(columns * depth);
            let to = Operand::new(&out, 0, depth).apart(count * depth);
            unit.multiply_each(members, (count, depth, columns), up, weight, 0.0, to)?;
            Ok::<_, Error>(out)
        });
        let of_weight = wanted[1].then(|| {
            let (out, rows) =
                (unit.empty(members * columns * depth)?, unit.factor(inputs[0], depth, columns)?);
            let rows = rows.operand(0, depth).apart(count * depth);
            let to = Operand::new(&out, 0, depth).apart(columns * depth);
            unit.multiply_each(members, (columns, depth, count), up.turned(), rows, 0.0, to)?;
            Ok::<_, Error>(out)
        });
        let of_bias = wanted[2].then(|| {
            let out = unit.empty(members * columns)?;
            unit.column_sums_of_each(members, upstream, columns, 0.0, &out)?;
            Ok::<_, Error>(out)
        });
        Ok(vec![of_rows.transpose()?, of_weight.transpose()?, of_bias.transpose()?])
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
            let inputs = [
                tensor(1, &[12, depth]),
                tensor(2, &[3, columns, depth]),
                tensor(3, &[3, columns]),
            ];
            judge(&inputs, 1e-5, |inputs| linear(&inputs[0], &inputs[1], &inputs[2]));
        }
        let (weight, bias) = (tensor(2, &[2, 4, 5]), tensor(3, &[2, 4]));
        assert!(linear(&tensor(1, &[3, 5]), &weight, &bias).is_err(), "3 rows of 2 members");
    }

    #[test]
    fn members_are_layers_of_their_own() {
        let (rows, weight, bias) =
            (tensor(1, &[12, 70]), tensor(2, &[3, 40, 70]), tensor(3, &[3, 40]));
        let all = linear(&rows, &weight, &bias).unwrap().to_f32s().unwrap();
        for member in 0..3 {
            let part = |of: &Tensor, each: usize| of.some_rows(member * each..(member + 1) * each);
            let weight = part(&weight, 1).unwrap().reshaped(&[40, 70]).unwrap();
            let alone =
                linear(&part(&rows, 4).unwrap(), &weight, &part(&bias, 1).unwrap()).unwrap();
            assert_eq!(alone.to_f32s().unwrap(), all[member * 160..][..160]);
        }
    }

    #[test]
    fn what_is_not_tracked_costs_no_gradient() {
        let layer = Linear { members: 1, count: 2, depth: 1, columns: 1 };
        let inputs: [&[f32]; 3] = [&[1.0, 2.0], &[3.0], &[0.0]];
        let gradients = layer.backward(&inputs, &[1.0, 1.0], &[false, true, true]).unwrap();
        assert_eq!(gradients, [None, Some(vec![3.0]), Some(vec![2.0])]);
    }
}
