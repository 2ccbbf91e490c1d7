//! Convolutions where every channel has its own kernel.

use std::array::from_fn;

use pulp::{Simd, WithSimd};

use super::finish::{Finisher, Target, load};
use super::{Finish, Frame, Geometry, Margin, Size, most_pixels, with_pixels};
use crate::packed::Aligned;
use crate::unit::arch;

/// A depthwise convolution and its weights.
#[derive(Debug)]
pub struct Depthwise {
    geometry: Geometry,
    /// For every place of the kernel the weights of all channels.
    weights: Aligned,
    bias: Vec<f32>,
}

impl Depthwise {
    /// Lays out `weights`, which are `[channels, rows, columns]` and as many channels as `bias` has
    /// numbers.
    ///
    /// # Panics
    /// If the weights are not whole kernels.
    pub fn new(geometry: Geometry, weights: &[f32], bias: &[f32]) -> Self {
        let (channels, taps) = (bias.len(), geometry.kernel.0 * geometry.kernel.1);
        assert_eq!(weights.len(), channels * taps, "weights of {channels} channels");
        let mut turned = Aligned::default();
        turned.resize(weights.len());
        for (n, to) in turned.iter_mut().enumerate() {
            *to = weights[n % channels * taps + n / channels];
        }
        Depthwise { geometry, weights: turned, bias: bias.to_vec() }
    }

    /// The size of the result. An error names sizes that do not fit.
    pub fn output(&self, input: Size) -> Result<Size, String> {
        let channels = self.bias.len();
        if input.channels != channels {
            return Err(format!("{} channels for {channels} kernels", input.channels));
        }
        let (height, width) = self.geometry.output(input)?;
        Ok(Size { height, width, channels })
    }

    /// Convolves `input`, which has a margin of at least the padding, into `output`, which gets
    /// `margin`.
    ///
    /// # Panics
    /// If the margin of the input is too small, or a picture to add has another size.
    pub fn run(
        &self,
        input: &Frame,
        finish: &Finish<'_>,
        margin: Margin,
        output: &mut Frame,
    ) -> Result<(), String> {
        arch().dispatch(self.job(input, finish, margin, output)?);
        Ok(())
    }

    /// [`Depthwise::run`] for any vector unit.
    pub(super) fn job<'a>(
        &'a self,
        input: &'a Frame,
        finish: &'a Finish<'a>,
        margin: Margin,
        output: &'a mut Frame,
    ) -> Result<Job<'a>, String> {
        let size = self.output(input.size())?;
        self.geometry.check(input, finish, size);
        output.reshape(size, margin);
        Ok(Job { layer: self, input, finish, output })
    }
}

pub(super) struct Job<'a> {
    layer: &'a Depthwise,
    input: &'a Frame,
    finish: &'a Finish<'a>,
    output: &'a mut Frame,
}

impl WithSimd for Job<'_> {
    type Output = ();

    // Inlined, like everything it calls, so that it is compiled for the vector unit in use.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (channels, mut job) = (self.layer.bias.len(), self);
        let mut first = 0;
        // Some channels of the whole picture at a time: the lines that a kernel covers stay in the
        // nearest cache.
        while first + 2 * S::F32_LANES <= channels {
            job.channels::<S, 2, true>(simd, first);
            first += 2 * S::F32_LANES;
        }
        if first + S::F32_LANES <= channels {
            job.channels::<S, 1, true>(simd, first);
            first += S::F32_LANES;
        }
        if first < channels {
            job.channels::<S, 1, false>(simd, first);
        }
        if let Some(activation) = job.finish.activation {
            let Size { height, width, .. } = job.output.size();
            for y in 0..height {
                let start = job.output.at(y, 0);
                let line = &mut job.output.numbers_mut()[start..][..width * channels];
                activation.apply(simd, line);
            }
        }
    }
}

