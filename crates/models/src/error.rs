//! Errors of models, their data and their files.

use std::path::{Path, PathBuf};

use crate::Origin;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the data.
    #[error(transparent)]
    Data(#[from] nextpair_data::Error),
    /// An error of the selection engine.
    #[error(transparent)]
    Engine(#[from] nextpair_engine::Error),
    /// An error of the kernels.
    #[error(transparent)]
    Kernels(#[from] nextpair_kernels::Error),
    /// A file with unusable contents.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
    /// Weights that do not belong to the model: every missing, extra or misshapen tensor.
    #[error("{origin}: these are not the weights of this model:\n{}", first_of(listing))]
    Weights {
        /// The file, or another source of the weights.
        origin: String,
        /// One line for each tensor that is wrong.
        listing: Vec<String>,
    },
    /// A setting that the architecture does not have.
    #[error("{flag} is not a setting of {model}")]
    NoSuchSetting {
        /// The flag that sets it elsewhere.
        flag: &'static str,
        /// Name of the architecture.
        model: String,
    },
    /// An invalid setting.
    #[error("{name}: {what}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// The problem.
        what: String,
    },
    /// A caption without a word.
    #[error("caption {caption} has no words")]
    NoWords {
        /// Its position in the batch or list.
        caption: usize,
    },
    /// Images without a region.
    #[error("{what} has no regions")]
    NoRegions {
        /// Which images or features.
        what: String,
    },
    /// An input whose shape the model does not take.
    #[error("{what}: {found}, but the model takes {expected}")]
    Shape {
        /// The input.
        what: String,
        /// Its shape.
        found: String,
        /// The shape that the model takes.
        expected: String,
    },
    /// A word id beyond the vocabulary of the model.
    #[error(
        "caption {caption} has the word id {id}, but the vocabulary of the model has {words} words"
    )]
    UnknownWord {
        /// Its position in the batch or list.
        caption: usize,
        /// The id.
        id: u32,
        /// Words the model knows.
        words: usize,
    },
    /// A score that is NaN or infinite.
    #[error("the score of image {image} and caption {caption} of the batch is {value}")]
    Score {
        /// Position of the image in the batch.
        image: usize,
        /// Position of the caption in the batch.
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
    /// A device whose answers are not the CPU's.
    #[error(
        "{what} on {device} is off by {off:.1e}, more than {tolerance:.0e}: a wrong answer is not timed"
    )]
    WrongAnswer {
        /// Which answer.
        what: &'static str,
        /// The device.
        device: String,
        /// The difference from the CPU's answer.
        off: f64,
        /// The difference that its precision may make.
        tolerance: f64,
    },
    /// Scores of a fast precision that are farther from those of single precision than a sample of
    /// them led to expect, so that they rule nothing out.
    #[error(
        "a score on {device} is off by {off:.1e}, where a sample allows for {margin:.1e}: select with \
         --precision fp32"
    )]
    TooRough {
        /// The device and its precision.
        device: String,
        /// The difference from single precision.
        off: f64,
        /// The largest difference that was allowed for.
        margin: f64,
    },
    /// A model that another version or another vector unit has trained.
    #[error(
        "{}: made by {made_by}, and this is {here}: numbers may differ in their last digits, so that \
         the results would be those of neither. Go on with it there, or name another folder; \
         `--resume --mixed` goes on here all the same, and the run then says so",
        folder.display()
    )]
    Mixed {
        /// The folder of the model.
        folder: PathBuf,
        /// The versions and vector units that trained it.
        made_by: String,
        /// The version and vector unit of this process.
        here: Origin,
    },
    /// A folder or dataset that lacks something training or evaluation needs.
    #[error("{what}")]
    Dataset {
        /// The missing part.
        what: String,
    },
}

impl Error {
    /// Whether a GPU has no memory for something, and may have some for less.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        matches!(self, Error::Kernels(error) if error.is_out_of_memory())
    }

    pub(crate) fn file(path: &Path, what: impl Into<String>) -> Self {
        Error::File { path: path.to_path_buf(), what: what.into() }
    }

    /// An invalid setting.
    pub fn setting(name: &'static str, what: impl Into<String>) -> Self {
        Error::Setting { name, what: what.into() }
    }
}

/// Tensors that are shown: a file may have millions.
const SHOWN: usize = 20;

fn first_of(listing: &[String]) -> String {
    let shown = listing.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n");
    match listing.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}\n  and {more} more"),
    }
}
