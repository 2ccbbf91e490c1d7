//! Differentiable operations, the building blocks of models.

use nextpair_cuda::Array;

use crate::cuda::Unit;
use crate::real::{Real, derivatives};
use crate::tensor::{Backward, Tensor, Values};
use crate::{Device, Error};

/// A differentiable operation on tensors of one device.
///
/// A new operation needs a shape and a formula, and then works on every device. Operations that
/// dominate a model's time add a fast form per device, which tests hold to the formula.
pub trait Operation: Send + Sync + 'static {
    /// The shape of the result.
    fn shape(&self) -> Vec<usize>;

    /// Computes the result from the inputs as plainly as possible: the reference.
    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R>;

    /// Computes the result on the CPU.
    ///
    /// # Errors
    /// If the operation rejects its inputs.
    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let inputs: Vec<Vec<f64>> = inputs.iter().map(|input| doubles(input)).collect();
        let inputs: Vec<&[f64]> = inputs.iter().map(Vec::as_slice).collect();
        Ok(singles(&self.formula(&inputs)))
    }

    /// Computes the gradients of the inputs on the CPU from the gradient of the result. Only those
    /// that are `wanted` are required.
    ///
    /// # Errors
    /// If the operation rejects its inputs.
    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let inputs: Vec<Vec<f64>> = inputs.iter().map(|input| doubles(input)).collect();
        let inputs: Vec<&[f64]> = inputs.iter().map(Vec::as_slice).collect();
        let gradients = derivatives(&inputs, &doubles(upstream), |inputs| self.formula(inputs));
        Ok(gradients.iter().map(|gradient| Some(singles(gradient))).collect())
    }

    /// Computes the result on a GPU. By default the CPU computes, and the GPU waits.
    ///
    /// # Errors
    /// If the operation rejects its inputs, or the device failed.
    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        forward_on_host(self, unit, inputs)
    }

    /// Computes the gradients of the inputs on a GPU. By default the CPU computes, and the GPU
    /// waits.
    ///
    /// # Errors
    /// If the operation rejects its inputs, or the device failed.
    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        backward_on_host(self, unit, inputs, upstream, wanted)
    }
}

/// The result of an operation for a GPU, which waits for the CPU.
pub(crate) fn forward_on_host<O: Operation + ?Sized>(
    operation: &O,
    unit: &Unit,
    inputs: &[&Array<f32>],
) -> Result<Array<f32>, Error> {
    let inputs = to_host(inputs)?;
    unit.array(&operation.forward(&as_slices(&inputs))?)
}

/// The gradients of an operation for a GPU, which waits for the CPU.
pub(crate) fn backward_on_host<O: Operation + ?Sized>(
    operation: &O,
    unit: &Unit,
    inputs: &[&Array<f32>],
    upstream: &Array<f32>,
    wanted: &[bool],
) -> Result<Vec<Option<Array<f32>>>, Error> {
    let inputs = to_host(inputs)?;
    let found = operation.backward(&as_slices(&inputs), &upstream.to_vec()?, wanted)?;
    let on_device = |gradient: Option<Vec<f32>>| gradient.map(|g| unit.array(&g)).transpose();
    found.into_iter().map(on_device).collect()
}

fn to_host(inputs: &[&Array<f32>]) -> Result<Vec<Vec<f32>>, Error> {
    Ok(inputs.iter().map(|input| input.to_vec()).collect::<Result<_, _>>()?)
}

fn as_slices(inputs: &[Vec<f32>]) -> Vec<&[f32]> {
    inputs.iter().map(Vec::as_slice).collect()
}

fn doubles(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| value.into()).collect()
}

fn singles(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}

/// Applies an operation, and records it if a gradient is wanted.
///
/// # Errors
/// If the inputs are on different devices, or the operation rejects them.
pub fn apply<O: Operation>(operation: O, inputs: &[&Tensor]) -> Result<Tensor, Error> {
    let values = match common_device(inputs)? {
        Device::Cpu => Values::Cpu(operation.forward(&slices(inputs, cpu)?)?),
        Device::Reference => Values::Reference(operation.formula(&slices(inputs, reference)?)),
        Device::Cuda(cuda) => {
            let found = operation.gpu_forward(&Unit::new(cuda)?, &arrays(inputs)?)?;
            Values::Cuda(cuda, found)
        }
    };
    let shape = operation.shape();
    Error::check_len("the result of an operation", values.len(), shape.iter().product())?;
    Ok(Tensor::computed(values, shape, inputs, Recorded(operation)))
}

fn common_device(inputs: &[&Tensor]) -> Result<Device, Error> {
    let device = inputs.first().map_or(Device::Cpu, |input| input.device());
    let same = inputs.iter().all(|input| input.device() == device);
    if same { Ok(device) } else { Err(Error::Devices) }
}

fn slices<'a, N>(
    inputs: &[&'a Tensor],
    numbers: fn(&'a Values) -> Result<&'a [N], Error>,
) -> Result<Vec<&'a [N]>, Error> {
    inputs.iter().map(|input| numbers(input.values())).collect()
}

fn cpu(values: &Values) -> Result<&[f32], Error> {
    match values {
        Values::Cpu(values) => Ok(values),
        _ => Err(Error::Devices),
    }
}

fn arrays<'a>(inputs: &[&'a Tensor]) -> Result<Vec<&'a Array<f32>>, Error> {
    inputs.iter().map(|input| input.array()).collect()
}

fn reference(values: &Values) -> Result<&[f64], Error> {
    match values {
        Values::Reference(values) => Ok(values),
        _ => Err(Error::Devices),
    }
}

/// An applied operation, for the backward pass.
struct Recorded<O>(O);

impl<O: Operation> Backward for Recorded<O> {
    fn backward(&self, inputs: &[Tensor], upstream: &Values) -> Result<Vec<Option<Values>>, Error> {
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let wanted: Vec<bool> = inputs.iter().map(|input| input.is_tracked()).collect();
        match upstream {
            Values::Cuda(cuda, upstream) => {
                let (unit, inputs) = (Unit::new(*cuda)?, arrays(&inputs)?);
                let gradients = self.0.gpu_backward(&unit, &inputs, upstream, &wanted)?;
                let values = |gradient| Values::Cuda(*cuda, gradient);
                Ok(gradients.into_iter().map(|gradient| gradient.map(values)).collect())
            }
            Values::Cpu(upstream) => {
                let gradients = self.0.backward(&slices(&inputs, cpu)?, upstream, &wanted)?;
                Ok(gradients.into_iter().map(|gradient| gradient.map(Values::Cpu)).collect())
            }
            Values::Reference(upstream) => {
                let formula = |inputs: &[&[_]]| self.0.formula(inputs);
                let gradients = derivatives(&slices(&inputs, reference)?, upstream, formula);
                Ok(gradients
                    .into_iter()
                    .map(|gradient| Some(Values::Reference(gradient)))
                    .collect())
            }
        }
    }
}
