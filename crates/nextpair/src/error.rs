//! Errors of a selection on files.

use std::path::{Path, PathBuf};

/// Why a selection on files failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Invalid settings, or invalid numbers in an input.
    #[error(transparent)]
    Selection(#[from] nextpair_engine::Error),
    /// Encoded features of files, which have no model.
    #[error("encoded features need a model, and files of embeddings have none: take mean or bow")]
    NoModel,
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] nextpair_core::Error),
    /// Parts that do not belong together, with the first that does not match.
    #[error("{}", path.display())]
    Misfit {
        /// The part.
        path: PathBuf,
        /// The mismatch.
        source: nextpair_engine::Error,
    },
    /// A file that is not a part of a selection.
    #[error("{} is not a part of `score`", path.display())]
    NotAPart {
        /// The file.
        path: PathBuf,
        /// Why it is not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file that is not a [`Partial`](crate::Partial), or a partial that no file can hold.
    #[error("{} is not a partial selection", path.display())]
    NotAPartial {
        /// The file.
        path: PathBuf,
        /// Why it is not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Files that do not match, or are missing.
    #[error("{0}")]
    Files(String),
}

impl Error {
    pub(crate) fn not_a_part(
        path: &Path,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Error::NotAPart { path: path.to_path_buf(), source: source.into() }
    }

    pub(crate) fn not_a_partial(
        path: &Path,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Error::NotAPartial { path: path.to_path_buf(), source: source.into() }
    }
}
