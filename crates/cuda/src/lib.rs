//! GPUs for nextpair.
//!
//! Nothing of CUDA is needed to build this crate, or to run it on a machine without a GPU: driver,
//! compiler (NVRTC) and cuBLAS are looked for at run time, on the system and among the wheels that
//! PyTorch installs. Kernels are CUDA C, compiled for the device at hand and kept on disk.
//!
//! A [`Gpu`] is one queue of work: what is launched on it happens in order, after the call
//! returned. Errors of the work come with the next call that waits. Several queues of one device
//! run side by side.

mod array;
mod blas;
mod cache;
mod call;
mod error;
mod gpu;
mod kernels;
mod libraries;
mod memory;
mod profile;
mod staging;

pub use array::{Array, Element, Pointer};
pub use blas::{Number, Operand, Precision, Product};
pub use error::Error;
pub use gpu::{Gpu, Grid, Mark};
pub use kernels::{Argument, Kernels};
pub use libraries::LIBRARIES_VARIABLE;
pub use profile::{end_profile, start_profile};
pub use staging::Staging;
