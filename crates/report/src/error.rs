//! Why a report cannot be written.

use std::path::{Path, PathBuf};

/// Why a report, or a part of it, cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be made.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// A setting cannot be meant.
    #[error("{name}: {what}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// The fault.
        what: String,
    },
    /// From reading and writing.
    #[error(transparent)]
    Data(#[from] nextpair_data::Error),
    /// From looking at an experiment.
    #[error(transparent)]
    Scenario(#[from] nextpair_scenario::Error),
    /// From the model of the map.
    #[error(transparent)]
    Models(#[from] nextpair_models::Error),
}

impl Error {
    pub(crate) fn file(path: &Path, what: impl Into<String>) -> Self {
        Error::File { path: path.to_path_buf(), what: what.into() }
    }

    pub(crate) fn io(path: &Path, error: std::io::Error) -> Self {
        nextpair_data::Error::io(path, error).into()
    }

    pub(crate) fn setting(name: &'static str, what: impl Into<String>) -> Self {
        Error::Setting { name, what: what.into() }
    }
}
