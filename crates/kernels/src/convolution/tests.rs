//! Both kinds of convolution against the definition.

use pulp::{Scalar, Simd, WithSimd};

use super::*;

/// A vector unit to compute on.
#[derive(Clone, Copy, Debug)]
enum Unit {
    Best,
    /// The one of most machines without AVX-512.
    #[cfg(target_arch = "x86_64")]
    V3(pulp::x86::V3),
    /// None.
    Scalar,
}

impl Unit {
    /// Those of this CPU.
    fn all() -> Vec<Unit> {
        let always = [Unit::Best, Unit::Scalar].into_iter();
        #[cfg(target_arch = "x86_64")]
        let always = always.chain(pulp::x86::V3::try_new().map(Unit::V3));
        always.collect()
    }

    fn run(self, job: impl WithSimd<Output = ()>) {
        match self {
            Unit::Best => crate::unit::arch().dispatch(job),
            #[cfg(target_arch = "x86_64")]
            Unit::V3(unit) => Simd::vectorize(unit, job),
            Unit::Scalar => Simd::vectorize(Scalar, job),
        }
    }

    fn dense(self, geometry: Geometry, weights: &[f32], bias: &[f32]) -> Dense {
        match self {
            Unit::Best => Dense::new(geometry, weights, bias),
            #[cfg(target_arch = "x86_64")]
            Unit::V3(_) => Dense::for_lanes(8, geometry, weights, bias),
            Unit::Scalar => Dense::for_lanes(Scalar::F32_LANES, geometry, weights, bias),
        }
    }
}

/// Irregular numbers, so that no mistake cancels out.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 504.5 - 1.0).collect()
}

/// The definition, one output at a time, summed in the order of the kernel. `weights` are
/// `[outputs, inputs, rows, columns]`; with one input per output every channel reads its own.
fn plain(
    geometry: &Geometry,
    (weights, bias): (&[f32], &[f32]),
    (planes, size): (&[f32], Size),
) -> Vec<f32> {
    let (height, width) = geometry.output(size).unwrap();
    let (rows, columns) = geometry.kernel;
    let inputs = weights.len() / (bias.len() * rows * columns);
    let is_depthwise = inputs == 1 && bias.len() == size.channels;
    let mut all = Vec::new();
    for n in 0..bias.len() * height * width {
        let (output, y, x) = (n / (height * width), n / width % height, n % width);
        let mut total = bias[output];
        for (i, j) in (0..rows * columns).map(|tap| (tap / columns, tap % columns)) {
            let row = (y * geometry.stride.0 + i * geometry.dilation.0)
                .wrapping_sub(geometry.padding.top);
            let column = (x * geometry.stride.1 + j * geometry.dilation.1)
                .wrapping_sub(geometry.padding.left);
            if row >= size.height || column >= size.width {
                continue;
            }
            for input in 0..inputs {
                let plane = if is_depthwise { output } else { input };
                let weight = weights[((output * inputs + input) * rows + i) * columns + j];
                let number = planes[(plane * size.height + row) * size.width + column];
                total = weight.mul_add(number, total);
            }
        }
        all.push(total);
    }
    all
}

fn geometries() -> impl Iterator<Item = Geometry> {
    let kernels = [(1, 1), (3, 3), (4, 4), (5, 5), (2, 5), (6, 3)];
    let strides = [(1, 1), (2, 2), (3, 3), (1, 2), (3, 1)];
    let margin = |top, left, bottom, right| Margin { top, left, bottom, right };
    let around = [
        (Margin::default(), (1, 1)),
        (margin(1, 2, 2, 1), (1, 1)),
        (margin(2, 2, 2, 2), (2, 1)),
        (margin(1, 0, 0, 3), (1, 2)),
    ];
    let pairs = kernels.into_iter().flat_map(move |k| strides.map(|s| (k, s)));
    pairs.flat_map(move |(kernel, stride)| {
        around.map(|(padding, dilation)| Geometry { kernel, stride, dilation, padding })
    })
}

const ACTIVATIONS: [Activation; 4] = [
    Activation::Sigmoid,
    Activation::Swish,
    Activation::HardSigmoid { slope: 0.2, offset: 0.5 },
    Activation::HardSwish,
];

