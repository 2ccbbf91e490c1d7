//! How far apart two sets of vectors lie.

use nextpair_cuda::{Array, Grid};
use rayon::prelude::*;

use crate::cuda::Unit;
use crate::elementwise::sum_of;
use crate::operation::{Operation, apply};
use crate::{Error, Left, Packed, Real, Tensor};

/// The mean over all pairs of rows of `k(a, a') - 2 k(a, b) + k(b, b')`, where `k(x, y) = exp(-|x - y| /
/// 2)`: how far two sets of equally many rows lie apart. One number. The norm has a derivative of 0 at
/// equal rows.
///
/// # Errors
/// If the shapes differ.
pub fn discrepancy(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let (count, dim) = a.matrix_shape()?;
    if a.shape() != b.shape() {
        return Err(Error::NotAMatrix { shape: b.shape().to_vec() });
    }
    apply(Discrepancy { count, dim }, &[a, b])
}

struct Discrepancy {
    /// Rows of each set.
    count: usize,
    dim: usize,
}

/// Squares of distances below this share of the squares of norms are computed directly: elsewhere the
/// dot product says enough.
const CLOSE: f32 = 1e-2;

/// Rows of the gradient that a block of a GPU computes, as its kernel has it.
const ROWS_OF_BLOCK: usize = 8;

impl Discrepancy {
    /// The distances of all rows of both sets, on a GPU.
    fn gpu_distances(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let all = 2 * self.count;
        let (out, blocks) = (unit.empty(all * all)?, all.div_ceil(32));
        let (count, dim) = (self.count.into(), self.dim.into());
        let arguments = [(&out).into(), inputs[0].into(), inputs[1].into(), count, dim];
        unit.run("distances", Grid::plane(blocks, blocks, 1024), &arguments)?;
        Ok(out)
    }

    /// The sign of a pair of rows of both sets.
    fn sign(&self, one: usize, other: usize) -> f64 {
        if (one < self.count) == (other < self.count) { 1.0 } else { -1.0 }
    }

    /// All rows of both sets, less their mean: distances are the same, and dot products of vectors that
    /// lie close together say more about them.
    fn centred(&self, inputs: &[&[f32]]) -> Vec<f32> {
        let mut rows = inputs.concat();
        let mut mean = vec![0.0f64; self.dim];
        for row in rows.chunks_exact(self.dim) {
            mean.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
        }
        let count = (2 * self.count).max(1) as f64;
        for row in rows.chunks_exact_mut(self.dim) {
            row.iter_mut().zip(&mean).for_each(|(x, sum)| *x -= (sum / count) as f32);
        }
        rows
    }

    /// The distances of all rows of both sets.
    fn distances(&self, rows: &[f32]) -> Vec<f32> {
        let (all, dim) = (2 * self.count, self.dim);
        let row = |at: usize| &rows[at * dim..][..dim];
        let mut out = vec![0.0; all * all];
        Packed::transposed(all, dim, rows).par_multiply(Left::rows(rows, dim), &mut out);
        let squares: Vec<f32> = (0..all).map(|at| out[at * all + at]).collect();
        out.par_chunks_exact_mut(all).enumerate().for_each(|(one, out)| {
            for (other, out) in out.iter_mut().enumerate() {
                let whole = squares[one] + squares[other];
                let mut square = whole - 2.0 * *out;
                if square < CLOSE * whole {
                    let off = |at: usize| row(one)[at] - row(other)[at];
                    square = sum_of(dim, |at| off(at) * off(at));
                }
                *out = square.max(0.0).sqrt();
            }
        });
        out
    }
}

impl Operation for Discrepancy {
    fn shape(&self) -> Vec<usize> {
        vec![1]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let rows = inputs.concat();
        let row = |at: usize| &rows[at * self.dim..][..self.dim];
        let mut sum = R::of(0.0);
        for (one, other) in
            (0..2 * self.count).flat_map(|i| (0..2 * self.count).map(move |j| (i, j)))
        {
            let off = row(one).iter().zip(row(other)).map(|(&x, &y)| (x - y) * (x - y));
            let kernel = (R::sum(off).sqrt() * R::of(-0.5)).exp();
            sum = sum + kernel * R::of(self.sign(one, other));
        }
        vec![sum / R::of((self.count * self.count) as f64)]
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let all = 2 * self.count;
        let distances = self.distances(&self.centred(inputs));
        let of_row = |(one, row): (usize, &[f32])| {
            let kernel = |(other, &far): (usize, &f32)| {
                self.sign(one, other) * (-0.5 * f64::from(far)).exp()
            };
            row.iter().enumerate().map(kernel).sum::<f64>()
        };
        let sums: Vec<f64> = distances.par_chunks_exact(all).enumerate().map(of_row).collect();
        Ok(vec![(sums.iter().sum::<f64>() / (self.count * self.count) as f64) as f32])
    }

