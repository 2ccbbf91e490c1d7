//! Smooth functions of every number: hyperbolic tangent, logistic function, square, inverse root.

use nextpair_cuda::Array;
use rayon::prelude::*;

use super::arithmetic::{mapped, zipped};
use crate::cuda::Unit;
use crate::elementwise::{sigmoid_all, tanh_all};
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// The hyperbolic tangent.
///
/// # Errors
/// Never on the CPU.
pub fn tanh(tensor: &Tensor) -> Result<Tensor, Error> {
    apply(Activation { shape: tensor.shape().to_vec(), function: Function::Tanh }, &[tensor])
}

/// The logistic function, `1 / (1 + exp(-x))`.
///
/// # Errors
/// Never on the CPU.
pub fn sigmoid(tensor: &Tensor) -> Result<Tensor, Error> {
    apply(Activation { shape: tensor.shape().to_vec(), function: Function::Sigmoid }, &[tensor])
}

/// The square.
///
/// # Errors
/// Never on the CPU.
pub fn square(tensor: &Tensor) -> Result<Tensor, Error> {
    apply(Activation { shape: tensor.shape().to_vec(), function: Function::Square }, &[tensor])
}

/// `1 / sqrt(x + 1e-16)`: of a sum of squares what scales to unit norm, with 1e-8 for zero.
///
/// # Errors
/// Never on the CPU.
pub fn inverse_root(tensor: &Tensor) -> Result<Tensor, Error> {
    let shape = tensor.shape().to_vec();
    apply(Activation { shape, function: Function::InverseRoot }, &[tensor])
}

#[derive(Clone, Copy)]
enum Function {
    Tanh,
    Sigmoid,
    Square,
    InverseRoot,
}

/// Added under roots.
const LEAST: f32 = 1e-16;

struct Activation {
    shape: Vec<usize>,
    function: Function,
}

/// Numbers per thread at a time.
const CHUNK: usize = 1 << 14;

impl Activation {
    fn values(&self, values: &[f32]) -> Vec<f32> {
        let all = |function: fn(&mut [f32])| {
            let mut out = values.to_vec();
            out.par_chunks_mut(CHUNK).for_each(function);
            out
        };
        match self.function {
            Function::Tanh => all(tanh_all),
            Function::Sigmoid => all(sigmoid_all),
            Function::Square => mapped(values, |x| x * x),
            Function::InverseRoot => mapped(values, |x| 1.0 / (x + LEAST).sqrt()),
        }
    }
}

impl Operation for Activation {
    fn shape(&self) -> Vec<usize> {
        self.shape.clone()
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let function = |&x: &R| match self.function {
            Function::Tanh => x.tanh(),
            Function::Sigmoid => x.sigmoid(),
            Function::Square => x * x,
            Function::InverseRoot => R::of(1.0) / (x + R::of(LEAST.into())).sqrt(),
        };
        inputs[0].iter().map(function).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        Ok(self.values(inputs[0]))
    }

    /// Computes the values again: that is sooner done than read from memory.
    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        Ok(vec![Some(match self.function {
            Function::Tanh => zipped(&self.values(inputs[0]), upstream, |y, g| g * (1.0 - y * y)),
            Function::Sigmoid => {
                zipped(&self.values(inputs[0]), upstream, |y, g| g * y * (1.0 - y))
            }
            Function::Square => zipped(inputs[0], upstream, |x, g| 2.0 * x * g),
            Function::InverseRoot => {
                zipped(&self.values(inputs[0]), upstream, |y, g| -0.5 * y * y * y * g)
            }
        })])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let kernel = match self.function {
            Function::Tanh => "tanh_each",
            Function::Sigmoid => "sigmoid_each",
            Function::Square => "square_each",
            Function::InverseRoot => "inverse_root",
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
            Function::Tanh => "tanh_backward",
            Function::Sigmoid => "sigmoid_backward",
            Function::Square => "square_backward",
            Function::InverseRoot => "inverse_root_backward",
        };
        Ok(vec![Some(unit.each(kernel, &[inputs[0], upstream])?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        for (function, rows) in [tanh, sigmoid, square].into_iter().flat_map(|f| [(f, 3), (f, 90)])
        {
            judge(&[tensor(1, &[rows, 7])], 1e-6, |inputs| function(&inputs[0]));
        }
        let squares = square(&tensor(1, &[90, 7])).unwrap();
        judge(&[squares], 1e-6, |inputs| inverse_root(&inputs[0]));
    }
}
