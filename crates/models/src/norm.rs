//! Vectors scaled to unit length.

use candle_core::{CpuStorage, CustomOp1, D, DType, Layout, Shape, Tensor};
use rayon::prelude::*;

use crate::Error;
use crate::numbers::{copied, lend, storage};

/// `x / (|x| + epsilon)` for every row: the epsilon is added to the norm, not under the root.
pub(crate) fn unit_rows(rows: &Tensor, epsilon: f32) -> Result<Tensor, Error> {
    if rows.device().is_cpu() && rows.dtype() == DType::F32 {
        return Ok(rows.contiguous()?.apply_op1(Unit { epsilon })?);
    }
    let norm = (root(rows.sqr()?.sum_keepdim(D::Minus1)?)? + f64::from(epsilon))?;
    Ok(rows.broadcast_div(&norm)?)
}

/// The square root, with a gradient of 0 at 0, where its own is infinite.
pub(crate) fn root(squares: Tensor) -> Result<Tensor, Error> {
    Ok(squares.maximum(1e-30)?.sqrt()?)
}

/// Rows that a thread takes at once.
const ROWS: usize = 64;

struct Unit {
    epsilon: f32,
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

impl CustomOp1 for Unit {
    fn name(&self) -> &'static str {
        "unit-rows"
    }

    fn cpu_fwd(
        &self,
        rows: &CpuStorage,
        layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let dim = layout.dims()[layout.dims().len() - 1];
        let mut out = storage(rows, layout)?.to_vec();
        out.par_chunks_mut(ROWS * dim).for_each(|rows| {
            for row in rows.chunks_exact_mut(dim) {
                let scale = 1.0 / (dot(row, row).sqrt() + self.epsilon);
                row.iter_mut().for_each(|value| *value *= scale);
            }
        });
        Ok((CpuStorage::F32(out), layout.shape().clone()))
    }

    /// With `n = |x|`: `dx = (dy - x (x . dy) / (n (n + epsilon))) / (n + epsilon)`. The length
    /// of a row of zeros has no direction to grow in; its gradient is left out.
    fn bwd(
        &self,
        rows: &Tensor,
        _units: &Tensor,
        upstream: &Tensor,
    ) -> candle_core::Result<Option<Tensor>> {
        let dim = rows.dim(D::Minus1)?;
        let mut out = copied(upstream)?;
        lend(rows, |values| {
            let parts = out.par_chunks_mut(ROWS * dim).zip(values.par_chunks(ROWS * dim));
            parts.for_each(|(out, values)| {
                for (out, row) in out.chunks_exact_mut(dim).zip(values.chunks_exact(dim)) {
                    let norm = dot(row, row).sqrt();
                    let scale = 1.0 / (norm + self.epsilon);
                    let radial = match norm > 0.0 {
                        true => dot(row, out) * scale / norm,
                        false => 0.0,
                    };
                    out.iter_mut().zip(row).for_each(|(out, x)| *out = (*out - x * radial) * scale);
                }
            });
            Ok(())
        })?;
        Ok(Some(Tensor::from_vec(out, rows.shape(), rows.device())?))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;

    #[test]
    fn the_gradient_is_that_of_plain_operations() {
        let values: Vec<f32> = (0..60).map(|i| ((i * 37 % 23) as f32 - 11.0) / 7.0).collect();
        let rows = Var::from_tensor(&Tensor::from_vec(values, (3, 20), &Device::Cpu).unwrap());
        let rows = rows.unwrap();
        let mix = Tensor::arange(0f32, 60.0, &Device::Cpu).unwrap().reshape((3, 20)).unwrap();
        let fast = unit_rows(&rows, 0.5).unwrap();
        let norm = (rows.sqr().unwrap().sum_keepdim(1).unwrap().sqrt().unwrap() + 0.5).unwrap();
        let plain = rows.broadcast_div(&norm).unwrap();
        let gradient = |units: &Tensor| {
            let gradients = (units * &mix).unwrap().backward().unwrap();
            gradients.get(&rows).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap()
        };
        for (fast, plain) in gradient(&fast).iter().zip(gradient(&plain)) {
            assert!((fast - plain).abs() <= 1e-4 * plain.abs().max(1.0), "{fast} {plain}");
        }
    }

    #[test]
    fn a_row_of_zeros_has_a_finite_gradient() {
        let rows = Var::zeros((2, 3), DType::F32, &Device::Cpu).unwrap();
        let gradients = unit_rows(&rows, 1e-8).unwrap().sum_all().unwrap().backward().unwrap();
        let gradient = gradients.get(&rows).unwrap().flatten_all().unwrap();
        assert!(gradient.to_vec1::<f32>().unwrap().iter().all(|g| g.is_finite()));
    }
}
