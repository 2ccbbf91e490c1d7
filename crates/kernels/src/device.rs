//! Devices that compute.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use nextpair_cuda::Gpu;

use crate::Error;

/// A device that operations run on. Every tensor carries one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// The kernels of this crate, in single precision.
    #[default]
    Cpu,
    /// The plain formulas in double precision: slow, and the reference for every other device.
    Reference,
    /// A queue of an NVIDIA GPU.
    Cuda(Cuda),
}

/// A queue of a GPU, and the precision it computes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cuda {
    /// Number of the GPU, from 0.
    pub index: u16,
    /// Number of the queue: work of different queues runs side by side.
    pub queue: u16,
    /// Precision of products.
    pub precision: Precision,
}

/// The precision of products on a GPU. Numbers are kept in single precision between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Single precision, as on the CPU.
    Fp32,
    /// By the matrix units, with factors of 10 bits.
    Tf32,
    /// Scores of all pairs, which have no gradients, with factors and intermediate results in half
    /// precision; gradients of large layers with factors in bf16; everything else with factors of 10
    /// bits.
    #[default]
    Fp16,
}

impl Precision {
    /// All precisions.
    pub const ALL: [Precision; 3] = [Precision::Fp32, Precision::Tf32, Precision::Fp16];

    /// How cuBLAS multiplies numbers of single precision.
    pub(crate) fn of_products(self) -> nextpair_cuda::Precision {
        match self {
            Precision::Fp32 => nextpair_cuda::Precision::Single,
            Precision::Tf32 | Precision::Fp16 => nextpair_cuda::Precision::Tf32,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Precision::Fp32 => "fp32",
            Precision::Tf32 => "tf32",
            Precision::Fp16 => "fp16",
        })
    }
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Precision::ALL.into_iter().find(|precision| precision.to_string() == name);
        found.ok_or_else(|| Error::Device {
            name: name.to_owned(),
            why: "the precisions are fp32, tf32 and fp16".to_owned(),
        })
    }
}

impl Device {
    /// The devices available here, for tests that run on each: of a GPU, single precision.
    pub fn available() -> Vec<Device> {
        let exact = Cuda { precision: Precision::Fp32, ..Cuda::default() };
        let gpu = Gpu::count().is_ok().then_some(Device::Cuda(exact));
        [Device::Cpu].into_iter().chain(gpu).collect()
    }

    /// The fastest device, and if there is a GPU that cannot be used, why not.
    pub fn fastest() -> (Device, Option<Error>) {
        match Cuda::default().gpu() {
            Ok(_) => (Device::Cuda(Cuda::default()), None),
            Err(Error::Gpu(error)) if error.is_absence() => (Device::Cpu, None),
            Err(error) => (Device::Cpu, Some(error)),
        }
    }

    /// The same device with another precision. Only GPUs have several.
    pub fn with_precision(self, precision: Precision) -> Self {
        match self {
            Device::Cuda(cuda) => Device::Cuda(Cuda { precision, ..cuda }),
            other => other,
        }
    }

    /// The same device with the precision of another.
    pub fn with_precision_of(self, other: Device) -> Self {
        match other {
            Device::Cuda(cuda) => self.with_precision(cuda.precision),
            _ => self,
        }
    }

    /// Whether a GPU has room for so many bytes more than it holds. Other devices say no: what they
    /// hold is memory of the machine.
    ///
    /// # Errors
    /// If the device failed.
    pub fn has_room(self, bytes: usize) -> Result<bool, Error> {
        match self {
            Device::Cuda(cuda) => Ok(bytes < cuda.gpu()?.available()?.0 / 2),
            _ => Ok(false),
        }
    }

    /// Whether those who wait for a GPU leave their cores to others, as they should where many wait.
    pub fn wait_quietly(self, quiet: bool) {
        if let Device::Cuda(_) = self {
            Gpu::wait_quietly(quiet);
        }
    }

    /// Bytes of memory of a GPU. Other devices have that of the machine.
    ///
    /// # Errors
    /// If the device failed.
    pub fn memory(self) -> Result<Option<usize>, Error> {
        match self {
            Device::Cuda(cuda) => Ok(Some(cuda.gpu()?.available()?.1)),
            _ => Ok(None),
        }
    }

