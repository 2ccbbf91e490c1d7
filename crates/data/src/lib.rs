//! What nextpair reads and writes: datasets, features and embeddings that stay on disk until a
//! row is asked for, images, captions, and the small text files beside them.
//!
//! Two doors: [`open`] looks at a path and returns a [`Table`], a [`Matrix`] with the ids that
//! came in the same file, whatever the format; [`dataset::Dataset`] is what [`import`] makes of
//! everything people have, and what training and annotating start from. Nothing here learns or
//! selects; the engine does.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod clip_retrieval;
#[cfg(test)]
mod damage;
pub mod dataset;
pub mod escape;
mod guard;
pub mod import;
mod integer;
mod labels;
mod lines;
pub mod npy;
mod open;
pub mod parquet;
pub mod picture;
pub mod queue;
mod rows;
pub mod safetensors;
pub mod scenes;
mod shape;
pub mod text;

pub use labels::{read_groups, read_ids, read_indices};
pub use nextpair_core::ordinary::open as open_file;
pub use nextpair_core::{
    AtomicFile, Draws, Dtype, Element, Error, FolderLock, Growing, Matrix, Progress, Side, Spill,
    Within, draw, fingerprint, fingerprint_of, ordinary, stop_on_changed_inputs,
};
pub(crate) use nextpair_core::{mapping, stamp};
pub use open::{Table, open};
