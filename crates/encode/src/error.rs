//! One error for everything that can go wrong between a file and its embedding.

use std::path::{Path, PathBuf};

use nextpair_data::Side;

/// Why something could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written, or holds something else.
    #[error(transparent)]
    Data(#[from] nextpair_data::Error),
    /// A model, tokeniser or preprocessing file is not what it should be.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The manifest does not tell how features were made: they were imported from files.
    #[error(
        "{}: it is not known how the {side} features {set} were made; `nextpair embed {} \
         --{side}-model ONNX` makes features whose encoder is known",
        dataset.display(),
        dataset.display()
    )]
    NoRecipe {
        /// The folder of the dataset.
        dataset: PathBuf,
        /// What the features are of.
        side: Side,
        /// Their name.
        set: String,
    },
    /// A file that features were made with is not there any more.
    #[error(
        "{}: is gone, with which the {side} features {set} were made; put it back, or make the \
         features anew with `nextpair embed`",
        path.display()
    )]
    Gone {
        /// The encoder or its tokeniser.
        path: PathBuf,
        /// What the features are of.
        side: Side,
        /// Their name.
        set: String,
    },
    /// A file that features were made with has other bytes now.
    #[error(
        "{}: is another file than the {side} features {set} were made with; put that one back, or \
         make the features anew with `nextpair embed`",
        path.display()
    )]
    Changed {
        /// The encoder or its tokeniser.
        path: PathBuf,
        /// What the features are of.
        side: Side,
        /// Their name.
        set: String,
    },
    /// A tensor of a model has an unsuitable shape.
    #[error("{}: {tensor} has shape {shape:?}; {expected}", path.display())]
    Shape {
        /// The model.
        path: PathBuf,
        /// The tensor: `input 'pixels'`, `output 'grid'`.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
        /// What is accepted, and what can be done.
        expected: String,
    },
    /// The runtime takes too long, and cannot be interrupted.
    #[error("{}: {what} takes more than {seconds} s", path.display())]
    Slow {
        /// The model.
        path: PathBuf,
        /// What it was doing.
        what: &'static str,
        /// The limit.
        seconds: f64,
    },
    /// A picture that is none, or too large.
    #[error(
        "{bytes} bytes for {width} x {height} pixels; accepted are three each, for 1 to {} pixels in all",
        nextpair_data::picture::MAX_PIXELS
    )]
    Picture {
        /// Pixels per row.
        width: u32,
        /// Rows.
        height: u32,
        /// The bytes that hold them.
        bytes: usize,
    },
    /// Numbers that cannot be stored as asked for.
    #[error("{what}")]
    Numbers {
        /// Which, and what helps.
        what: String,
    },
    /// Principal components that the rows cannot give.
    #[error("{what}")]
    Components {
        /// What was asked for and what there is.
        what: String,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, error: std::io::Error) -> Self {
        Error::Data(nextpair_data::Error::io(path, error))
    }

    pub(crate) fn file(path: &Path, what: impl Into<String>) -> Self {
        Error::File { path: path.to_path_buf(), what: what.into() }
    }

    pub(crate) fn shape(
        path: &Path,
        tensor: impl Into<String>,
        shape: &[usize],
        expected: impl Into<String>,
    ) -> Self {
        Error::Shape {
            path: path.to_path_buf(),
            tensor: tensor.into(),
            shape: shape.to_vec(),
            expected: expected.into(),
        }
    }
}
