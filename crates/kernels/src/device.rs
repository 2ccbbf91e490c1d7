//! Devices that compute.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// A device that operations run on. Every tensor carries one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// The kernels of this crate, in single precision.
    #[default]
    Cpu,
    /// The plain formulas in double precision: slow, and the reference for every other device.
    Reference,
}

/// Why a device cannot be used.
const NO_CUDA: &str = "this version computes on the CPU only";

impl Device {
    /// The devices available here, for tests that run on each.
    pub fn available() -> Vec<Device> {
        vec![Device::Cpu]
    }
}

/// Parses `cpu`, `cuda`, `cuda:N` or `auto`, the fastest available.
impl FromStr for Device {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let refused = |why: &str| Error::Device { name: name.to_owned(), why: why.to_owned() };
        match name.split_once(':').unwrap_or((name, "0")) {
            ("cpu" | "auto", "0") if !name.contains(':') => Ok(Device::Cpu),
            ("cuda", number) if number.parse::<usize>().is_ok() => Err(refused(NO_CUDA)),
            _ => Err(refused("there are cpu, cuda, cuda:N and auto")),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Device::Cpu => "cpu",
            Device::Reference => "reference",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices() {
        for name in ["cpu", "auto"] {
            assert_eq!(name.parse::<Device>().unwrap(), Device::Cpu);
        }
        for (name, expected) in [
            ("gpu", "device gpu: there are cpu, cuda, cuda:N and auto"),
            ("cuda:x", "device cuda:x: there are"),
            ("cpu:1", "device cpu:1: there are"),
            ("cuda", "device cuda: this version computes on the CPU only"),
            ("cuda:1", "device cuda:1: this version computes on the CPU only"),
        ] {
            let error = name.parse::<Device>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
