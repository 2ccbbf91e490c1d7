//! What can go wrong with a model.

use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Of the data.
    #[error(transparent)]
    Data(#[from] nextpair_data::Error),
    /// Of the selection engine.
    #[error(transparent)]
    Engine(#[from] nextpair_engine::Error),
    /// Of a tensor operation.
    #[error("tensors: {0}")]
    Tensor(#[from] candle_core::Error),
    /// A checkpoint that cannot be read.
    #[error("{}: {what}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}
