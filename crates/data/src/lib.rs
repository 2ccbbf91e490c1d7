//! Readers and writers of nextpair's files: datasets, images, captions, features, embeddings, and
//! the small text files beside them. Features and embeddings stay on disk until a row is read.
//!
//! There are two entry points. [`open`] detects the format of a file and returns a [`Table`]: a
//! [`Matrix`] with the ids from the same file. [`dataset::Dataset`] is the result of every
//! [`import`], and the start of training and annotation. Nothing here learns or selects; the engine
//! does.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod clip_retrieval;
mod costs;
#[cfg(test)]
mod damage;
pub mod dataset;
mod difference;
pub mod escape;
mod guard;
pub mod import;
mod integer;
mod labels;
mod lines;
mod listed;
pub mod npy;
pub mod npz;
mod open;
pub mod parquet;
pub mod picture;
pub mod queue;
mod rows;
pub mod safetensors;
pub mod scenes;
mod shape;
pub mod text;

pub use costs::read_costs;
pub use difference::first_difference;
pub use labels::{read_groups, read_ids, read_indices};
pub use listed::listed;
pub use nextpair_core::ordinary::open as open_file;
pub use nextpair_core::system;
pub use nextpair_core::{
    Amount, AtomicFile, Draws, Dtype, Element, Error, FolderLock, Growing, Matrix, Progress, Side,
    Silent, Spill, Watch, Within, draw, fingerprint, fingerprint_of, floor, ordinary,
    remove_folder, rename, stop_on_changed_inputs,
};
pub(crate) use nextpair_core::{mapping, stamp};
pub use open::{Table, open, open_columns};
pub use parquet::Columns;
