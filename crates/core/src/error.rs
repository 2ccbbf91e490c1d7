//! The error type for bad files and bad arguments.

use std::path::{Path, PathBuf};

/// A failure to read, write or compute something, with the place and the reason.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system. It is part of the message, so it is not a source as
        /// well.
        error: std::io::Error,
    },
    /// The file has another format than its name says, or is damaged.
    #[error("{}: {what}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The problem, with offsets, shapes or field names.
        what: String,
    },
    /// One line of a text file is wrong. Lines count from 1.
    #[error("{}:{line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem with the line.
        what: String,
    },
    /// One row of a table is wrong. Rows count from 0, as indices do.
    #[error("{}: row {row}: {what}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The row, from 0.
        row: usize,
        /// The problem with the row.
        what: String,
    },
    /// Entries of an import are wrong or their files are missing.
    #[error("{}: {count} bad {}:\n{listing}", path.display(), if *count == 1 { "entry" } else { "entries" })]
    Entries {
        /// The imported file or folder.
        path: PathBuf,
        /// Number of bad entries.
        count: usize,
        /// The first of them, one per line, with their places.
        listing: String,
    },
    /// Another process is using the folder; a later try may succeed.
    #[error("{}: {what}", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
        /// The work of the other process.
        what: String,
    },
    /// The file or folder is in use, and this system does not let it be replaced or removed. Windows alone refuses that.
    #[error("{}: cannot be replaced or removed; perhaps a program has it open or mapped: {error}", path.display())]
    InUse {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system, which is part of the message.
        error: std::io::Error,
    },
    /// The file changed while it was read.
    #[error("{}: changed while it was read: {what}; nothing was made of it", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// The difference.
        what: String,
    },
    /// [`Progress::stopped`](crate::Progress::stopped) has ended the work; nothing was made.
    #[error("the work was stopped")]
    Stopped,
    /// A setting or argument has an invalid value.
    #[error("{name}: {what}")]
    Argument {
        /// The setting or argument.
        name: &'static str,
        /// The problem with it.
        what: String,
    },
}

impl Error {
    /// The operating system refused an operation on `path`.
    pub fn io(path: &Path, error: std::io::Error) -> Self {
        Error::Io { path: path.to_path_buf(), error }
    }

    /// The operating system refused to make `path`. Where the folder for it is missing, that is what the error
    /// names.
    pub fn making(path: &Path, error: std::io::Error) -> Self {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let missing = parent.filter(|parent| !parent.exists());
        match (missing, path.file_name()) {
            (Some(folder), Some(name)) => {
                let name = name.to_string_lossy();
                let what =
                    format!("there is no such folder for {name}; make it, or name another place");
                Error::format(folder, what)
            }
            _ => Error::io(path, error),
        }
    }

    /// The file changed while it was read.
    pub fn changed(path: &Path, what: impl Into<String>) -> Self {
        Error::Changed { path: path.to_path_buf(), what: what.into() }
    }

    /// The file has another format than its name says, or is damaged.
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
