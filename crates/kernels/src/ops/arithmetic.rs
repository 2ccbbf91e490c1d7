//! Sums, differences and products of tensors of one shape, number by number.

use nextpair_cuda::Array;
use rayon::prelude::*;

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};

/// `a + b`.
///
/// # Errors
/// If the shapes differ.
pub fn add(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    combined(a, b, Rule::Add)
}

/// `a - b`.
///
/// # Errors
/// If the shapes differ.
pub fn subtract(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    combined(a, b, Rule::Subtract)
}

/// `a * b`.
///
/// # Errors
/// If the shapes differ.
pub fn multiply(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    combined(a, b, Rule::Multiply)
}

/// A tensor times a constant.
///
/// # Errors
/// Never on the CPU.
pub fn scale(tensor: &Tensor, factor: f64) -> Result<Tensor, Error> {
    apply(Scale { shape: tensor.shape().to_vec(), factor }, &[tensor])
}

fn combined(a: &Tensor, b: &Tensor, rule: Rule) -> Result<Tensor, Error> {
    if a.shape() != b.shape() {
        return Err(Error::NotAMatrix { shape: b.shape().to_vec() });
    }
    apply(Arithmetic { shape: a.shape().to_vec(), rule }, &[a, b])
}

/// Numbers per thread at a time.
const CHUNK: usize = 1 << 14;

#[derive(Clone, Copy)]
enum Rule {
    Add,
    Subtract,
    Multiply,
}

struct Arithmetic {
    shape: Vec<usize>,
    rule: Rule,
}

/// `number(a, b)` of all numbers.
pub(super) fn zipped(a: &[f32], b: &[f32], number: impl Fn(f32, f32) -> f32 + Sync) -> Vec<f32> {
    let mut out = a.to_vec();
    out.par_chunks_mut(CHUNK).zip(b.par_chunks(CHUNK)).for_each(|(out, b)| {
        out.iter_mut().zip(b).for_each(|(out, &b)| *out = number(*out, b));
    });
    out
}

/// `number(x)` of all numbers.
pub(super) fn mapped(values: &[f32], number: impl Fn(f32) -> f32 + Sync) -> Vec<f32> {
    let mut out = values.to_vec();
    out.par_chunks_mut(CHUNK).for_each(|out| out.iter_mut().for_each(|x| *x = number(*x)));
    out
}

impl Operation for Arithmetic {
    fn shape(&self) -> Vec<usize> {
        self.shape.clone()
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let number = |(&a, &b): (&R, &R)| match self.rule {
            Rule::Add => a + b,
            Rule::Subtract => a - b,
            Rule::Multiply => a * b,
        };
        inputs[0].iter().zip(inputs[1]).map(number).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        Ok(match self.rule {
            Rule::Add => zipped(inputs[0], inputs[1], |a, b| a + b),
            Rule::Subtract => zipped(inputs[0], inputs[1], |a, b| a - b),
            Rule::Multiply => zipped(inputs[0], inputs[1], |a, b| a * b),
        })
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let of = |own: usize| {
            wanted[own].then(|| match self.rule {
                Rule::Multiply => zipped(upstream, inputs[1 - own], |g, x| g * x),
                Rule::Subtract if own == 1 => mapped(upstream, |g| -g),
                _ => upstream.to_vec(),
            })
        };
        Ok(vec![of(0), of(1)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let kernel = match self.rule {
            Rule::Add => "sum_each",
            Rule::Subtract => "difference_each",
            Rule::Multiply => "product_each",
        };
        unit.each(kernel, inputs)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let of = |own: usize| {
            let gradient = wanted[own].then(|| match self.rule {
                Rule::Multiply => unit.each("product_each", &[upstream, inputs[1 - own]]),
                Rule::Subtract if own == 1 => unit.times(upstream, -1.0),
                _ => Ok(upstream.clone()),
            });
            gradient.transpose()
        };
        Ok(vec![of(0)?, of(1)?])
    }
}

struct Scale {
    shape: Vec<usize>,
    factor: f64,
}

impl Operation for Scale {
    fn shape(&self) -> Vec<usize> {
        self.shape.clone()
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        inputs[0].iter().map(|&x| x * R::of(self.factor)).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let factor = self.factor as f32;
        Ok(mapped(inputs[0], |x| x * factor))
    }

    fn backward(
        &self,
        _inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let factor = self.factor as f32;
        Ok(vec![Some(mapped(upstream, |g| g * factor))])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        unit.times(inputs[0], self.factor as f32)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        _inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        Ok(vec![Some(unit.times(upstream, self.factor as f32)?)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        for combine in [add, subtract, multiply] {
            for rows in [3, 90] {
                let inputs = [tensor(1, &[rows, 7]), tensor(2, &[rows, 7])];
                judge(&inputs, 1e-6, |inputs| combine(&inputs[0], &inputs[1]));
                // Both gradients go to one tensor.
                judge(&inputs[..1], 1e-6, |inputs| combine(&inputs[0], &inputs[0]));
            }
            let inputs = [tensor(1, &[3, 7]), tensor(2, &[3, 7])];
            assert!(combine(&inputs[0], &tensor(2, &[7, 3])).is_err());
        }
        judge(&[tensor(1, &[3, 7])], 1e-6, |inputs| scale(&inputs[0], -2.5));
    }
}