/// The definition of an activation.
fn defined(activation: Activation, x: f32) -> f64 {
    let x = f64::from(x);
    let (sigmoid, hard) = (1.0 / (1.0 + (-x).exp()), (x / 6.0 + 0.5).clamp(0.0, 1.0));
    match activation {
        Activation::Sigmoid => sigmoid,
        Activation::Swish => x * sigmoid,
        Activation::HardSigmoid { slope, offset } => {
            (f64::from(slope) * x + f64::from(offset)).clamp(0.0, 1.0)
        }
        Activation::HardSwish => x * hard,
    }
}

fn assert_zero_around(frame: &Frame) {
    let inside: f32 = frame.to_planes().iter().map(|number| number.abs()).sum();
    let everywhere: f32 = frame.numbers().iter().map(|number| number.abs()).sum();
    assert!((inside - everywhere).abs() <= 1e-3 * inside, "the margin is zero");
}

/// Compares a layer with the definition, then with another picture, limits and an activation.
fn compare(
    geometry: &Geometry,
    layer: (&[f32], &[f32]),
    size: Size,
    run: &dyn Fn(&Frame, &Finish<'_>, Margin, &mut Frame),
) {
    let planes = numbers(size.numbers(), 5);
    let expected = plain(geometry, layer, (&planes, size));
    let (mut input, mut output) = (Frame::default(), Frame::default());
    // More margin than is asked for, and none.
    let more = Margin { top: 1, left: 2, bottom: 0, right: 1 };
    input.read_planes(&planes, size, geometry.padding.max(more));
    assert_eq!(input.to_planes(), planes);
    run(&input, &Finish::default(), Margin::default(), &mut output);
    assert_eq!(output.to_planes(), expected, "{geometry:?} {size:?}");
    let (mut added, others) = (Frame::default(), numbers(expected.len(), 9));
    added.read_planes(&others, output.size(), more);
    let finish = Finish { add: Some(&added), low: -0.25, high: 0.5, activation: None };
    run(&input, &finish, more, &mut output);
    let expected = expected.iter().zip(&others).map(|(a, b)| (a + b).clamp(-0.25, 0.5));
    let before: Vec<f32> = expected.collect();
    assert_eq!(output.to_planes(), before, "{geometry:?} {size:?}");
    assert_zero_around(&output);
    let activation = ACTIVATIONS[before.len() % ACTIVATIONS.len()];
    run(&input, &Finish { activation: Some(activation), ..finish }, more, &mut output);
    assert_zero_around(&output);
    for (x, y) in before.iter().zip(output.to_planes()) {
        let expected = defined(activation, *x);
        assert!((f64::from(y) - expected).abs() < 1e-6, "{activation:?} of {x}: {y}");
    }
}

#[test]
fn activations_and_products_are_the_same_on_every_unit() {
    let size = Size { height: 3, width: 5, channels: 37 };
    let (some, more) =
        (Margin { top: 1, ..Margin::default() }, Margin { left: 2, ..Margin::default() });
    let mut planes: Vec<f32> = numbers(size.numbers(), 3).iter().map(|x| 9.0 * x).collect();
    planes[..3].copy_from_slice(&[-1e38, 1e38, -150.0]);
    let [mut input, mut factors, mut pixel, mut output, mut first] =
        std::array::from_fn(|_| Frame::default());
    input.read_planes(&planes, size, some);
    for activation in ACTIVATIONS {
        Unit::Scalar.run(activation.job(&input, some, &mut first));
        for unit in Unit::all() {
            unit.run(activation.job(&input, more, &mut output));
            assert_eq!(output.to_planes(), first.to_planes(), "{activation:?} on {unit:?}");
            assert_zero_around(&output);
        }
        for (x, y) in planes.iter().zip(first.to_planes()) {
            let expected = defined(activation, *x);
            let error = (f64::from(y) - expected).abs() / expected.abs().max(1.0);
            assert!(error < 2e-6, "{activation:?} of {x}: {y}");
        }
    }
    let by = numbers(size.numbers(), 4);
    factors.read_planes(&by, size, more);
    pixel.read_planes(&by[..37], Size { height: 1, width: 1, ..size }, some);
    for unit in Unit::all() {
        unit.run(input.product(&factors, more, &mut output).unwrap());
        let expected: Vec<f32> = planes.iter().zip(&by).map(|(x, y)| x * y).collect();
        assert_eq!(output.to_planes(), expected, "{unit:?}");
        assert_zero_around(&output);
        unit.run(input.product(&pixel, some, &mut output).unwrap());
        let expected =
            planes.chunks(15).zip(&by).flat_map(|(plane, y)| plane.iter().map(move |x| x * y));
        assert_eq!(output.to_planes(), expected.collect::<Vec<_>>(), "{unit:?}");
    }
    let what = pixel.times(&input, some, &mut output).unwrap_err();
    assert!(what.contains("height: 1") && what.contains("height: 3"), "{what}");
}

#[test]
fn every_geometry_equals_the_definition_on_every_unit() {
    for (case, (geometry, unit)) in geometries()
        .flat_map(|geometry| Unit::all().into_iter().map(move |u| (geometry, u)))
        .enumerate()
    {
        let taps = geometry.kernel.0 * geometry.kernel.1;
        for (height, width) in [(12, 9), (13, 30)] {
            let channels = [1, 3, 16, 37, 64][case % 5];
            let size = Size { height, width, channels };
            let (weights, bias) = (numbers(channels * taps, case), numbers(channels, case + 1));
            let layer = Depthwise::new(geometry, &weights, &bias);
            compare(&geometry, (&weights, &bias), size, &|input, finish, margin, output| {
                unit.run(layer.job(input, finish, margin, output).unwrap());
            });
            let (inputs, outputs) = ([2, 3, 7][case % 3], [1, 5, 16, 24, 40, 65, 112][case % 7]);
            let size = Size { height, width, channels: inputs };
            let weights = numbers(outputs * inputs * taps, case);
            let bias = numbers(outputs, case + 1);
            let layer = unit.dense(geometry, &weights, &bias);
            compare(&geometry, (&weights, &bias), size, &|input, finish, margin, output| {
                unit.run(layer.job(input, finish, margin, output).unwrap());
            });
        }
    }
}

#[test]
fn large_pictures_go_block_by_block() {
    let geometry =
        Geometry { kernel: (1, 1), stride: (1, 1), dilation: (1, 1), padding: Margin::default() };
    let size = Size { height: 23, width: 29, channels: 300 };
    let (weights, bias) = (numbers(300 * 70, 1), numbers(70, 2));
    for unit in Unit::all() {
        let layer = unit.dense(geometry, &weights, &bias);
        compare(&geometry, (&weights, &bias), size, &|input, finish, margin, output| {
            unit.run(layer.job(input, finish, margin, output).unwrap());
        });
    }
}

#[test]
fn not_a_number_stays_one() {
    let geometry =
        Geometry { kernel: (1, 1), stride: (1, 1), dilation: (1, 1), padding: Margin::default() };
    let (mut input, mut output) = (Frame::default(), Frame::default());
    input.read_planes(&[f32::NAN], Size { height: 1, width: 1, channels: 1 }, Margin::default());
    let dense = Dense::new(geometry, &[1.0], &[0.0]);
    for activation in ACTIVATIONS.into_iter().map(Some).chain([None]) {
        let finish = Finish { add: None, low: 0.0, high: 6.0, activation };
        dense.run(&input, &finish, Margin::default(), &mut output).unwrap();
        assert!(output.to_planes()[0].is_nan(), "{activation:?}");
    }
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    let geometry =
        Geometry { kernel: (3, 3), stride: (1, 1), dilation: (1, 1), padding: Margin::default() };
    let size = |height, width, channels| Size { height, width, channels };
    let layer = Depthwise::new(geometry, &[1.0; 9], &[0.0]);
    let small = layer.output(size(2, 5, 1)).unwrap_err();
    assert_eq!(small, "2 pixels with padding for a kernel over 3");
    assert_eq!(layer.output(size(3, 3, 2)).unwrap_err(), "2 channels for 1 kernels");
    let layer = Dense::new(geometry, &[1.0; 18], &[0.0]);
    assert_eq!(layer.output(size(3, 3, 1)).unwrap_err(), "1 channels for 2 of a kernel");
}

#[test]
fn means_are_of_all_pixels() {
    let mut frame = Frame::default();
    let size = Size { height: 1, width: 2, channels: 2 };
    frame.read_planes(
        &[1.0, 3.0, -1.0, 0.0],
        size,
        Margin { top: 1, left: 1, ..Margin::default() },
    );
    assert_eq!(frame.mean(), [2.0, -0.5]);
}
