//! The one place where files are memory-mapped. With `mapping/watch.rs` it holds the only unsafe
//! code of this crate.

mod watch;

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

use crate::stamp::Stamp;
use crate::{Error, ordinary};
use watch::Watched;
pub use watch::stop_on_changed_inputs;

/// Read-only bytes: part of a memory-mapped file, or owned.
#[derive(Clone, Debug)]
pub(crate) enum Bytes {
    Mapped(Arc<Mapping>, Range<usize>),
    Owned(Arc<[u8]>),
}

/// A mapped file.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// Before the map, so that nobody looks for an address that is not mapped any more.
    watched: Watched,
    map: Mmap,
}

/// Where mapped bytes come from.
#[derive(Debug)]
struct Origin {
    path: PathBuf,
    /// The file as it was mapped; none where it is a temporary one of ours.
    stamp: Option<Stamp>,
}

impl Origin {
    fn check_unchanged(&self) -> Result<(), Error> {
        self.stamp.as_ref().map_or(Ok(()), |stamp| stamp.check(&self.path))
    }
}

impl Bytes {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(mapping, range) => &mapping.map[range.clone()],
            Bytes::Owned(bytes) => bytes,
        }
    }

    /// The bytes `range` of these bytes; `range` must lie within them.
    pub(crate) fn slice(&self, range: Range<usize>) -> Bytes {
        match self {
            Bytes::Mapped(map, whole) => {
                assert!(range.end <= whole.len(), "the range lies within the mapping");
                Bytes::Mapped(map.clone(), whole.start + range.start..whole.start + range.end)
            }
            Bytes::Owned(bytes) => Bytes::Owned(bytes[range].into()),
        }
    }

    /// An error if the file they are mapped from is not what it was then. To be asked after the
    /// bytes were read and before anybody sees what came of them.
    pub(crate) fn check_unchanged(&self) -> Result<(), Error> {
        match self {
            Bytes::Mapped(mapping, _) => mapping.watched.origin().check_unchanged(),
            Bytes::Owned(_) => Ok(()),
        }
    }
}

/// Maps the whole of `path`.
pub(crate) fn map(path: &Path) -> Result<Bytes, Error> {
    let file = ordinary::open(path)?;
    let metadata = file.metadata().map_err(|e| Error::io(path, e))?;
    map_file(&file, path, Some(Stamp::of(&metadata)))
}

/// Maps `path` for as long as `read` takes, and refuses what it read if the file changed meanwhile.
/// That comes before what `read` complains of, which may be due to it.
pub(crate) fn read<T>(
    path: &Path,
    read: impl FnOnce(&Bytes) -> Result<T, Error>,
) -> Result<T, Error> {
    let bytes = map(path)?;
    let result = read(&bytes);
    bytes.check_unchanged()?;
    result
}

/// Maps a temporary file of ours in `folder`.
pub(crate) fn map_temporary(file: &File, folder: &Path) -> Result<Bytes, Error> {
    map_file(file, folder, None)
}

fn map_file(file: &File, path: &Path, stamp: Option<Stamp>) -> Result<Bytes, Error> {
    let metadata = file.metadata().map_err(|e| Error::io(path, e))?;
    if metadata.len() == 0 {
        return Err(Error::format(path, "the file is empty"));
    }
    // SAFETY: the mapping is read-only and the bytes are only ever read as plain bytes (every bit
    // pattern is valid). As with every mapped reader, a file that another process shrinks while
    // we run ends this process with SIGBUS (see `watch.rs`); it cannot make us read outside the
    // mapping.
    let map = unsafe { Mmap::map(file) }.map_err(|e| Error::io(path, e))?;
    let len = map.len();
    let watched = Watched::new(&map, Origin { path: path.to_path_buf(), stamp });
    Ok(Bytes::Mapped(Arc::new(Mapping { watched, map }), 0..len))
}
