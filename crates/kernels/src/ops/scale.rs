//! Weight normalisation: weights learned as a direction and one scale.

use crate::elementwise::sum_of;
use nextpair_cuda::{Array, Grid};

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// `g v / |v|` with the Frobenius norm (Salimans and Kingma, 2016, with one scale for the layer).
///
/// A direction of three axes has those of several members of an ensemble, which have a scale each.
///
/// # Errors
/// If `scale` is not one number for each.
pub fn weight_norm(direction: &Tensor, scale: &Tensor) -> Result<Tensor, Error> {
    let shape = direction.shape().to_vec();
    let members = if let [members, _, _] = shape[..] { members } else { 1 };
    Error::check_len("the scale of a weight", scale.len(), members)?;
    let each = direction.len() / members.max(1);
    apply(WeightNorm { shape, members, each }, &[direction, scale])
}

struct WeightNorm {
    shape: Vec<usize>,
    members: usize,
    /// Numbers of each.
    each: usize,
}

fn norm(direction: &[f32]) -> f32 {
    sum_of(direction.len(), |at| direction[at] * direction[at]).sqrt()
}

impl WeightNorm {
    /// The sums of the products of two arrays, for each member, on a GPU.
    fn dots(&self, unit: &Unit, a: &Array<f32>, b: &Array<f32>) -> Result<Array<f32>, Error> {
        let out = unit.empty(self.members)?;
        let arguments = [(&out).into(), a.into(), b.into(), self.each.into()];
        unit.run("dot_all", Grid::blocks(self.members, 1024), &arguments)?;
        Ok(out)
    }

    /// A thread for each number of each member.
    fn grid(&self) -> Grid {
        Grid::plane(self.each.div_ceil(256), self.members, 256)
    }

    /// With `f = g / |v|`: `dv = f dw - v (v . dw) f / |v|²` and `dg = (v . dw) / |v|`.
    fn backward_of(&self, direction: &[f32], scale: f32, upstream: &[f32]) -> (Vec<f32>, f32) {
        let norm = norm(direction);
        let factor = scale / norm;
        let along = sum_of(direction.len(), |at| direction[at] * upstream[at]);
        // Through the factor to the norm, and from there to the sum of squares.
        let of_norm = -(along * scale) / (norm * norm);
        let of_squares = of_norm / norm * 0.5;
        let of_direction =
            direction.iter().zip(upstream).map(|(v, g)| v * of_squares * 2.0 + g * factor);
        (of_direction.collect(), along / norm)
    }
}

impl Operation for WeightNorm {
    fn shape(&self) -> Vec<usize> {
        self.shape.clone()
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let members = inputs[0].chunks_exact(self.each.max(1)).zip(inputs[1]);
        let member = |(direction, &scale): (&[R], &R)| {
            let factor = scale / R::dot(direction, direction).sqrt();
            direction.iter().map(|&v| v * factor).collect::<Vec<R>>()
        };
        members.flat_map(member).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = Vec::with_capacity(inputs[0].len());
        for (direction, scale) in inputs[0].chunks_exact(self.each.max(1)).zip(inputs[1]) {
            let factor = scale / norm(direction);
            out.extend(direction.iter().map(|v| v * factor));
        }
        Ok(out)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let (mut of_directions, mut of_scales) = (Vec::with_capacity(inputs[0].len()), Vec::new());
        let each = self.each.max(1);
        let members = inputs[0].chunks_exact(each).zip(inputs[1]).zip(upstream.chunks_exact(each));
        for ((direction, &scale), upstream) in members {
            let (of_direction, of_scale) = self.backward_of(direction, scale, upstream);
            of_directions.extend(of_direction);
            of_scales.push(of_scale);
        }
        Ok(vec![Some(of_directions), Some(of_scales)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let squares = self.dots(unit, inputs[0], inputs[0])?;
        let out = unit.empty(inputs[0].len())?;
        let arguments = [
            (&out).into(),
            inputs[0].into(),
            inputs[1].into(),
            (&squares).into(),
            self.each.into(),
        ];
        unit.run("weight_norm", self.grid(), &arguments)?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let squares = self.dots(unit, inputs[0], inputs[0])?;
        let along = self.dots(unit, inputs[0], upstream)?;
        let (of_direction, of_scale) = (unit.empty(inputs[0].len())?, unit.empty(self.members)?);
        let arguments = [
            (&of_direction).into(),
            (&of_scale).into(),
            inputs[0].into(),
            inputs[1].into(),
            upstream.into(),
            (&squares).into(),
            (&along).into(),
            self.each.into(),
        ];
        unit.run("weight_norm_backward", self.grid(), &arguments)?;
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
        let inputs = [tensor(1, &[3, 40, 9]), tensor(2, &[3, 1])];
        judge(&inputs, 1e-5, |inputs| weight_norm(&inputs[0], &inputs[1]));
        assert!(weight_norm(&inputs[0], &tensor(2, &[1])).is_err());
    }
}
