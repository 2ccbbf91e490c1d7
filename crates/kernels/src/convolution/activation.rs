//! Functions of single numbers, and products of pictures: what follows a convolution.

use pulp::{Simd, WithSimd};

use super::{Frame, Margin, Size};
use crate::elementwise::{each, sigmoid};
use crate::unit::arch;

/// A function that is applied to every number of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `x` times its [`Sigmoid`](Self::Sigmoid).
    Swish,
    /// `slope x + offset`, within 0 and 1.
    HardSigmoid {
        /// The factor.
        slope: f32,
        /// What is added.
        offset: f32,
    },
    /// `x` times a hard sigmoid of slope 1/6 and offset 1/2.
    HardSwish,
}

impl Activation {
    #[inline(always)]
    pub(super) fn apply<S: Simd>(self, simd: S, numbers: &mut [f32]) {
        match self {
            Activation::Sigmoid => each!(simd, numbers, x => sigmoid(simd, x)),
            Activation::Swish => each!(simd, numbers, x => swish(simd, x)),
            Activation::HardSigmoid { slope, offset } => {
                each!(simd, numbers, x => hard_sigmoid(simd, x, slope, offset));
            }
            Activation::HardSwish => {
                each!(simd, numbers, x => simd.mul_f32s(x, hard_sigmoid(simd, x, 1.0 / 6.0, 0.5)));
            }
        }
    }

    /// Applies it to a picture. The result gets `margin`.
    pub fn run(self, input: &Frame, margin: Margin, output: &mut Frame) {
        arch().dispatch(self.job(input, margin, output));
    }

    /// [`Activation::run`] for any vector unit.
    pub(super) fn job<'a>(
        self,
        input: &'a Frame,
        margin: Margin,
        output: &'a mut Frame,
    ) -> Job<'a> {
        output.reshape(input.size(), margin);
        Job { input, work: Work::Activation(self), output }
    }
}

impl Frame {
    /// Multiplies this picture by another of the same size, or all its pixels by the only one of
    /// another. The result gets `margin`. An error names sizes that do not fit.
    pub fn times(&self, other: &Frame, margin: Margin, output: &mut Frame) -> Result<(), String> {
        arch().dispatch(self.product(other, margin, output)?);
        Ok(())
    }

    /// [`Frame::times`] for any vector unit.
    pub(super) fn product<'a>(
        &'a self,
        other: &'a Frame,
        margin: Margin,
        output: &'a mut Frame,
    ) -> Result<Job<'a>, String> {
        let (size, factors) = (self.size(), other.size());
        let pixel = Size { height: 1, width: 1, ..size };
        let work = match factors {
            _ if factors == size => Work::Times(other),
            _ if factors == pixel => Work::TimesPixel(other),
            _ => return Err(format!("a picture of {size:?} times one of {factors:?}")),
        };
        output.reshape(size, margin);
        Ok(Job { input: self, work, output })
    }

    fn line(&self, y: usize) -> &[f32] {
        &self.numbers()[self.at(y, 0)..][..self.size().width * self.size().channels]
    }
}

/// Makes a picture of another, line by line.
pub(super) struct Job<'a> {
    input: &'a Frame,
    work: Work<'a>,
    output: &'a mut Frame,
}

enum Work<'a> {
    Activation(Activation),
    Times(&'a Frame),
    TimesPixel(&'a Frame),
}

impl WithSimd for Job<'_> {
    type Output = ();

    // Inlined, like everything it calls, so that it is compiled for the vector unit in use.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { input, work, output } = self;
        let Size { height, width, channels } = input.size();
        for y in 0..height {
            let start = output.at(y, 0);
            let line = &mut output.numbers_mut()[start..][..width * channels];
            line.copy_from_slice(input.line(y));
            match work {
                Work::Activation(activation) => activation.apply(simd, line),
                Work::Times(other) => multiply(simd, line, other.line(y)),
                Work::TimesPixel(other) => {
                    for pixel in line.chunks_exact_mut(channels.max(1)) {
                        multiply(simd, pixel, other.line(0));
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn swish<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    // The sigmoid never gets as small as a number can be large.
    let is_zero = simd.less_than_f32s(x, simd.splat_f32s(-104.0));
    let factor = simd.select_f32s(is_zero, simd.splat_f32s(0.0), sigmoid(simd, x));
    simd.mul_f32s(x, factor)
}

#[inline(always)]
fn hard_sigmoid<S: Simd>(simd: S, x: S::f32s, slope: f32, offset: f32) -> S::f32s {
    let y = simd.mul_add_f32s(simd.splat_f32s(slope), x, simd.splat_f32s(offset));
    // Comparisons, so that NaN stays on every unit.
    let (zero, one) = (simd.splat_f32s(0.0), simd.splat_f32s(1.0));
    let y = simd.select_f32s(simd.less_than_f32s(y, zero), zero, y);
    simd.select_f32s(simd.greater_than_f32s(y, one), one, y)
}

#[inline(always)]
fn multiply<S: Simd>(simd: S, numbers: &mut [f32], factors: &[f32]) {
    let ((vectors, rest), (by, rest_by)) = (S::as_mut_simd_f32s(numbers), S::as_simd_f32s(factors));
    for (x, by) in vectors.iter_mut().zip(by) {
        *x = simd.mul_f32s(*x, *by);
    }
    let last = simd.mul_f32s(simd.partial_load_f32s(rest), simd.partial_load_f32s(rest_by));
    simd.partial_store_f32s(rest, last);
}