    /// With `c_ij = -s_ij k_ij / (|z_i - z_j| count²)`: `dz_i = (sum_j c_ij) z_i - sum_j c_ij z_j`.
    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let (all, dim) = (2 * self.count, self.dim);
        let rows = self.centred(inputs);
        let mut factors = self.distances(&rows);
        let scale = f64::from(upstream[0]) / (self.count * self.count) as f64;
        let sums = factors.par_chunks_exact_mut(all).enumerate().map(|(one, row)| {
            let mut sum = 0.0;
            for (other, far) in row.iter_mut().enumerate() {
                let wide = f64::from(*far);
                let factor = match *far > 0.0 {
                    true => -self.sign(one, other) * (-0.5 * wide).exp() / wide * scale,
                    false => 0.0,
                };
                // Negated: the product is subtracted.
                *far = -factor as f32;
                sum += factor;
            }
            sum as f32
        });
        let sums: Vec<f32> = sums.collect();
        let mut out: Vec<f32> = rows
            .chunks_exact(dim)
            .zip(&sums)
            .flat_map(|(row, sum)| row.iter().map(move |x| x * sum))
            .collect();
        Packed::new(all, dim, &rows).par_multiply_add(Left::rows(&factors, all), &mut out);
        let of_b = out.split_off(self.count * dim);
        Ok(vec![Some(out), Some(of_b)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let (far, parts) = (self.gpu_distances(unit, inputs)?, unit.empty(2 * self.count)?);
        let arguments = [(&parts).into(), (&far).into(), self.count.into()];
        unit.run("discrepancy", Unit::rows(2 * self.count), &arguments)?;
        unit.total(&parts, 1.0 / (self.count * self.count) as f64)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let (all, factors) = (2 * self.count, self.gpu_distances(unit, inputs)?);
        let arguments = [(&factors).into(), upstream.into(), self.count.into()];
        unit.run("discrepancy_factors", Unit::numbers(all, all), &arguments)?;
        let (of_a, of_b) = (unit.empty(inputs[0].len())?, unit.empty(inputs[1].len())?);
        let arguments = [
            (&of_a).into(),
            (&of_b).into(),
            inputs[0].into(),
            inputs[1].into(),
            (&factors).into(),
            self.count.into(),
            self.dim.into(),
        ];
        let grid = Unit::numbers(all.div_ceil(ROWS_OF_BLOCK), self.dim);
        unit.run("discrepancy_backward", grid, &arguments)?;
        Ok(vec![Some(of_a), Some(of_b)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::ops::judge::{judge, tensor};
    use crate::ops::unit_rows;

    #[test]
    fn every_device_follows_the_formula() {
        for (count, dim) in [(4, 5), (21, 150)] {
            let sets = [tensor(1, &[count, dim]), tensor(2, &[count, dim])];
            judge(&sets, 1e-5, |inputs| discrepancy(&inputs[0], &inputs[1]));
            judge(&sets, 1e-5, |inputs| {
                discrepancy(&unit_rows(&inputs[0], 0.0)?, &unit_rows(&inputs[1], 0.0)?)
            });
            assert!(discrepancy(&sets[0], &tensor(2, &[3, dim])).is_err());
        }
    }

    #[test]
    fn equal_sets_are_not_apart_and_near_ones_have_gradients() {
        let set = tensor(1, &[4, 6]);
        for device in Device::available() {
            let set = set.to_device(device).unwrap().into_weight();
            let found = discrepancy(&set, &set).unwrap();
            assert!(found.to_f32s().unwrap()[0].abs() < 1e-6);
            let gradients = found.backward(&[1.0]).unwrap().of(&set).unwrap().to_f32s();
            assert!(gradients.unwrap().iter().all(|g| g.is_finite()), "{device}");
        }
        let near: Vec<f32> = set.to_f32s().unwrap().iter().map(|x| x + 1e-4).collect();
        let near = Tensor::new(near, &[4, 6], set.device()).unwrap();
        judge(&[set, near], 1e-4, |inputs| discrepancy(&inputs[0], &inputs[1]));
    }
}
