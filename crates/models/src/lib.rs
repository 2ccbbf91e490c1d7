//! Image-text retrieval models, trained exactly and fast.
#![forbid(unsafe_code)]

mod error;
pub mod pth;

pub use error::Error;
