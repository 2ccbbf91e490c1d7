//! The numbers of a tensor.

use nextpair_cuda::Array;

use crate::cuda::Unit;
use crate::device::Cuda;
use crate::{Device, Error};

/// The numbers of a tensor, as its device keeps them.
#[derive(Clone, Debug)]
pub enum Values {
    /// [`Device::Cpu`].
    Cpu(Vec<f32>),
    /// [`Device::Reference`].
    Reference(Vec<f64>),
    /// [`Device::Cuda`]. Clones share the numbers.
    Cuda(Cuda, Array<f32>),
}

impl Values {
    /// The numbers as a device keeps them.
    pub(crate) fn on(device: Device, values: Vec<f32>) -> Result<Self, Error> {
        Ok(match device {
            Device::Cpu => Values::Cpu(values),
            Device::Reference => Values::Reference(values.into_iter().map(f64::from).collect()),
            Device::Cuda(cuda) => Values::Cuda(cuda, Array::of(&cuda.gpu()?, &values)?),
        })
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::Cpu(values) => values.len(),
            Values::Reference(values) => values.len(),
            Values::Cuda(_, values) => values.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy in single precision.
    ///
    /// # Errors
    /// If the device, or work on it, failed.
    pub fn to_f32s(&self) -> Result<Vec<f32>, Error> {
        Ok(match self {
            Values::Cpu(values) => values.clone(),
            Values::Reference(values) => values.iter().map(|&value| value as f32).collect(),
            Values::Cuda(_, values) => values.to_vec()?,
        })
    }

    /// A copy in double precision.
    ///
    /// # Errors
    /// If the device, or work on it, failed.
    pub fn to_f64s(&self) -> Result<Vec<f64>, Error> {
        Ok(match self {
            Values::Reference(values) => values.clone(),
            other => other.to_f32s()?.into_iter().map(f64::from).collect(),
        })
    }

    pub(crate) fn add(&mut self, other: &Values) -> Result<(), Error> {
        match (self, other) {
            (Values::Cpu(sum), Values::Cpu(part)) => {
                sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
            (Values::Reference(sum), Values::Reference(part)) => {
                sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
            (Values::Cuda(cuda, sum), Values::Cuda(other, part)) if cuda == other => {
                Unit::new(*cuda)?.add(sum, part)?;
            }
            _ => return Err(Error::Devices),
        }
        Ok(())
    }
}
