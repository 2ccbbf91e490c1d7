//! Convolutions where every output reads all channels.

use std::array::from_fn;

use pulp::{Simd, WithSimd};

use super::finish::{Finisher, Target, load};
use super::{Finish, Frame, Geometry, Margin, Size, most_pixels, with_pixels};
use crate::packed::Aligned;
use crate::unit::arch;

/// Numbers of the input that stay in cache while all panels of weights pass by.
const BLOCK: usize = 64 << 10;
/// Most vectors of outputs in a panel: with the pixels of a tile they fill the registers.
const WIDEST: usize = 3;

/// A convolution and its weights, laid out for the vector unit of this CPU.
///
/// ```
/// use nextpair_kernels::convolution::{Dense, Finish, Frame, Geometry, Margin, Size};
///
/// let geometry =
///     Geometry { kernel: (1, 1), stride: (1, 1), dilation: (1, 1), padding: Margin::default() };
/// let layer = Dense::new(geometry, &[1.0, 10.0], &[0.5]);
/// let (mut input, mut output) = (Frame::default(), Frame::default());
/// input.read_planes(&[2.0, 3.0], Size { height: 1, width: 1, channels: 2 }, Margin::default());
/// layer.run(&input, &Finish::default(), Margin::default(), &mut output)?;
/// assert_eq!(output.to_planes(), [32.5]);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct Dense {
    geometry: Geometry,
    inputs: usize,
    outputs: usize,
    /// Panel after panel: its vectors of outputs for every number that they read.
    weights: Aligned,
    bias: Vec<f32>,
}

impl Dense {
    /// Lays out `weights`, which are `[outputs, inputs, rows, columns]` and as many outputs as
    /// `bias` has numbers.
    ///
    /// # Panics
    /// If the weights are not whole kernels.
    pub fn new(geometry: Geometry, weights: &[f32], bias: &[f32]) -> Self {
        Self::for_lanes(lanes(), geometry, weights, bias)
    }

    /// [`Dense::new`] for vectors of as many numbers.
    pub(super) fn for_lanes(
        lanes: usize,
        geometry: Geometry,
        weights: &[f32],
        bias: &[f32],
    ) -> Self {
        let (outputs, taps) = (bias.len(), geometry.kernel.0 * geometry.kernel.1);
        let inputs = weights.len() / (outputs * taps).max(1);
        assert_eq!(weights.len(), outputs * inputs * taps, "weights of {outputs} outputs");
        let depth = inputs * taps;
        let mut packed = Aligned::default();
        packed.resize(outputs.div_ceil(lanes) * lanes * depth);
        let (mut rest, mut first) = (&mut packed[..], 0);
        for vectors in panels(outputs.div_ceil(lanes)) {
            let width = vectors * lanes;
            let (panel, later) = rest.split_at_mut(width * depth);
            for (n, to) in panel.iter_mut().enumerate() {
                // The order of memory: rows of the kernel, its columns, channels.
                let (step, output) = (n / width, first + n % width);
                let (tap, input) = (step / inputs, step % inputs);
                let weight = (output * inputs + input) * taps + tap;
                *to = if output < outputs { weights[weight] } else { 0.0 };
            }
            (rest, first) = (later, first + width);
        }
        Dense { geometry, inputs, outputs, weights: packed, bias: bias.to_vec() }
    }

    /// The size of the result. An error names sizes that do not fit.
    pub fn output(&self, input: Size) -> Result<Size, String> {
        if input.channels != self.inputs {
            return Err(format!("{} channels for {} of a kernel", input.channels, self.inputs));
        }
        let (height, width) = self.geometry.output(input)?;
        Ok(Size { height, width, channels: self.outputs })
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

    /// [`Dense::run`] for any vector unit that the weights are laid out for.
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

/// Lanes of a vector on this CPU.
fn lanes() -> usize {
    crate::packed::tile_size().1 / crate::packed::VECTORS
}

/// Vectors per panel, for `count` in all: as many of the widest as possible, and no single one
/// unless there is only one.
pub(crate) fn panels(count: usize) -> impl Iterator<Item = usize> {
    let narrow: &[usize] = match count % WIDEST {
        _ if count == 1 => &[1],
        1 => &[2, 2],
        2 => &[2],
        _ => &[],
    };
    let wide = (count - narrow.iter().sum::<usize>()) / WIDEST;
    std::iter::repeat_n(WIDEST, wide).chain(narrow.iter().copied())
}

/// Where one output pixel reads and writes.
#[derive(Clone, Copy, Default)]
struct Place {
    input: usize,
    target: Target,
}

pub(super) struct Job<'a> {
    layer: &'a Dense,
    input: &'a Frame,
    finish: &'a Finish<'a>,
    output: &'a mut Frame,
}

impl WithSimd for Job<'_> {
    type Output = ();

