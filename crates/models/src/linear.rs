//! Linear layers.

use candle_core::{CpuStorage, CustomOp3, DType, Layout, Shape, Tensor};
use nextpair_engine::{Left, Packed};

use crate::Error;
use crate::numbers::{contiguous, storage};

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
        let upstream = contiguous(upstream)?;
        let of_rows = match rows.track_op() {
            false => None,
            true => {
                let weight = Packed::new(columns, depth, &contiguous(weight)?);
                let mut out = vec![0.0; count * depth];
                weight.par_multiply(Left::rows(&upstream, columns), &mut out);
                Some(Tensor::from_vec(out, (count, depth), device)?)
            }
        };
        let factors = Packed::new(count, depth, &contiguous(rows)?);
        let mut of_weight = vec![0.0; columns * depth];
        factors.par_multiply(Left::transposed(&upstream, columns), &mut of_weight);
        let mut of_bias = vec![0.0; columns];
        for row in upstream.chunks_exact(columns) {
            of_bias.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
        Ok((
            of_rows,
            Some(Tensor::from_vec(of_weight, (columns, depth), device)?),
            Some(Tensor::from_vec(of_bias, bias.shape(), device)?),
        ))
    }
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
        let (rows, weight, bias) = (var((7, 5)), var((11, 5)), var((1, 11)));
        let mix = var((7, 11));
        let row = bias.flatten_all().unwrap();
        let fast = linear(&rows, &weight, &row).unwrap();
        let plain = rows.matmul(&weight.t().unwrap()).unwrap().broadcast_add(&row).unwrap();
        let largest =
            |tensor: Tensor| tensor.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
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
