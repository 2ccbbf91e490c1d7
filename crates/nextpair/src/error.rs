//! Everything a selection on files refuses.

use std::path::{Path, PathBuf};

/// Why a selection on files could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A selection that cannot be meant, or whose numbers are wrong.
    #[error(transparent)]
    Selection(#[from] nextpair_engine::Error),
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] nextpair_core::Error),
    /// Parts that do not fit together, with the one that showed it.
    #[error("{}", path.display())]
    Misfit {
        /// The part.
        path: PathBuf,
        /// In which way.
        source: nextpair_engine::Error,
    },
    /// A file that is no part of a selection.
    #[error("{} is not a part of `score`", path.display())]
    NotAPart {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Files that do not fit together, or are not there.
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
}
