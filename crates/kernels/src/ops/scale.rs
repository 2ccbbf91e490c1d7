//! Weight normalisation: weights learned as a direction and one scale.

use crate::elementwise::sum_of;
use nextpair_cuda::{Array, Grid};

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// `g v / |v|` with the Frobenius norm (Salimans and Kingma, 2016, with one scale for the layer).
///
/// # Errors
/// If `scale` is not one number.
pub fn weight_norm(direction: &Tensor, scale: &Tensor) -> Result<Tensor, Error> {
    Error::check_len("the scale of a weight", scale.len(), 1)?;
    apply(WeightNorm { shape: direction.shape().to_vec() }, &[direction, scale])
}

struct WeightNorm {
    shape: Vec<usize>,
}

fn norm(direction: &[f32]) -> f32 {
    sum_of(direction.len(), |at| direction[at] * direction[at]).sqrt()
}

/// The sum of the products of two arrays, on a GPU.
fn dot(unit: &Unit, a: &Array<f32>, b: &Array<f32>) -> Result<Array<f32>, Error> {
    let out = unit.empty(1)?;
    let arguments = [(&out).into(), a.into(), b.into(), a.len().into()];
    unit.run("dot_all", Grid::blocks(1, 1024), &arguments)?;
    Ok(out)
}

impl Operation for WeightNorm {
    fn shape(&self) -> Vec<usize> {
        self.shape.clone()
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let factor = inputs[1][0] / R::dot(inputs[0], inputs[0]).sqrt();
        inputs[0].iter().map(|&v| v * factor).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let factor = inputs[1][0] / norm(inputs[0]);
        Ok(inputs[0].iter().map(|v| v * factor).collect())
    }

    /// With `f = g / |v|`: `dv = f dw - v (v . dw) f / |v|²` and `dg = (v . dw) / |v|`.
    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let (direction, scale) = (inputs[0], inputs[1][0]);
        let norm = norm(direction);
        let factor = scale / norm;
        let along = sum_of(direction.len(), |at| direction[at] * upstream[at]);
        // Through the factor to the norm, and from there to the sum of squares.
        let of_norm = -(along * scale) / (norm * norm);
        let of_squares = of_norm / norm * 0.5;
        let of_direction =
            direction.iter().zip(upstream).map(|(v, g)| v * of_squares * 2.0 + g * factor);
        Ok(vec![Some(of_direction.collect()), Some(vec![along / norm])])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let (squares, out) = (dot(unit, inputs[0], inputs[0])?, unit.empty(inputs[0].len())?);
        let arguments = [
            (&out).into(),
            inputs[0].into(),
            inputs[1].into(),
            (&squares).into(),
            out.len().into(),
        ];
        unit.run("weight_norm", Grid::each(out.len()), &arguments)?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let squares = dot(unit, inputs[0], inputs[0])?;
        let along = dot(unit, inputs[0], upstream)?;
        let (of_direction, of_scale) = (unit.empty(inputs[0].len())?, unit.empty(1)?);
        let arguments = [
            (&of_direction).into(),
            (&of_scale).into(),
            inputs[0].into(),
            inputs[1].into(),
            upstream.into(),
            (&squares).into(),
            (&along).into(),
            of_direction.len().into(),
        ];
        unit.run("weight_norm_backward", Grid::each(of_direction.len()), &arguments)?;
        Ok(vec![Some(of_direction), Some(of_scale)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        let inputs = [tensor(1, &[4, 6]), tensor(2, &[1])];
        judge(&inputs, 1e-5, |inputs| weight_norm(&inputs[0], &inputs[1]));
    }
}