    /// Bytes of a GPU that are free. Other devices have memory of the machine.
    ///
    /// # Errors
    /// If the device failed.
    pub fn free_memory(self) -> Result<Option<usize>, Error> {
        match self {
            Device::Cuda(cuda) => Ok(Some(cuda.gpu()?.available()?.0)),
            _ => Ok(None),
        }
    }

    /// Waits for the work of a queue of a GPU, and gives memory that it does not use back to others.
    ///
    /// # Errors
    /// If the device, or work on it, failed.
    pub fn release(self) -> Result<(), Error> {
        match self {
            Device::Cuda(cuda) => Ok(cuda.gpu()?.release()?),
            _ => Ok(()),
        }
    }

    /// A queue of the same device for work beside that of other queues. Only GPUs have several.
    pub fn with_queue(self, queue: u16) -> Self {
        match self {
            Device::Cuda(cuda) => Device::Cuda(Cuda { queue, ..cuda }),
            other => other,
        }
    }

    /// What it is, for people: the name of a GPU and its precision.
    pub fn describe(self) -> String {
        match self {
            Device::Cuda(cuda) => match cuda.gpu() {
                Ok(gpu) => format!("{} in {}", gpu.name(), cuda.precision),
                Err(error) => format!("{self}: {error}"),
            },
            other => other.to_string(),
        }
    }
}

impl Cuda {
    /// Its queue, opened on first use.
    pub(crate) fn gpu(self) -> Result<Arc<Gpu>, Error> {
        type Queues = HashMap<(u16, u16), Arc<Gpu>>;
        static OPEN: Mutex<Option<Queues>> = Mutex::new(None);
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let open = open.get_or_insert_default();
        if let Some(gpu) = open.get(&(self.index, self.queue)) {
            return Ok(gpu.clone());
        }
        let gpu = Gpu::open(self.index.into())?;
        open.insert((self.index, self.queue), gpu.clone());
        Ok(gpu)
    }
}

/// Parses `cpu`, `cuda`, `cuda:N` or `auto`, the fastest available.
impl FromStr for Device {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let refused = |why: &str| Error::Device { name: name.to_owned(), why: why.to_owned() };
        let cuda = |number: &str| {
            let index = number.parse().map_err(|_| refused("the number of a GPU is needed"))?;
            let cuda = Cuda { index, ..Cuda::default() };
            cuda.gpu().map_err(|error| refused(&error.to_string()))?;
            Ok(Device::Cuda(cuda))
        };
        match name.split_once(':') {
            None if name == "cpu" => Ok(Device::Cpu),
            None if name == "auto" => Ok(Device::fastest().0),
            None if name == "cuda" => cuda("0"),
            Some(("cuda", number)) => cuda(number),
            _ => Err(refused("there are cpu, cuda, cuda:N and auto")),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Reference => f.write_str("reference"),
            Device::Cuda(Cuda { index, .. }) => write!(f, "cuda:{index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices() {
        assert_eq!("cpu".parse::<Device>().unwrap(), Device::Cpu);
        let fastest = Device::available().last().copied().unwrap();
        let auto = "auto".parse::<Device>().unwrap();
        assert_eq!(auto.with_precision(Precision::Fp32), fastest);
        for (name, expected) in [
            ("gpu", "device gpu: there are cpu, cuda, cuda:N and auto"),
            ("cuda:x", "device cuda:x: the number of a GPU is needed"),
            ("cpu:1", "device cpu:1: there are"),
        ] {
            let error = name.parse::<Device>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        match ("cuda".parse::<Device>(), fastest) {
            (Ok(device), Device::Cuda(_)) => assert_eq!(device.to_string(), "cuda:0"),
            (Err(error), Device::Cpu) => {
                assert!(error.to_string().starts_with("device cuda: "), "{error}");
            }
            other => panic!("{other:?}"),
        }
        for precision in Precision::ALL {
            assert_eq!(precision.to_string().parse::<Precision>().unwrap(), precision);
        }
        assert!("fp8".parse::<Precision>().is_err());
    }
}
