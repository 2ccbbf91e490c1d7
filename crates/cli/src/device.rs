//! The `--device` flag, shared by all commands that run models.

use nextpair::models::Device;

#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct DeviceArgs {
    /// Where models compute: cpu, cuda, cuda:N, or auto, which takes the fastest there is
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: Device,
}
