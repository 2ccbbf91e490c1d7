//! The numerical kernels behind the models.
//!
//! Models are written in differentiable [operations](ops) on [`Tensor`]s. Each operation has a
//! plain formula in double precision, which [`Device::Reference`] computes and tests take as the
//! truth, and a fast form for the CPU. Below them lie packed products, attention matching and
//! elementwise functions, whose results have the same bits for any number of threads, tiling and
//! batch. [`convolution`] and [`ByteWeights`] compute encoders of other people, without gradients.
//!
//! ```
//! use nextpair_kernels::{Device, Tensor, ops};
//!
//! let rows = Tensor::new(vec![1.0, 2.0], &[1, 2], Device::Cpu)?;
//! let weight = Tensor::new(vec![3.0, 4.0], &[1, 2], Device::Cpu)?.into_weight();
//! let bias = Tensor::new(vec![0.5], &[1], Device::Cpu)?;
//! let out = ops::linear(&rows, &weight, &bias)?;
//! assert_eq!(out.to_f32s()?, [11.5]);
//! let gradients = out.backward(&[1.0])?;
//! assert_eq!(gradients.of(&weight).unwrap().to_f64s()?, [1.0, 2.0]);
//! # Ok::<(), nextpair_kernels::Error>(())
//! ```
//!
//! # How operations work
//!
//! Each operation ([`ops`], one file each) has a *formula*, plain and generic over `Real`: in doubles it is the reference, on a scalar tape the reference
//! gradient. [`Device::Reference`] computes with formulas alone and judges the other devices in one test body (`ops/judge.rs`). [`Device::Cpu`] has fast forms,
//! held to the formula. [`Device::Cuda`] is a queue of a GPU with a precision; operations that matter have a `gpu_forward` and a `gpu_backward`, the others go
//! through the host. A [`Tensor`] remembers what it was computed from, and gradients flow back youngest first (`tensor/gradients.rs`). Kernels in CUDA C
//! lie in `kernels/cuda/`.

mod byte_product;
pub mod convolution;
mod cross;
mod cuda;
mod device;
pub mod elementwise;
mod encoded;
mod error;
mod measure;
mod operation;
pub mod ops;
mod optimiser;
mod packed;
mod process;
mod real;
mod tensor;
mod unit;

pub use byte_product::{ByteWeights, Scaling};
pub use cross::{Aggregation, Attention, Matcher, Memory, Normaliser, PairGradients, Ragged};
pub use cuda::{Resident, Unit};
pub use device::{Cuda, Device, Precision};
pub use encoded::Encoded;
pub use error::Error;
pub use measure::{Spent, profile, time_products};
pub use operation::{Operation, apply};
pub use optimiser::{Method, Moments, Norm, Optimiser};
pub use packed::{Left, Packed};
pub use process::prepare_process;
pub use real::Real;
pub use tensor::{Gradients, Tensor, Values};
pub use unit::vector_unit;
