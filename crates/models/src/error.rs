//! What can go wrong with a model.

use std::path::PathBuf;

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
    /// Of a tensor operation.
    #[error("tensors: {0}")]
    Tensor(#[from] candle_core::Error),
    /// A checkpoint that cannot be read.
    #[error("{}: {what}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A checkpoint of another model: parameters are missing, or there are others.
    #[error("{}: {}", path.display(), other_parameters(missing, unknown))]
    Parameters {
        /// The file.
        path: PathBuf,
        /// What the model needs and the file does not have.
        missing: Vec<String>,
        /// What the file has and the model does not know.
        unknown: Vec<String>,
    },
}

/// Both lists in words, each cut where it would fill the screen.
fn other_parameters(missing: &[String], unknown: &[String]) -> String {
    const SHOWN: usize = 10;
    let listed = |what: &str, names: &[String]| {
        let more = names.len().saturating_sub(SHOWN);
        let shown = names[..names.len() - more].join(", ");
        match (names.len(), more) {
            (0, _) => None,
            (_, 0) => Some(format!("{what}: {shown}")),
            _ => Some(format!("{what}: {shown} and {more} more")),
        }
    };
    let lists = [listed("missing parameters", missing), listed("unknown parameters", unknown)];
    lists.into_iter().flatten().collect::<Vec<_>>().join("; ")
}