impl Job<'_> {
    /// Computes `V` vectors of channels, or as many as are left.
    #[inline(always)]
    fn channels<S: Simd, const V: usize, const WHOLE: bool>(&mut self, simd: S, first: usize) {
        let Size { height, width, .. } = self.output.size();
        let tiles = width.div_ceil(most_pixels::<S>());
        for y in 0..height {
            for tile in 0..tiles {
                let (start, end) = (width * tile / tiles, width * (tile + 1) / tiles);
                with_pixels!(end - start, P => {
                    self.tile::<S, V, P, WHOLE>(simd, (y, start), first)
                });
            }
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const V: usize, const P: usize, const WHOLE: bool>(
        &mut self,
        simd: S,
        (y, x): (usize, usize),
        first: usize,
    ) {
        let Job { layer: Depthwise { geometry, weights, bias }, input, finish, output } = self;
        let channels = bias.len();
        let count = if WHOLE { V * S::F32_LANES } else { channels - first };
        let taps = Taps {
            from: &input.numbers()[geometry.first(input, y, x) + first..],
            weights: &weights[first..],
            kernel: geometry.kernel,
            down: geometry.dilation.0 * input.pitch(),
            across: geometry.dilation.1 * channels,
            step: geometry.stride.1 * channels,
            channels,
        };
        let bias = vectors::<S, V, WHOLE>(simd, &bias[first..][..count]);
        let sums: [[S::f32s; V]; P] = taps.sums::<S, V, P, WHOLE>(simd, count, bias);
        let targets = from_fn(|p| Target {
            output: output.at(y, x + p) + first,
            added: finish.add.map_or(0, |add| add.at(y, x + p)) + first,
        });
        let finisher = Finisher::new(simd, finish);
        finisher.write::<V, P, WHOLE>(sums, &targets, count, output.numbers_mut());
    }
}

/// What some neighbouring outputs read.
struct Taps<'a> {
    /// The input and the weights, each from the first number on.
    from: &'a [f32],
    weights: &'a [f32],
    kernel: (usize, usize),
    /// Numbers from a line of the kernel to the next, from a column to the next, and from an output
    /// to the next.
    down: usize,
    across: usize,
    step: usize,
    channels: usize,
}

impl Taps<'_> {
    #[inline(always)]
    fn sums<S: Simd, const V: usize, const P: usize, const WHOLE: bool>(
        &self,
        simd: S,
        count: usize,
        bias: [S::f32s; V],
    ) -> [[S::f32s; V]; P] {
        let Taps { from, weights, kernel, down, across, step, channels } = *self;
        let taps = kernel.0 * kernel.1;
        let last = (kernel.0 - 1) * down + (kernel.1 - 1) * across + (P - 1) * step;
        assert!(last + count <= from.len() && (taps - 1) * channels + count <= weights.len());
        let mut sums = [bias; P];
        for row in 0..kernel.0 {
            for column in 0..kernel.1 {
                let tap = row * kernel.1 + column;
                // SAFETY: `last` and the last tap are the farthest places of these loops, and
                // `count` numbers lie within the slices even there.
                let (weights, pixels) = unsafe {
                    let weights = weights.get_unchecked(tap * channels..);
                    let from = from.get_unchecked(row * down + column * across..);
                    let pixel = |p| from.get_unchecked(p * step..).get_unchecked(..count);
                    (weights.get_unchecked(..count), from_fn::<_, P, _>(pixel))
                };
                let weights: [S::f32s; V] = vectors::<S, V, WHOLE>(simd, weights);
                // By index, because iterators would move the sums out of the registers.
                for p in 0..P {
                    let pixel: [S::f32s; V] = vectors::<S, V, WHOLE>(simd, pixels[p]);
                    for v in 0..V {
                        sums[p][v] = simd.mul_add_f32s(weights[v], pixel[v], sums[p][v]);
                    }
                }
            }
        }
        sums
    }
}

/// `V` vectors of numbers, or one that they do not fill.
#[inline(always)]
fn vectors<S: Simd, const V: usize, const WHOLE: bool>(simd: S, from: &[f32]) -> [S::f32s; V] {
    match S::as_simd_f32s(from).0.first_chunk() {
        Some(vectors) => *vectors,
        None => [load::<S, WHOLE>(simd, from); V],
    }
}
