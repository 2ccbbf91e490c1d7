//! Linear layers.

use candle_core::{CpuStorage, CustomOp3, DType, Layout, Shape, Tensor};
use nextpair_kernels::{Left, Packed};
use rayon::prelude::*;

use crate::Error;
use crate::numbers::{lend, storage};

/// `x Wᵀ + b` for rows of numbers.
pub(crate) fn linear(rows: &Tensor, weight: &Tensor, bias: &Tensor) -> Result<Tensor, Error> {
    if rows.device().is_cpu() && rows.dtype() == DType::F32 {
        let weight = weight.contiguous()?;
        return Ok(rows.contiguous()?.apply_op3(&weight, &bias.contiguous()?, Linear)?);
    }
    Ok(rows.matmul(&weight.t()?)?.broadcast_add(bias)?)
}

/// The same with the engine's product, whose bits do not depend on the number of threads, and
/// without a gradient of what needs none: features are as large as everything else together.
struct Linear;

impl CustomOp3 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        rows: &CpuStorage,
        rows_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let (count, depth) = rows_layout.shape().dims2()?;
        let columns = weight_layout.shape().dims2()?.0;
        let weight = Packed::transposed(columns, depth, storage(weight, weight_layout)?);
        let mut out = storage(bias, bias_layout)?.repeat(count);
        weight.par_multiply_add(Left::rows(storage(rows, rows_layout)?, depth), &mut out);
        Ok((CpuStorage::F32(out), Shape::from((count, columns))))
    }

    fn bwd(
        &self,
        rows: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        _out: &Tensor,
        upstream: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let device = rows.device();
        let (count, depth) = rows.dims2()?;
        let columns = weight.dim(0)?;
        lend(upstream, |upstream| {
            let of_rows = match rows.track_op() {
                false => None,
                true => {
                    let mut out = vec![0.0; count * depth];
                    lend(weight, |weight| {
                        let weight = Packed::new(columns, depth, weight);
                        weight.par_multiply(Left::rows(upstream, columns), &mut out);
                        Ok(())
                    })?;
                    Some(Tensor::from_vec(out, (count, depth), device)?)
                }
            };
            let of_weight = lend(rows, |rows| Ok(outer(upstream, columns, rows, depth)))?;
            let mut of_bias = vec![0.0; columns];
            for row in upstream.chunks_exact(columns) {
                of_bias.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            Ok((
                of_rows,
                Some(Tensor::from_vec(of_weight, (columns, depth), device)?),
                Some(Tensor::from_vec(of_bias, bias.shape(), device)?),
            ))
        })
    }
}

/// `leftᵀ right`, for as many rows of `columns` and of `depth` numbers. The narrower of them is
/// laid out, because that is a copy.
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
    use candle_core::{Device, Var};
    use nextpair_data::Draws;

    use super::*;

    #[test]
    fn values_and_gradients_are_those_of_plain_operations() {
        let mut draws = Draws::new(1);
        let mut var = |shape: (usize, usize)| {
            let values: Vec<f32> = (0..shape.0 * shape.1).map(|_| draws.normal() as f32).collect();
            Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu).unwrap()).unwrap()
        };
        for (depth, columns) in [(5, 11), (70, 40)] {
            let (rows, weight, bias) = (var((7, depth)), var((columns, depth)), var((1, columns)));
            let mix = var((7, columns));
            let row = bias.flatten_all().unwrap();
            let fast = linear(&rows, &weight, &row).unwrap();
            let plain = rows.matmul(&weight.t().unwrap()).unwrap().broadcast_add(&row).unwrap();
            let largest = |tensor: Tensor| {
                tensor.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap()
            };
            assert!(largest((&fast - &plain).unwrap()) < 1e-5);
            let gradients = |out: &Tensor| (out * mix.as_tensor()).unwrap().backward().unwrap();
            let (fast, plain) = (gradients(&fast), gradients(&plain));
            for var in [&rows, &weight, &bias] {
                let off = largest((fast.get(var).unwrap() - plain.get(var).unwrap()).unwrap());
                assert!(off < 1e-5, "{off}");
            }
            // Features that are not weights get no gradient, and cost none.
            let fast = linear(&rows.detach(), &weight, &row).unwrap();
            assert!(gradients(&fast).get(&rows).is_none());
        }
    }
}
