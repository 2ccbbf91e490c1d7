//! What nextpair reads and writes: matrices of embeddings or features that stay on disk
//! until a row is asked for, and the small text files beside them.
//!
//! [`open`] is the door: it looks at a path and returns a [`Table`], a [`Matrix`] with the ids
//! that came in the same file, whatever the format. Nothing here computes; the engine does.

mod atomic;
mod clip_retrieval;
#[cfg(test)]
mod damage;
mod error;
mod guard;
mod integer;
mod labels;
mod mapping;
mod matrix;
pub mod npy;
mod open;
pub mod parquet;
pub mod picture;
pub mod safetensors;
mod shape;
mod spill;

pub use atomic::AtomicFile;
pub use error::Error;
pub use labels::{read_groups, read_ids, read_indices};
pub use matrix::{Dtype, Element, Matrix};
pub use open::{Side, Table, open};
pub use spill::Spill;
