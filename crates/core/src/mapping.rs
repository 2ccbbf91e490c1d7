//! Memory-mapped files. Unsafe code of this crate is here, in `mapping/watch.rs` and in `system`.

mod watch;

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

use crate::stamp::Stamp;
use crate::{Error, ordinary, system};
use watch::Watched;
pub use watch::stop_on_changed_inputs;

/// Owner of bytes in memory: an array of ours, or one that a caller lends.
pub type Holder = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Read-only bytes, never copied: part of a memory-mapped file, or of a holder's memory.
#[derive(Clone)]
pub enum Bytes {
    /// Part of a mapped file.
    Mapped(Arc<Mapping>, Range<usize>),
    /// Part of a holder's bytes.
    Held(Holder, Range<usize>),
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bytes::Mapped(mapping, range) => write!(f, "{range:?} of {mapping:?}"),
            Bytes::Held(_, range) => write!(f, "{range:?} of memory"),
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::held(Arc::new(bytes))
    }
}

/// A mapped file.
#[derive(Debug)]
pub struct Mapping {
    /// Declared before the map, so that it is dropped first: the list must never hold an unmapped
    /// address.
    watched: Watched,
    map: Mmap,
}

/// Origin of mapped bytes.
#[derive(Debug)]
struct Origin {
    path: PathBuf,
    /// State of the file when it was mapped; `None` for a temporary file of ours.
    stamp: Option<Stamp>,
}

impl Origin {
    fn check_unchanged(&self) -> Result<(), Error> {
        self.stamp.as_ref().map_or(Ok(()), |stamp| stamp.check(&self.path))
    }
}

impl Bytes {
    /// All bytes of a holder.
    pub fn held(holder: Holder) -> Self {
        let len = (*holder).as_ref().len();
        Bytes::Held(holder, 0..len)
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(mapping, range) => &mapping.map[range.clone()],
            Bytes::Held(holder, range) => &(**holder).as_ref()[range.clone()],
        }
    }

    /// The bytes `range` of these bytes; `range` must lie within them.
    pub fn slice(&self, range: Range<usize>) -> Bytes {
        match self {
            Bytes::Mapped(map, whole) => Bytes::Mapped(map.clone(), within(whole, range)),
            Bytes::Held(holder, whole) => Bytes::Held(holder.clone(), within(whole, range)),
        }
    }

    /// Tells the system that the bytes `range` of these bytes are read soon.
    pub fn will_need(&self, range: Range<usize>) {
        if let Bytes::Mapped(mapping, whole) = self {
            system::will_need(&mapping.map, within(whole, range));
        }
    }

    /// Tells the system that the bytes `range` of these bytes are not read soon.
    pub fn done_with(&self, range: Range<usize>) {
        if let Bytes::Mapped(mapping, whole) = self {
            system::done_with(&mapping.map, within(whole, range));
        }
    }

    /// Returns an error if the mapped file has changed since it was mapped. Call this after reading
    /// the bytes and before using the results.
    pub fn check_unchanged(&self) -> Result<(), Error> {
        match self {
            Bytes::Mapped(mapping, _) => mapping.watched.origin().check_unchanged(),
            Bytes::Held(..) => Ok(()),
        }
    }
}

fn within(whole: &Range<usize>, part: Range<usize>) -> Range<usize> {
    assert!(part.end <= whole.len(), "{part:?} lies within {} bytes", whole.len());
    whole.start + part.start..whole.start + part.end
}

/// Maps the whole of `path`.
pub fn map(path: &Path) -> Result<Bytes, Error> {
    let file = ordinary::open(path)?;
    let stamp = Stamp::of(&file).map_err(|e| Error::io(path, e))?;
    map_file(&file, path, Some(stamp))
}

/// Maps `path` while `read` runs, and discards its result if the file changed meanwhile. The error
/// about the change takes precedence over an error of `read`, which the change may have caused.
pub fn read<T>(path: &Path, read: impl FnOnce(&Bytes) -> Result<T, Error>) -> Result<T, Error> {
    let bytes = map(path)?;
    let result = read(&bytes);
    bytes.check_unchanged()?;
    result
}

/// Maps a temporary file of ours in `folder`.
pub fn map_temporary(file: &File, folder: &Path) -> Result<Bytes, Error> {
    map_file(file, folder, None)
}

fn map_file(file: &File, path: &Path, stamp: Option<Stamp>) -> Result<Bytes, Error> {
    let metadata = file.metadata().map_err(|e| Error::io(path, e))?;
    if metadata.len() == 0 {
        return Err(Error::format(path, "the file is empty"));
    }
    // SAFETY: the mapping is read-only and the bytes are only ever read as plain bytes (every bit
    // pattern is valid). As with every mapped reader, a file that another process shrinks while
    // we run ends this process (see `watch.rs`); it cannot make us read outside the
    // mapping.
    let map = unsafe { Mmap::map(file) }.map_err(|e| Error::io(path, e))?;
    let len = map.len();
    let watched = Watched::new(&map, Origin { path: path.to_path_buf(), stamp });
    Ok(Bytes::Mapped(Arc::new(Mapping { watched, map }), 0..len))
}
