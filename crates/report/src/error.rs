//! Errors of writing a report.

use std::path::{Path, PathBuf};

/// An error of writing a report or a part of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be written.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// A setting is invalid.
    #[error("{name}: {what}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// The fault.
        what: String,
    },
    /// An error of reading or writing data.
    #[error(transparent)]
    Data(#[from] nextpair_data::Error),
    /// An error of reading an experiment.
    #[error(transparent)]
    Scenario(#[from] nextpair_scenario::Error),
    /// An error of the model behind the map.
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