    // Inlined, like everything it calls, so that it is compiled for the vector unit in use.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { layer, input, finish, output } = self;
        let Size { height, width, channels: outputs } = output.size();
        let stretches = Stretches::new(&layer.geometry, input);
        let depth = stretches.offsets.len() * stretches.length;
        let (pixels, finisher) = (height * width, Finisher::new(simd, finish));
        let block = (BLOCK / depth.max(1)).max(2 * most_pixels::<S>());
        let blocks = pixels.div_ceil(block);
        let mut places = Vec::with_capacity(block);
        for b in 0..blocks {
            places.clear();
            places.extend((pixels * b / blocks..pixels * (b + 1) / blocks).map(|pixel| {
                let (y, x) = (pixel / width, pixel % width);
                let added = finish.add.map_or(0, |add| add.at(y, x));
                let target = Target { output: output.at(y, x), added };
                Place { input: layer.geometry.first(input, y, x), target }
            }));
            let (mut weights, mut first) = (&layer.weights[..], 0);
            for vectors in panels(outputs.div_ceil(S::F32_LANES)) {
                let wide = vectors * S::F32_LANES;
                let (panel, later) = weights.split_at(wide * depth);
                let width = wide.min(outputs - first);
                let bias = &layer.bias[first..][..width];
                let tiles = Tiles {
                    input: input.numbers(),
                    stretches: &stretches,
                    panel,
                    bias,
                    first,
                    finisher,
                    output: output.numbers_mut(),
                };
                match (vectors, width == wide) {
                    (1, true) => tiles.run::<1, true>(simd, &places),
                    (2, true) => tiles.run::<2, true>(simd, &places),
                    (_, true) => tiles.run::<WIDEST, true>(simd, &places),
                    (1, false) => tiles.run::<1, false>(simd, &places),
                    (2, false) => tiles.run::<2, false>(simd, &places),
                    (_, false) => tiles.run::<WIDEST, false>(simd, &places),
                }
                (weights, first) = (later, first + wide);
            }
            if let Some(activation) = finish.activation {
                // The pixels of a line lie side by side.
                for line in places.chunk_by(|a, b| a.target.output + outputs == b.target.output) {
                    let start = line[0].target.output;
                    let numbers = &mut output.numbers_mut()[start..][..line.len() * outputs];
                    activation.apply(simd, numbers);
                }
            }
        }
    }
}

/// What one output reads: as many stretches of numbers, at these distances from the first.
struct Stretches {
    offsets: Vec<usize>,
    length: usize,
}

impl Stretches {
    fn new(geometry: &Geometry, input: &Frame) -> Self {
        let (channels, pitch) = (input.size().channels, input.pitch());
        let (rows, columns) = geometry.kernel;
        let row = |y: usize| y * geometry.dilation.0 * pitch;
        if geometry.dilation.1 == 1 {
            // The columns of a kernel lie side by side.
            return Stretches { offsets: (0..rows).map(row).collect(), length: columns * channels };
        }
        let column = |x: usize| x * geometry.dilation.1 * channels;
        let taps = (0..rows).flat_map(|y| (0..columns).map(move |x| row(y) + column(x)));
        Stretches { offsets: taps.collect(), length: channels }
    }
}

/// The outputs of one panel.
struct Tiles<'a, S: Simd> {
    input: &'a [f32],
    stretches: &'a Stretches,
    panel: &'a [f32],
    bias: &'a [f32],
    /// The first output of the panel.
    first: usize,
    finisher: Finisher<'a, S>,
    output: &'a mut [f32],
}

impl<S: Simd> Tiles<'_, S> {
    /// `WHOLE` promises that the outputs are whole vectors.
    #[inline(always)]
    fn run<const V: usize, const WHOLE: bool>(mut self, simd: S, places: &[Place]) {
        let count = places.len().div_ceil(most_pixels::<S>());
        for tile in 0..count {
            let tile = places.len() * tile / count..places.len() * (tile + 1) / count;
            let places = &places[tile];
            with_pixels!(places.len(), P => self.tile::<V, P, WHOLE>(simd, places));
        }
    }

    /// Every sum is a chain of fused multiply-adds in the order of memory, from the bias on.
    #[inline(always)]
    fn tile<const V: usize, const P: usize, const WHOLE: bool>(
        &mut self,
        simd: S,
        places: &[Place],
    ) {
        let places: &[Place; P] = places.try_into().expect("as many places as pixels");
        let (vectors, _) = S::as_simd_f32s(self.panel);
        let (lines, _) = vectors.as_chunks::<V>();
        let mut pieces = self.bias.chunks(S::F32_LANES);
        let bias: [S::f32s; V] =
            from_fn(|_| load::<S, WHOLE>(simd, pieces.next().unwrap_or_default()));
        let mut sums = [bias; P];
        let length = self.stretches.length;
        for (s, offset) in self.stretches.offsets.iter().enumerate() {
            let lines = &lines[s * length..][..length];
            let pixels: [&[f32]; P] =
                from_fn(|p| &self.input[places[p].input + offset..][..lines.len()]);
            for (k, line) in lines.iter().enumerate() {
                // By index, because iterators would move the sums out of the registers.
                for p in 0..P {
                    let number = simd.splat_f32s(pixels[p][k]);
                    for v in 0..V {
                        sums[p][v] = simd.mul_add_f32s(number, line[v], sums[p][v]);
                    }
                }
            }
        }
        let targets = from_fn(|p| Target {
            output: places[p].target.output + self.first,
            added: places[p].target.added + self.first,
        });
        self.finisher.write::<V, P, WHOLE>(sums, &targets, self.bias.len(), self.output);
    }
}
