//! Depthwise convolution: every channel with its own kernel.
//!
//! It is a tenth of the arithmetic of a mobile network, but took two thirds of the time in the
//! runtime, which computes it one number at a time.
//!
//! A channel is laid out with its zero padding, split into one plane for every remainder of row and
//! column by the stride. In that layout an output pixel at distance `p` from the first is the sum
//! over the kernel of `weight * plane[offset + p]`. These sums are long, contiguous and the same
//! for every stride and dilation, so compilers vectorise them.

use rten_tensor::prelude::*;
use rten_tensor::{NdTensor, NdTensorView};

/// Outputs summed together: enough to keep the vector units busy.
const LANES: usize = 64;

/// The weights and geometry of one depthwise convolution. Pairs are vertical, horizontal.
#[derive(Clone, Debug)]
pub(super) struct Depthwise {
    /// `channels * kernel.0 * kernel.1` numbers.
    pub(super) weights: Vec<f32>,
    /// One number per channel.
    pub(super) bias: Vec<f32>,
    pub(super) kernel: (usize, usize),
    pub(super) stride: (usize, usize),
    pub(super) dilation: (usize, usize),
    /// Zeros before the first row and column.
    pub(super) before: (usize, usize),
    /// Zeros after the last.
    pub(super) after: (usize, usize),
}

impl Depthwise {
    /// Convolves a `[batch, channels, height, width]` tensor.
    pub(super) fn run(&self, input: NdTensorView<f32, 4>) -> Result<NdTensor<f32, 4>, String> {
        let [batch, channels, height, width] = input.shape();
        if channels != self.bias.len() {
            return Err(format!("{channels} channels for {} kernels", self.bias.len()));
        }
        let rows = Axis::new(height, self.kernel.0, self.stride.0, self.dilation.0)
            .padded(self.before.0, self.after.0)?;
        let columns = Axis::new(width, self.kernel.1, self.stride.1, self.dilation.1)
            .padded(self.before.1, self.after.1)?;
        let contiguous = input.to_contiguous();
        let shape = [batch, channels, rows.output, columns.output];
        let mut output = vec![0.0; shape.iter().product()];
        // Compiled once for every kind of vector unit; the best available one is used.
        pulp::Arch::new().dispatch(Task {
            depthwise: self,
            rows,
            columns,
            input: contiguous.data(),
            output: &mut output,
        });
        Ok(NdTensor::from_data(shape, output))
    }
}

/// One of the two axes of a picture.
#[derive(Clone, Copy, Debug)]
struct Axis {
    input: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    /// Length of a plane: the padded input divided by the stride.
    plane: usize,
    output: usize,
}

impl Axis {
    fn new(input: usize, kernel: usize, stride: usize, dilation: usize) -> Self {
        Axis { input, kernel, stride, dilation, before: 0, plane: 0, output: 0 }
    }

    fn padded(self, before: usize, after: usize) -> Result<Self, String> {
        let padded = self.input + before + after;
        let reach = (self.kernel - 1) * self.dilation + 1;
        if padded < reach {
            return Err(format!("{padded} pixels with padding for a kernel over {reach}"));
        }
        let output = (padded - reach) / self.stride + 1;
        Ok(Axis { before, plane: padded.div_ceil(self.stride), output, ..self })
    }

    /// The plane of a padded coordinate, and the position in it.
    #[inline(always)]
    fn place(&self, coordinate: usize) -> (usize, usize) {
        (coordinate % self.stride, coordinate / self.stride)
    }
}

struct Task<'a> {
    depthwise: &'a Depthwise,
    rows: Axis,
    columns: Axis,
    input: &'a [f32],
    output: &'a mut [f32],
}

impl pulp::NullaryFnOnce for Task<'_> {
    type Output = ();

    // Inlined, like everything it calls, so that it is compiled for the vector unit in use.
    #[inline(always)]
    fn call(self) {
        let Task { depthwise, rows, columns, input, output } = self;
        let (size, pitch) = (rows.plane * columns.plane, columns.plane);
        let (channels, taps) = (depthwise.bias.len(), rows.kernel * columns.kernel);
        // Sums continue through the padding at the end of a row and are cut off there; the last
        // ones run past the last plane.
        let length = (rows.output * pitch).next_multiple_of(LANES);
        let mut planes = vec![0.0; size * rows.stride * columns.stride + length];
        let mut sums = vec![0.0; length];
        let mut offsets = Vec::with_capacity(taps);
        for (y, x) in (0..taps).map(|tap| (tap / columns.kernel, tap % columns.kernel)) {
            let (row_plane, row) = rows.place(y * rows.dilation);
            let (column_plane, column) = columns.place(x * columns.dilation);
            let plane = row_plane * columns.stride + column_plane;
            offsets.push(plane * size + row * pitch + column);
        }
        let inputs = input.chunks_exact(rows.input * columns.input);
        let outputs = output.chunks_exact_mut(rows.output * columns.output);
        for (n, (input, output)) in inputs.zip(outputs).enumerate() {
            let channel = n % channels;
            let weights = &depthwise.weights[channel * taps..][..taps];
            lay_out(input, rows, columns, &mut planes);
            sum(&planes, &offsets, weights, depthwise.bias[channel], &mut sums);
            for (out, sums) in output.chunks_exact_mut(columns.output).zip(sums.chunks(pitch)) {
                out.copy_from_slice(&sums[..columns.output]);
            }
        }
    }
}

