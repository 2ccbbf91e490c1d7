//! Errors of writing a report.

use std::path::Path;

/// An error of writing a report or a part of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An error of a setting, or of reading or writing files.
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
        nextpair_data::Error::format(path, what).into()
    }

    pub(crate) fn io(path: &Path, error: std::io::Error) -> Self {
        nextpair_data::Error::io(path, error).into()
    }

    pub(crate) fn setting(name: &'static str, what: impl Into<String>) -> Self {
        nextpair_data::Error::Argument { name, what: what.into() }.into()
    }
}
