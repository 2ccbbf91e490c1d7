//! What can go wrong with a model, its data and its files.

use std::path::{Path, PathBuf};

use crate::Origin;

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
    /// The kernels refused.
    #[error(transparent)]
    Kernels(#[from] nextpair_kernels::Error),
    /// A file that cannot be read as what it should be.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Weights that do not belong to the model: every missing, extra or misshapen tensor.
    #[error("{origin}: these are not the weights of this model:\n{}", listing.join("\n"))]
    Weights {
        /// The file, or what else they came from.
        origin: String,
        /// One line for each tensor that is wrong.
        listing: Vec<String>,
    },
    /// A setting that the architecture does not have.
    #[error("{flag} is not a setting of {model}")]
    NoSuchSetting {
        /// The flag that sets it elsewhere.
        flag: &'static str,
        /// What people call the architecture.
        model: String,
    },
    /// A setting that cannot be meant.
    #[error("{name}: {what}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// A caption without a word.
    #[error("caption {caption} has no words")]
    NoWords {
        /// Its place in the batch or list.
        caption: usize,
    },
    /// Images without a region.
    #[error("{what} has no regions")]
    NoRegions {
        /// Which images or features.
        what: String,
    },
    /// Numbers that have another shape than the model takes.
    #[error("{what}: {found}, but the model takes {expected}")]
    Shape {
        /// What was given.
        what: String,
        /// What it has.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A word id beyond the vocabulary of the model.
    #[error(
        "caption {caption} has the word id {id}, but the vocabulary of the model has {words} words"
    )]
    UnknownWord {
        /// Its place in the batch or list.
        caption: usize,
        /// The id.
        id: u32,
        /// Words the model knows.
        words: usize,
    },
    /// A score that is NaN or infinite.
    #[error("the score of image {image} and caption {caption} of the batch is {value}")]
    Score {
        /// The place of the image in the batch.
        image: usize,
        /// The place of the caption.
        caption: usize,
        /// The score.
        value: f32,
    },
    /// A number that is NaN or infinite.
    #[error("{what}")]
    NotFinite {
        /// Which number, and where.
        what: String,
    },
    /// A run that another version or another vector unit has worked on.
    #[error(
        "{}: made by {made_by}, and this is {here}: numbers may differ in their last digits, so that \
         the results would be those of neither. Go on with it there, or name another folder; \
         `--resume --mixed` goes on here all the same, and the run then says so",
        folder.display()
    )]
    Mixed {
        /// The folder of the run.
        folder: PathBuf,
        /// Who has worked on it.
        made_by: String,
        /// Who was going to.
        here: Origin,
    },
    /// A folder or dataset that lacks what training or evaluating needs.
    #[error("{what}")]
    Dataset {
        /// What is missing.
        what: String,
    },
}

impl Error {
    pub(crate) fn file(path: &Path, what: impl Into<String>) -> Self {
        Error::File { path: path.to_path_buf(), what: what.into() }
    }

    /// A setting that cannot be meant.
    pub fn setting(name: &'static str, what: impl Into<String>) -> Self {
        Error::Setting { name, what: what.into() }
    }
}
