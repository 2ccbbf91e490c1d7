//! Readers and writers of nextpair's files: datasets, images, captions, features, embeddings, and
//! the small text files beside them. Features and embeddings stay on disk until a row is read.
//!
//! There are two entry points. [`open`] detects the format of a file and returns a [`Table`]: a
//! [`Matrix`] with the ids from the same file. [`dataset::Dataset`] is the result of every
//! [`import`], and the start of training and annotation. Nothing here learns or selects; the engine
//! does.
//!
//! # How a dataset is made and read
//!
//! 1. **Import** ([`import`]). An `Importer` reads one kind of source and hands entries to the `Sink`. The sink cleans captions, checks images in
//!    parallel, collects findings and writes `items.jsonl`. All of it happens in a hidden folder that becomes the dataset by one rename.
//! 2. **Open** ([`dataset`]). `Dataset::open` reads every line once, keeps a few numbers per item, and maps the features. Items are parsed again when
//!    they are asked for, so a dataset may be larger than memory.
//! 3. **Words** ([`text`]). Tokens equal those of NLTK; a vocabulary is built of train and dev, and then fixed.
//! 4. **Answers** ([`queue`]). Tasks go out and answers come back in many formats with one schema. `Dataset::enlarged` is a new dataset with the answers
//!    in it; the old one never changes. A dataset keeps the answers that it was made with, and its pool leaves these items out.

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
