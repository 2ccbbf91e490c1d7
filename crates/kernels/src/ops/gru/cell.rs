//! One step of a recurrent unit, for decoders whose next input depends on their state.

use nextpair_cuda::{Array, Grid};
use rayon::prelude::*;

use crate::cuda::Unit;
use crate::elementwise::{sigmoid_all, tanh_all};
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// The next states of items, given the products with their inputs and with their states, biases
/// included: items by `3 dim` each, gates stacked r, z, n; and the states before, items by `dim`.
///
/// # Errors
/// If the shapes do not match.
pub fn gru_cell(given: &Tensor, recurrent: &Tensor, before: &Tensor) -> Result<Tensor, Error> {
    let (items, dim) = before.matrix_shape()?;
    for products in [given, recurrent] {
        Error::check_len("the products of a recurrent unit", products.len(), 3 * items * dim)?;
    }
    apply(Cell { items, dim }, &[given, recurrent, before])
}

struct Cell {
    items: usize,
    dim: usize,
}

/// Items per thread at a time.
const ITEMS: usize = 8;

impl Cell {
    /// Reset gate, update gate and candidate of an item.
    fn gates(&self, given: &[f32], recurrent: &[f32]) -> Vec<f32> {
        let dim = self.dim;
        let mut gates: Vec<f32> = given.iter().zip(recurrent).map(|(i, h)| i + h).collect();
        let (opening, candidate) = gates.split_at_mut(2 * dim);
        sigmoid_all(opening);
        let parts = given[2 * dim..].iter().zip(&recurrent[2 * dim..]).zip(&opening[..dim]);
        candidate.iter_mut().zip(parts).for_each(|(out, ((i, h), r))| *out = i + r * h);
        tanh_all(candidate);
        gates
    }
}

impl Operation for Cell {
    fn shape(&self) -> Vec<usize> {
        vec![self.items, self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let (dim, mut out) = (self.dim, Vec::new());
        for item in 0..self.items {
            let part =
                |of: usize, gate: usize, at: usize| inputs[of][item * 3 * dim + gate * dim + at];
            for at in 0..dim {
                let reset = (part(0, 0, at) + part(1, 0, at)).sigmoid();
                let keep = (part(0, 1, at) + part(1, 1, at)).sigmoid();
                let candidate = (part(0, 2, at) + reset * part(1, 2, at)).tanh();
                out.push((R::of(1.0) - keep) * candidate + keep * inputs[2][item * dim + at]);
            }
        }
        out
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let dim = self.dim;
        let mut out = inputs[2].to_vec();
        out.par_chunks_mut(ITEMS * dim).enumerate().for_each(|(block, out)| {
            for (at, out) in out.chunks_exact_mut(dim).enumerate() {
                let first = (block * ITEMS + at) * 3 * dim;
                let gates =
                    self.gates(&inputs[0][first..][..3 * dim], &inputs[1][first..][..3 * dim]);
                let parts = gates[dim..2 * dim].iter().zip(&gates[2 * dim..]);
                out.iter_mut().zip(parts).for_each(|(h, (z, c))| *h = c + z * (*h - c));
            }
        });
        Ok(out)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let dim = self.dim;
        let mut of_given = vec![0.0; inputs[0].len()];
        let mut of_recurrent = vec![0.0; inputs[1].len()];
        let mut of_before = upstream.to_vec();
        let items = of_given
            .par_chunks_exact_mut(3 * dim)
            .zip(of_recurrent.par_chunks_exact_mut(3 * dim))
            .zip(of_before.par_chunks_exact_mut(dim));
        items.enumerate().for_each(|(item, ((of_given, of_recurrent), of_before))| {
            let first = item * 3 * dim;
            let recurrent = &inputs[1][first..][..3 * dim];
            let gates = self.gates(&inputs[0][first..][..3 * dim], recurrent);
            for at in 0..dim {
                let (r, z, c) = (gates[at], gates[dim + at], gates[2 * dim + at]);
                let (grad, before) = (of_before[at], inputs[2][item * dim + at]);
                let of_c = grad * (1.0 - z) * (1.0 - c * c);
                let of_r = of_c * recurrent[2 * dim + at] * r * (1.0 - r);
                let of_z = grad * (before - c) * z * (1.0 - z);
                (of_given[at], of_given[dim + at], of_given[2 * dim + at]) = (of_r, of_z, of_c);
                (of_recurrent[at], of_recurrent[dim + at]) = (of_r, of_z);
                of_recurrent[2 * dim + at] = of_c * r;
                of_before[at] = grad * z;
            }
        });
        Ok(vec![Some(of_given), Some(of_recurrent), Some(of_before)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let (out, count) = (unit.empty(inputs[2].len())?, inputs[2].len());
        let arguments = [
            (&out).into(),
            inputs[0].into(),
            inputs[1].into(),
            inputs[2].into(),
            self.dim.into(),
            count.into(),
        ];
        unit.run("gru_cell", Grid::each(count), &arguments)?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let count = inputs[2].len();
        let [of_given, of_recurrent] = [unit.empty(3 * count)?, unit.empty(3 * count)?];
        let of_before = unit.empty(count)?;
        let arguments = [
            (&of_given).into(),
            (&of_recurrent).into(),
            (&of_before).into(),
            inputs[0].into(),
            inputs[1].into(),
            inputs[2].into(),
            upstream.into(),
            self.dim.into(),
            count.into(),
        ];
        unit.run("gru_cell_back", Grid::each(count), &arguments)?;
        Ok(vec![Some(of_given), Some(of_recurrent), Some(of_before)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};
    use crate::ops::{gather, gru};

    #[test]
    fn every_device_follows_the_formula() {
        for (items, dim) in [(4, 100), (9, 5)] {
            let products = [1, 2].map(|seed| tensor(seed, &[items, 3 * dim]));
            let [given, recurrent] = products;
            let inputs = [given, recurrent, tensor(3, &[items, dim])];
            judge(&inputs, 1e-5, |inputs| gru_cell(&inputs[0], &inputs[1], &inputs[2]));
        }
        let inputs = [tensor(1, &[9, 15]), tensor(2, &[9, 15]), tensor(3, &[9, 5])];
        assert!(gru_cell(&inputs[0], &inputs[2], &inputs[2]).is_err());
    }

    #[test]
    fn steps_are_those_of_the_whole_unit() {
        let (given, weight, bias) = (tensor(1, &[2, 12]), tensor(2, &[12, 4]), tensor(3, &[12]));
        let whole = gru(&given, &weight, &bias, &[0, 2]).unwrap().to_f32s().unwrap();
        let mut state = Tensor::zeros(&[1, 4], given.device()).unwrap();
        for word in 0..2 {
            let own = gather(&given, &[word]).unwrap();
            let recurrent = crate::ops::linear(&state, &weight, &bias).unwrap();
            state = gru_cell(&own, &recurrent, &state).unwrap();
            let expected = &whole[word as usize * 4..][..4];
            for (found, expected) in state.to_f32s().unwrap().iter().zip(expected) {
                assert!((found - expected).abs() < 1e-6, "{found} {expected}");
            }
        }
    }
}