/// Writes a channel into its planes. The padding stays zero.
#[inline(always)]
fn lay_out(input: &[f32], rows: Axis, columns: Axis, planes: &mut [f32]) {
    let size = rows.plane * columns.plane;
    for (y, line) in input.chunks_exact(columns.input).enumerate() {
        let (row_plane, row) = rows.place(y + rows.before);
        for first in 0..columns.stride.min(line.len()) {
            let (column_plane, column) = columns.place(first + columns.before);
            let plane = row_plane * columns.stride + column_plane;
            let to = &mut planes[plane * size + row * columns.plane + column..];
            every(&line[first..], columns.stride, to);
        }
    }
}

/// Copies every `stride`-th number, the first included.
#[inline(always)]
fn every(from: &[f32], stride: usize, to: &mut [f32]) {
    match stride {
        1 => to[..from.len()].copy_from_slice(from),
        2 => {
            let (pairs, last) = from.as_chunks::<2>();
            let to = &mut to[..pairs.len() + last.len()];
            for (to, [number, _]) in to.iter_mut().zip(pairs) {
                *to = *number;
            }
            to[pairs.len()..].copy_from_slice(last);
        }
        _ => to.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, from)| *to = *from),
    }
}

#[inline(always)]
fn sum(planes: &[f32], offsets: &[usize], weights: &[f32], bias: f32, sums: &mut [f32]) {
    let (blocks, _) = sums.as_chunks_mut::<LANES>();
    for (block, sums) in blocks.iter_mut().enumerate() {
        let mut totals = [bias; LANES];
        for (&offset, &weight) in offsets.iter().zip(weights) {
            let from = planes[offset + block * LANES..].first_chunk::<LANES>();
            let from = from.expect("the planes are longer by all sums than any offset");
            // By index: with iterators the totals leave the registers, which takes twice the time.
            for lane in 0..LANES {
                totals[lane] += weight * from[lane];
            }
        }
        *sums = totals;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Irregular numbers, so that no mistake cancels out.
    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 504.5 - 1.0).collect()
    }

    /// The definition, one output at a time, summed in the same order.
    fn plain(layer: &Depthwise, input: &NdTensor<f32, 4>, output: [usize; 4]) -> Vec<f32> {
        let [batch, channels, height, width] = output;
        let ((rows, columns), mut all) = (layer.kernel, Vec::new());
        for n in 0..batch * channels * height * width {
            let (item, channel) =
                (n / (channels * height * width), n / (height * width) % channels);
            let (y, x) = (n / width % height, n % width);
            let mut total = layer.bias[channel];
            for (i, j) in (0..rows * columns).map(|tap| (tap / columns, tap % columns)) {
                let row = (y * layer.stride.0 + i * layer.dilation.0).wrapping_sub(layer.before.0);
                let column =
                    (x * layer.stride.1 + j * layer.dilation.1).wrapping_sub(layer.before.1);
                let number = input.get([item, channel, row, column]).copied().unwrap_or(0.0);
                total += layer.weights[(channel * rows + i) * columns + j] * number;
            }
            all.push(total);
        }
        all
    }

    #[test]
    fn every_geometry_equals_the_definition() {
        let pairs = [(1, 1), (2, 2), (3, 3), (1, 2), (3, 1)];
        for (case, (kernel, stride)) in [(1, 1), (3, 3), (4, 4), (5, 5), (2, 5), (6, 3)]
            .into_iter()
            .flat_map(|k| pairs.map(|s| (k, s)))
            .enumerate()
        {
            for (before, after, dilation) in
                [((0, 0), (0, 0), (1, 1)), ((1, 2), (2, 1), (1, 1)), ((2, 2), (2, 2), (2, 1))]
            {
                let layer = Depthwise {
                    weights: numbers(3 * kernel.0 * kernel.1, case),
                    bias: numbers(3, case + 1),
                    kernel,
                    stride,
                    dilation,
                    before,
                    after,
                };
                for (height, width) in [(12, 9), (15, 80)] {
                    let shape = [2, 3, height, width];
                    let input = NdTensor::from_data(shape, numbers(6 * height * width, case));
                    let output = layer.run(input.view()).unwrap();
                    let expected = plain(&layer, &input, output.shape());
                    assert_eq!(output.data().unwrap(), expected, "{layer:?}");
                }
            }
        }
    }

    #[test]
    fn impossible_geometry_is_an_error() {
        let layer = Depthwise {
            weights: vec![1.0; 9],
            bias: vec![0.0],
            kernel: (3, 3),
            stride: (1, 1),
            dilation: (1, 1),
            before: (0, 0),
            after: (0, 0),
        };
        let small = NdTensor::from_data([1, 1, 2, 5], vec![0.0; 10]);
        assert_eq!(
            layer.run(small.view()).unwrap_err(),
            "2 pixels with padding for a kernel over 3"
        );
        let wide = NdTensor::from_data([1, 2, 3, 3], vec![0.0; 18]);
        assert_eq!(layer.run(wide.view()).unwrap_err(), "2 channels for 1 kernels");
    }
}
