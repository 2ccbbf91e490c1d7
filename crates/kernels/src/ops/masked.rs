//! Multiplies by a mask.

use nextpair_cuda::Array;

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// Every number times that of a mask, which is a constant: dropout, say.
///
/// # Errors
/// If there are more or fewer numbers in the mask.
pub fn masked(tensor: &Tensor, mask: Vec<f32>) -> Result<Tensor, Error> {
    Error::check_len("a mask", mask.len(), tensor.len())?;
    apply(Masked { shape: tensor.shape().to_vec(), mask }, &[tensor])
}

struct Masked {
    shape: Vec<usize>,
    mask: Vec<f32>,
}

impl Masked {
    fn times(&self, values: &[f32]) -> Vec<f32> {
        values.iter().zip(&self.mask).map(|(value, factor)| value * factor).collect()
    }
}

impl Operation for Masked {
    fn shape(&self) -> Vec<usize> {
        self.shape.clone()
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        inputs[0].iter().zip(&self.mask).map(|(&x, &factor)| x * R::of(factor.into())).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        Ok(self.times(inputs[0]))
    }

    fn backward(
        &self,
        _inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        Ok(vec![Some(self.times(upstream))])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        unit.each("multiply", &[inputs[0], &unit.array(&self.mask)?])
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        _inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        Ok(vec![Some(unit.each("multiply", &[upstream, &unit.array(&self.mask)?])?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        let mask: Vec<f32> = (0..21).map(|at| if at % 3 == 0 { 0.0 } else { 1.5 }).collect();
        judge(&[tensor(1, &[3, 7])], 1e-6, |inputs| masked(&inputs[0], mask.clone()));
        assert!(masked(&tensor(1, &[3, 7]), vec![1.0; 20]).is_err());
    }
}
