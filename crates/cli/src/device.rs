//! The `--device` and `--precision` flags, shared by all commands that run models.

use nextpair::models::{Device, Precision};

#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct DeviceArgs {
    /// Where models compute: cpu, cuda, cuda:N, or auto, which takes the fastest there is
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: Device,

    /// Precision of products on a GPU: fp32, tf32 or bf16 (bf16 for scores of all pairs, tf32 for
    /// gradients) [default: bf16; fp32 for `verify`]
    #[arg(long, value_name = "PRECISION")]
    precision: Option<Precision>,
}

impl DeviceArgs {
    /// The device, in the precision that was asked for.
    pub(crate) fn device(&self) -> Device {
        self.device.with_precision(self.precision.unwrap_or_default())
    }

    /// The same for a command whose answers are compared: in single precision, unless another one was
    /// asked for.
    pub(crate) fn exact_device(&self) -> Device {
        self.device.with_precision(self.precision.unwrap_or(Precision::Fp32))
    }
}
