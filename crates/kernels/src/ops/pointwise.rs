//! Elementwise functions.

use nextpair_cuda::Array;

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// `max(0, x)`, with a derivative of 1 at 0.
///
/// # Errors
/// Never on the CPU.
pub fn relu(tensor: &Tensor) -> Result<Tensor, Error> {
    apply(Pointwise { shape: tensor.shape().to_vec(), function: Function::Relu }, &[tensor])
}

/// The absolute value, with a derivative of 0 at 0.
///
/// # Errors
/// Never on the CPU.
pub fn abs(tensor: &Tensor) -> Result<Tensor, Error> {
    apply(Pointwise { shape: tensor.shape().to_vec(), function: Function::Abs }, &[tensor])
}

/// `x`, or a tenth of it where it is negative, with a derivative of 1 at 0.
///
/// # Errors
/// Never on the CPU.
pub fn leaky_relu(tensor: &Tensor) -> Result<Tensor, Error> {
    apply(Pointwise { shape: tensor.shape().to_vec(), function: Function::Leaky }, &[tensor])
}

#[derive(Clone, Copy)]
enum Function {
    Relu,
    Abs,
    Leaky,
}

/// What is left of negative numbers.
const SLOPE: f32 = 0.1;

struct Pointwise {
    shape: Vec<usize>,
    function: Function,
}

impl Function {
    fn derivative(self, x: f32) -> f32 {
        match self {
            Function::Relu | Function::Leaky if x >= 0.0 => 1.0,
            Function::Leaky => SLOPE,
            Function::Abs if x > 0.0 => 1.0,
            Function::Abs if x < 0.0 => -1.0,
            _ => 0.0,
        }
    }
}

impl Operation for Pointwise {
    fn shape(&self) -> Vec<usize> {
        self.shape.clone()
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let function = |&x: &R| match self.function {
            Function::Relu => x.relu(),
            Function::Abs => x.abs(),
            Function::Leaky if x.value() >= 0.0 => x,
            Function::Leaky => x * R::of(SLOPE.into()),
        };
        inputs[0].iter().map(function).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let function = |&x: &f32| match self.function {
            Function::Relu => x.max(0.0),
            Function::Abs => x.abs(),
            Function::Leaky => x.max(SLOPE * x),
        };
        Ok(inputs[0].iter().map(function).collect())
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let pairs = upstream.iter().zip(inputs[0]);
        Ok(vec![Some(pairs.map(|(g, &x)| g * self.function.derivative(x)).collect())])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let kernel = match self.function {
            Function::Relu => "relu",
            Function::Abs => "absolute",
            Function::Leaky => "leaky_relu",
        };
        unit.each(kernel, inputs)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let kernel = match self.function {
            Function::Relu => "relu_backward",
            Function::Abs => "absolute_backward",
            Function::Leaky => "leaky_relu_backward",
        };
        Ok(vec![Some(unit.each(kernel, &[inputs[0], upstream])?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        let edges = Tensor::new(vec![0.0, -0.0, 1.0, -2.0], &[4], Device::Cpu).unwrap();
        for input in [tensor(1, &[3, 7]), edges] {
            judge(std::slice::from_ref(&input), 1e-6, |inputs| relu(&inputs[0]));
            judge(std::slice::from_ref(&input), 1e-6, |inputs| leaky_relu(&inputs[0]));
            judge(&[input], 1e-6, |inputs| abs(&inputs[0]));
        }
    }
}
