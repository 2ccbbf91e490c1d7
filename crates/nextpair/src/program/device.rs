//! The `--device` and `--precision` flags, shared by all commands that run models or search among
//! embeddings.

use std::fmt;
use std::str::FromStr;
use std::sync::Once;

use crate::models::{Device, Precision};
use anyhow::{Context, Result};

#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct DeviceArgs {
    /// Where models compute: cpu, cuda, cuda:N, or auto, which takes the fastest there is
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: Chosen,

    #[command(flatten)]
    precision: PrecisionArgs,
}

/// A device that exists, and whether it was chosen by its name.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    device: Device,
    by_name: bool,
}

impl FromStr for Chosen {
    type Err = crate::kernels::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Ok(Chosen { device: name.parse()?, by_name: name != "auto" })
    }
}

impl Chosen {
    /// The device. Says once why a GPU that is there is not it.
    fn device(self) -> Device {
        static SAID: Once = Once::new();
        if !self.by_name && self.device == Device::Cpu {
            SAID.call_once(|| {
                if let (_, Some(why)) = Device::fastest() {
                    say!("the GPU is not used: {why}");
                }
            });
        }
        self.device
    }
}

impl DeviceArgs {
    /// The device, in the precision that was asked for.
    pub(crate) fn device(&self) -> Device {
        self.device.device().with_precision(self.precision.precision.unwrap_or_default())
    }

    /// The precision that was asked for, or all.
    pub(crate) fn precisions(&self) -> Vec<Precision> {
        self.precision.precision.map_or_else(|| Precision::ALL.to_vec(), |one| vec![one])
    }
}

#[derive(clap::Args, Clone, Copy, Debug)]
struct PrecisionArgs {
    /// Precision of models' products on a GPU: fp32, tf32, or fp16, which is fp16 for scores of all
    /// pairs, bf16 for gradients of layers and tf32 elsewhere [default: fp16; fp32 for
    /// verify, all for bench]
    #[arg(long, value_name = "PRECISION")]
    precision: Option<Precision>,
}

/// The flag of commands that take embeddings as well as models. Which device a name stands for is
/// asked when it is known what is to compute.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct SelectionDeviceArgs {
    /// Where to compute: cpu, cuda, cuda:N, or auto, which takes a GPU if there is one and the work
    /// is worth it. Picks and scores on embeddings are the same everywhere
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceName,

    #[command(flatten)]
    precision: PrecisionArgs,
}

impl SelectionDeviceArgs {
    /// Returns the device of models.
    pub(crate) fn of_models(&self) -> Result<Device> {
        let chosen: Chosen = self.device.0.parse()?;
        Ok(chosen.device().with_precision(self.precision.precision.unwrap_or_default()))
    }

    /// Returns the same for a command that compares answers: in single precision, unless another one
    /// was asked for.
    pub(crate) fn of_exact_models(&self) -> Result<Device> {
        let precision = self.precision.precision.unwrap_or(Precision::Fp32);
        Ok(self.of_models()?.with_precision(precision))
    }

    /// Returns the device that searches among embeddings.
    pub(crate) fn of_search(&self) -> Result<crate::engine::Device> {
        self.device.0.parse().with_context(|| format!("--device {}", self.device))
    }
}

/// The name of a device, which need not exist.
#[derive(Clone, Debug)]
struct DeviceName(String);

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let number = |name: &str| Some(name.strip_prefix("cuda:")?.parse::<usize>().is_ok());
        match matches!(name, "cpu" | "cuda" | "auto") || number(name) == Some(true) {
            true => Ok(DeviceName(name.to_owned())),
            false => Err("there are cpu, cuda, cuda:N and auto".to_owned()),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
