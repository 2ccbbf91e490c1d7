//! Errors of experiments.

use std::path::{Path, PathBuf};

/// An error of running or reading an experiment.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file is damaged, was changed, or does not match the experiment.
    #[error("{}: {what}", path.display())]
    File {
        /// The file or folder.
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
    /// An answer of an annotator is invalid.
    #[error("answer {}: {what}", at + 1)]
    Answer {
        /// Index of the answer, from 0.
        at: usize,
        /// The fault.
        what: String,
    },
    /// New captions cannot be encoded for a model on text features.
    #[error("{model} takes text features, and new captions cannot get those of {set}: {why}")]
    TextFeatures {
        /// The name of the model.
        model: String,
        /// The feature set.
        set: String,
        /// The reason.
        why: Box<dyn std::error::Error + Send + Sync>,
    },
    /// New images cannot be encoded.
    #[error("models take image features, and new images cannot get those of {set}: {why}")]
    ImageFeatures {
        /// The feature set.
        set: String,
        /// The reason.
        why: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An error of reading or writing data.
    #[error(transparent)]
    Data(#[from] nextpair_data::Error),
    /// An error of selection.
    #[error(transparent)]
    Engine(#[from] nextpair_engine::Error),
    /// An error of training.
    #[error(transparent)]
    Models(#[from] nextpair_models::Error),
}

impl Error {
    /// Returns whether another process has the experiment open, so that a later try may succeed.
    pub fn is_busy(&self) -> bool {
        matches!(self, Error::Data(nextpair_data::Error::Busy { .. }))
    }

    /// Returns whether scores of a fast precision were farther from single precision than expected, so that a
    /// selection in single precision may succeed.
    pub(crate) fn is_too_rough(&self) -> bool {
        let Error::Engine(nextpair_engine::Error::Similarity(why)) = self else { return false };
        let why = why.downcast_ref::<nextpair_models::Error>();
        matches!(why, Some(nextpair_models::Error::TooRough { .. }))
    }

    pub(crate) fn file(path: &Path, what: impl Into<String>) -> Self {
        Error::File { path: path.to_path_buf(), what: what.into() }
    }

    pub(crate) fn io(path: &Path, error: std::io::Error) -> Self {
        nextpair_data::Error::io(path, error).into()
    }

    pub(crate) fn line(path: &Path, line: usize, what: impl Into<String>) -> Self {
        let (path, what) = (path.to_path_buf(), what.into());
        nextpair_data::Error::Line { path, line, what }.into()
    }

    pub(crate) fn setting(name: &'static str, what: impl Into<String>) -> Self {
        Error::Setting { name, what: what.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_that_are_too_rough_are_told_from_other_failures() {
        let of = |why: nextpair_models::Error| {
            Error::from(nextpair_engine::Error::Similarity(Box::new(why))).is_too_rough()
        };
        let device = "cuda:0".to_owned();
        assert!(of(nextpair_models::Error::TooRough { device, off: 2e-3, margin: 3e-3 }));
        assert!(!of(nextpair_models::Error::setting("members", "there are none")));
        assert!(!Error::setting("budget", "too large").is_too_rough());
    }
}
