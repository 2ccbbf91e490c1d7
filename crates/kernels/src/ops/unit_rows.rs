//! Vectors scaled to unit norm.

use nextpair_cuda::Array;
use rayon::prelude::*;

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// `x / (|x| + epsilon)` for every row: the epsilon is added to the norm, not under the root.
///
/// # Errors
/// If `rows` is not a matrix.
pub fn unit_rows(rows: &Tensor, epsilon: f32) -> Result<Tensor, Error> {
    let (count, dim) = rows.matrix_shape()?;
    apply(UnitRows { count, dim, epsilon }, &[rows])
}

struct UnitRows {
    count: usize,
    dim: usize,
    epsilon: f32,
}

/// Rows per thread at a time.
const ROWS: usize = 64;

impl Operation for UnitRows {
    fn shape(&self) -> Vec<usize> {
        vec![self.count, self.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let unit = |row: &[R]| {
            let norm = R::dot(row, row).sqrt() + R::of(self.epsilon.into());
            row.iter().map(|&x| x / norm).collect::<Vec<R>>()
        };
        inputs[0].chunks_exact(self.dim).flat_map(unit).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = inputs[0].to_vec();
        out.par_chunks_mut(ROWS * self.dim).for_each(|rows| {
            for row in rows.chunks_exact_mut(self.dim) {
                let scale = 1.0 / (dot(row, row).sqrt() + self.epsilon);
                row.iter_mut().for_each(|value| *value *= scale);
            }
        });
        Ok(out)
    }

    /// With `n = |x|`: `dx = (dy - x (x . dy) / (n (n + epsilon))) / (n + epsilon)`. The norm of a
    /// zero row has no derivative; that term is left out.
    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let dim = self.dim;
        let mut out = upstream.to_vec();
        let parts = out.par_chunks_mut(ROWS * dim).zip(inputs[0].par_chunks(ROWS * dim));
        parts.for_each(|(out, values)| {
            for (out, row) in out.chunks_exact_mut(dim).zip(values.chunks_exact(dim)) {
                let norm = dot(row, row).sqrt();
                let scale = 1.0 / (norm + self.epsilon);
                let radial = if norm > 0.0 { dot(row, out) * scale / norm } else { 0.0 };
                out.iter_mut().zip(row).for_each(|(out, x)| *out = (*out - x * radial) * scale);
            }
        });
        Ok(vec![Some(out)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let out = unit.empty(self.count * self.dim)?;
        let arguments = [(&out).into(), inputs[0].into(), self.epsilon.into(), self.dim.into()];
        unit.run("unit_rows", Unit::rows(self.count), &arguments)?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let out = unit.empty(self.count * self.dim)?;
        let arguments = [
            (&out).into(),
            inputs[0].into(),
            upstream.into(),
            self.epsilon.into(),
            self.dim.into(),
        ];
        unit.run("unit_rows_backward", Unit::rows(self.count), &arguments)?;
        Ok(vec![Some(out)])
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 16];
    let (chunks_a, chunks_b) = (a.chunks_exact(16), b.chunks_exact(16));
    let rest: f32 = chunks_a.remainder().iter().zip(chunks_b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in chunks_a.zip(chunks_b) {
        for lane in 0..16 {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    lanes.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        for epsilon in [0.5, 1e-8, 0.0] {
            judge(&[tensor(1, &[3, 20])], 1e-5, |inputs| unit_rows(&inputs[0], epsilon));
        }
    }

    #[test]
    fn a_row_of_zeros_has_a_finite_gradient() {
        for device in [Device::Reference].into_iter().chain(Device::available()) {
            let rows = Tensor::new(vec![0.0; 6], &[2, 3], device).unwrap().into_weight();
            let gradients = unit_rows(&rows, 1e-8).unwrap().backward(&[1.0; 6]).unwrap();
            let gradient = gradients.of(&rows).unwrap().to_f64s().unwrap();
            assert!(gradient.iter().all(|g| g.is_finite()), "{device}: {gradient:?}");
        }
    }
}
