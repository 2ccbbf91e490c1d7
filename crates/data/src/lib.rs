//! What nextpair reads and writes: datasets, features and embeddings that stay on disk until a
//! row is asked for, images, captions, and the small text files beside them.
//!
//! Two doors: [`open`] looks at a path and returns a [`Table`], a [`Matrix`] with the ids that
//! came in the same file, whatever the format; [`dataset::Dataset`] is what [`import`] makes of
//! everything people have, and what training and annotating start from. Nothing here learns or
//! selects; the engine does.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod atomic;
mod clip_retrieval;
#[cfg(test)]
mod damage;
pub mod dataset;
pub mod draw;
mod error;
mod fingerprint;
mod growing;
mod guard;
pub mod import;
mod integer;
mod labels;
mod lines;
mod lock;
mod mapping;
mod matrix;
pub mod npy;
mod open;
pub mod ordinary;
pub mod parquet;
pub mod picture;
mod progress;
pub mod queue;
mod rows;
pub mod safetensors;
pub mod scenes;
mod shape;
mod spill;
mod stamp;
pub mod text;

pub use atomic::AtomicFile;
pub use draw::Draws;
pub use error::Error;
pub use fingerprint::{fingerprint, fingerprint_of};
pub use growing::Growing;
pub use labels::{read_groups, read_ids, read_indices};
pub use lock::FolderLock;
pub use mapping::stop_on_changed_inputs;
pub use matrix::{Dtype, Element, Matrix};
pub use open::{Side, Table, open};
pub use ordinary::open as open_file;
pub use progress::{Progress, Within};
pub use spill::Spill;
