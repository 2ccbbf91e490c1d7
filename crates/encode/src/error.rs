//! The error type of encoding.

use std::path::{Path, PathBuf};

use nextpair_data::Side;

/// The reason why something could not be encoded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written, or has other contents than expected.
    #[error(transparent)]
    Data(#[from] nextpair_data::Error),
    /// A model, tokeniser or preprocessing file is invalid.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        what: String,
    },
    /// The manifest does not say how the features were made: they were imported from files.
    #[error(
        "{}: it is not known how the {side} features {set} were made; `nextpair embed {} \
         --{side}-model ONNX` makes features whose encoder is known",
        dataset.display(),
        dataset.display()
    )]
    NoRecipe {
        /// The folder of the dataset.
        dataset: PathBuf,
        /// The side of the features.
        side: Side,
        /// The name of the features.
        set: String,
    },
    /// A file that the features were made with is gone.
    #[error(
        "{}: is gone, with which the {side} features {set} were made; put it back, or make the \
         features anew with `nextpair embed`",
        path.display()
    )]
    Gone {
        /// The encoder or its tokeniser.
        path: PathBuf,
        /// The side of the features.
        side: Side,
        /// The name of the features.
        set: String,
    },
    /// A file that the features were made with has changed.
    #[error(
        "{}: is another file than the {side} features {set} were made with; put that one back, or \
         make the features anew with `nextpair embed`",
        path.display()
    )]
    Changed {
        /// The encoder or its tokeniser.
        path: PathBuf,
        /// The side of the features.
        side: Side,
        /// The name of the features.
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
        /// The accepted shapes, and how to get one.
        expected: String,
    },
    /// A node of a model that is not held to ONNX Runtime: it might compute something else.
    #[error(
        "{}: the {operator} that makes '{output}' {what}; export the model without it",
        path.display()
    )]
    Operator {
        /// The model.
        path: PathBuf,
        /// The operator's name.
        operator: String,
        /// The value that the node makes.
        output: String,
        /// The operator, attribute or version that is not covered.
        what: String,
    },
    /// A model that asks for more memory than any encoder needs.
    #[error("{}: {what}", path.display())]
    Memory {
        /// The model.
        path: PathBuf,
        /// The value that is too large, or whose size is not known before the run.
        what: String,
    },
    /// The runtime takes too long, and cannot be interrupted.
    #[error("{}: {what} takes more than {seconds} s", path.display())]
    Slow {
        /// The model.
        path: PathBuf,
        /// The work that takes too long.
        what: &'static str,
        /// The limit in seconds.
        seconds: f64,
    },
    /// The system has no room for a thread.
    #[error(
        "{}: no thread to encode on; a limit on memory, address space or processes (`ulimit -a`) may be \
         too low, or --threads too high",
        path.display()
    )]
    NoThread {
        /// The model.
        path: PathBuf,
    },
    /// A picture without pixels, of the wrong number of bytes, or too large.
    #[error(
        "{bytes} bytes for {width} x {height} pixels; accepted are three each, for 1 to {} pixels in all",
        nextpair_data::picture::MAX_PIXELS
    )]
    Picture {
        /// Pixels per row.
        width: u32,
        /// Number of rows.
        height: u32,
        /// Number of bytes that hold them.
        bytes: usize,
    },
    /// Numbers that cannot be stored in the requested type.
    #[error("{what}")]
    Numbers {
        /// The numbers, and a way out.
        what: String,
    },
    /// More principal components than the rows can give.
    #[error("{what}")]
    Components {
        /// The requested number and the available one.
        what: String,
    },
}

impl Error {
    /// Whether it would happen to every input, and is not the fault of one.
    pub(crate) fn is_of_any_input(&self) -> bool {
        matches!(self, Error::Slow { .. } | Error::NoThread { .. })
    }

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
