//! One error for everything that can be wrong with a file, or with what is asked of this crate.

use std::path::{Path, PathBuf};

/// What could not be read, written or made, with the place and the reason.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said. Part of the message, so not a source of its own.
        error: std::io::Error,
    },
    /// The file is not what its name says, or is damaged.
    #[error("{}: {what}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, with offsets, shapes or field names.
        what: String,
    },
    /// One line of a text file is wrong. Lines count from 1.
    #[error("{}:{line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// One row of a table is wrong. Rows count from 0, as indices do.
    #[error("{}: row {row}: {what}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The row, from 0.
        row: usize,
        /// What is wrong with it.
        what: String,
    },
    /// Entries of an import are wrong or their files are missing.
    #[error("{}: {count} bad {}:\n{listing}", path.display(), if *count == 1 { "entry" } else { "entries" })]
    Entries {
        /// What was imported.
        path: PathBuf,
        /// How many entries are bad.
        count: usize,
        /// The first of them, one a line, with their places.
        listing: String,
    },
    /// Another process is at it now; the same may succeed later.
    #[error("{}: {what}", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
        /// What the other process is doing.
        what: String,
    },
    /// A file that was not the same when its reading ended as when it began.
    #[error("{}: changed while it was read: {what}; nothing was made of it", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// In which way.
        what: String,
    },
    /// What was asked for cannot be meant.
    #[error("{name}: {what}")]
    Argument {
        /// The setting or argument.
        name: &'static str,
        /// What is wrong with it.
        what: String,
    },
}

impl Error {
    /// The operating system refused something about `path`.
    pub fn io(path: &Path, error: std::io::Error) -> Self {
        Error::Io { path: path.to_path_buf(), error }
    }

    /// A file was not the same when its reading ended as when it began.
    pub fn changed(path: &Path, what: impl Into<String>) -> Self {
        Error::Changed { path: path.to_path_buf(), what: what.into() }
    }

    /// A file is not what its name says, or is damaged.
    pub fn format(path: &Path, what: impl Into<String>) -> Self {
        Error::Format { path: path.to_path_buf(), what: what.into() }
    }

    /// A line of a text file is wrong. Lines count from 1.
    pub fn line(path: &Path, line: usize, what: impl Into<String>) -> Self {
        Error::Line { path: path.to_path_buf(), line, what: what.into() }
    }

    /// A row of a table is wrong. Rows count from 0.
    pub fn row(path: &Path, row: usize, what: impl Into<String>) -> Self {
        Error::Row { path: path.to_path_buf(), row, what: what.into() }
    }
}
