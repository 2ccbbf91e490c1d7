//! Layer normalisation (Ba, Kiros and Hinton, 2016, <https://arxiv.org/abs/1607.06450>).

use nextpair_cuda::Array;
use rayon::prelude::*;

use crate::cuda::Unit;
use crate::elementwise::sum_of;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// Added to variances, as PyTorch does.
const EPSILON: f64 = 1e-5;

/// `gain * (x - mean) / sqrt(variance + 1e-5) + shift` for every row, with its mean and its biased
/// variance; gain and shift have a number for each column.
///
/// # Errors
/// If the shapes do not match.
pub fn layer_norm(rows: &Tensor, gain: &Tensor, shift: &Tensor) -> Result<Tensor, Error> {
    let (count, dim) = rows.matrix_shape()?;
    Error::check_len("the gains of columns", gain.len(), dim)?;
    Error::check_len("the shifts of columns", shift.len(), dim)?;
    apply(LayerNorm { count, dim }, &[rows, gain, shift])
}

struct LayerNorm {
    count: usize,
    dim: usize,
}

/// Rows per thread at a time.
const ROWS: usize = 64;

/// Normalises a row in place. Returns the inverse of its standard deviation.
fn normalise(row: &mut [f32]) -> f32 {
    let count = row.len() as f32;
    let mean = sum_of(row.len(), |at| row[at]) / count;
    row.iter_mut().for_each(|x| *x -= mean);
    let variance = sum_of(row.len(), |at| row[at] * row[at]) / count;
    let inverse = 1.0 / (variance + EPSILON as f32).sqrt();
    row.iter_mut().for_each(|x| *x *= inverse);
    inverse
}

impl Operation for LayerNorm {
    fn shape(&self) -> Vec<usize> {
        vec![self.count, self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let row = |row: &[R]| {
            let count = R::of(self.dim as f64);
            let mean = R::sum(row.iter().copied()) / count;
            let off: Vec<R> = row.iter().map(|&x| x - mean).collect();
            let deviation = (R::dot(&off, &off) / count + R::of(EPSILON)).sqrt();
            let numbers = off.into_iter().zip(inputs[1]).zip(inputs[2]);
            let numbers = numbers.map(|((off, &gain), &shift)| gain * (off / deviation) + shift);
            numbers.collect::<Vec<R>>()
        };
        inputs[0].chunks_exact(self.dim).flat_map(row).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = inputs[0].to_vec();
        out.par_chunks_mut(ROWS * self.dim).for_each(|rows| {
            for row in rows.chunks_exact_mut(self.dim) {
                normalise(row);
                let numbers = row.iter_mut().zip(inputs[1]).zip(inputs[2]);
                numbers.for_each(|((x, gain), shift)| *x = gain * *x + shift);
            }
        });
        Ok(out)
    }

    /// With `n` the normalised row and `h = gain dy`: `dx = (h - mean(h) - n mean(h n)) / sd`.
    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let dim = self.dim;
        let mut out = inputs[0].to_vec();
        let bands = out.par_chunks_mut(ROWS * dim).zip(upstream.par_chunks(ROWS * dim));
        let bands: Vec<[Vec<f32>; 2]> = bands
            .map(|(rows, upstream)| {
                let [mut of_gain, mut of_shift] = [0, 1].map(|_| vec![0.0; dim]);
                for (row, up) in rows.chunks_exact_mut(dim).zip(upstream.chunks_exact(dim)) {
                    let inverse = normalise(row);
                    for at in 0..dim {
                        of_gain[at] += up[at] * row[at];
                        of_shift[at] += up[at];
                    }
                    let gained = |at: usize| inputs[1][at] * up[at];
                    let plain = sum_of(dim, gained) / dim as f32;
                    let along = sum_of(dim, |at| gained(at) * row[at]) / dim as f32;
                    for (at, x) in row.iter_mut().enumerate() {
                        *x = (gained(at) - plain - *x * along) * inverse;
                    }
                }
                [of_gain, of_shift]
            })
            .collect();
        let [mut of_gain, mut of_shift] = [0, 1].map(|_| vec![0.0; dim]);
        for [gain, shift] in bands {
            of_gain.iter_mut().zip(gain).for_each(|(sum, part)| *sum += part);
            of_shift.iter_mut().zip(shift).for_each(|(sum, part)| *sum += part);
        }
        Ok(vec![Some(out), Some(of_gain), Some(of_shift)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let out = unit.empty(inputs[0].len())?;
        let arguments =
            [(&out).into(), inputs[0].into(), inputs[1].into(), inputs[2].into(), self.dim.into()];
        unit.run("layer_norm", Unit::rows(self.count), &arguments)?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let (out, products) = (unit.empty(inputs[0].len())?, unit.empty(inputs[0].len())?);
        let arguments = [
            (&out).into(),
            (&products).into(),
            inputs[0].into(),
            inputs[1].into(),
            upstream.into(),
            self.dim.into(),
        ];
        unit.run("layer_norm_backward", Unit::rows(self.count), &arguments)?;
        let (of_gain, of_shift) = (unit.empty(self.dim)?, unit.empty(self.dim)?);
        unit.column_sums_of_each(1, &products, self.dim, 0.0, &of_gain)?;
        unit.column_sums_of_each(1, upstream, self.dim, 0.0, &of_shift)?;
        Ok(vec![Some(out), Some(of_gain), Some(of_shift)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        for (rows, dim) in [(3, 9), (70, 9), (5, 150)] {
            let inputs = [tensor(1, &[rows, dim]), tensor(2, &[dim]), tensor(3, &[dim])];
            judge(&inputs, 1e-5, |inputs| layer_norm(&inputs[0], &inputs[1], &inputs[2]));
        }
        let (rows, gain) = (tensor(1, &[3, 9]), tensor(2, &[9]));
        assert!(layer_norm(&rows, &gain, &tensor(2, &[8])).is_err());
    }
}
