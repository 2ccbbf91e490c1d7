//! The shared test of all operations: every device against the formula in double precision.

use nextpair_core::Draws;

use crate::{Device, Error, Gradients, Precision, Tensor};

/// A tensor of normal draws.
pub(crate) fn tensor(seed: u64, shape: &[usize]) -> Tensor {
    let mut draws = Draws::new(seed);
    let count = shape.iter().product();
    let values = (0..count).map(|_| draws.normal() as f32).collect();
    Tensor::new(values, shape, Device::Cpu).expect("as many as the shape says")
}

/// Numbers that differ from those of a tensor by up to half a unit of the 10 bits of a factor, as matrix units round
/// them.
pub(crate) fn shaken(tensor: &Tensor, seed: u64) -> Tensor {
    let mut draws = Draws::new(seed);
    let shake = |x: f32| x * (1.0 + (2.0 * draws.unit() as f32 - 1.0) / 2048.0);
    let values = tensor.to_f32s().expect("on the CPU").into_iter().map(shake).collect();
    Tensor::new(values, tensor.shape(), Device::Cpu).expect("as many as before")
}

/// Compares values and gradients of all inputs on every device with the reference. They may differ
/// by `tolerance` times the largest value.
pub(crate) fn judge(
    inputs: &[Tensor],
    tolerance: f64,
    compute: impl Fn(&[Tensor]) -> Result<Tensor, Error>,
) {
    judge_on(&Device::available(), inputs, tolerance, compute);
}

/// The same in the fast precisions of a GPU.
pub(crate) fn judge_fast(
    inputs: &[Tensor],
    tolerance: f64,
    compute: impl Fn(&[Tensor]) -> Result<Tensor, Error>,
) {
    let gpus = Device::available().into_iter().filter(|device| matches!(device, Device::Cuda(_)));
    let fast =
        |gpu: Device| [Precision::Tf32, Precision::Fp16].map(|fast| gpu.with_precision(fast));
    judge_on(&gpus.flat_map(fast).collect::<Vec<_>>(), inputs, tolerance, compute);
}

fn judge_on(
    devices: &[Device],
    inputs: &[Tensor],
    tolerance: f64,
    compute: impl Fn(&[Tensor]) -> Result<Tensor, Error>,
) {
    let on = |device: Device| -> (Vec<Tensor>, Tensor, Gradients) {
        let inputs: Vec<Tensor> =
            inputs.iter().map(|input| input.to_device(device).unwrap().into_weight()).collect();
        let result = compute(&inputs).unwrap();
        let upstream = tensor(99, &[result.len()]).to_f32s().unwrap();
        let gradients = result.backward(&upstream).unwrap();
        (inputs, result, gradients)
    };
    let (expected_inputs, expected, expected_gradients) = on(Device::Reference);
    for &device in devices {
        let (inputs, result, gradients) = on(device);
        assert_eq!(result.shape(), expected.shape());
        let (found, truth) = (result.to_f64s().unwrap(), expected.to_f64s().unwrap());
        close(&format!("the result on {device}"), &found, &truth, tolerance);
        for (at, (input, judge)) in inputs.iter().zip(&expected_inputs).enumerate() {
            let of =
                |gradients: &Gradients, input| gradients.of(input).map(|g| g.to_f64s().unwrap());
            let (found, expected) = (of(&gradients, input), of(&expected_gradients, judge));
            let what = format!("the gradient of input {at} on {device}");
            close(&what, &found.unwrap(), &expected.unwrap(), tolerance);
        }
    }
}

fn close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    let largest = expected.iter().fold(1.0, |largest: f64, x| largest.max(x.abs()));
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let off = (found - expected).abs();
        assert!(off <= tolerance * largest, "{what}: {found} instead of {expected} at {at}");
    }
}
