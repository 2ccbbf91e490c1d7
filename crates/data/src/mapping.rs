//! The one place where files are memory-mapped, and the only unsafe code of this crate.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use crate::{Error, ordinary};

/// Read-only bytes: part of a memory-mapped file, or owned.
#[derive(Clone, Debug)]
pub(crate) enum Bytes {
    Mapped(Arc<Mmap>, Range<usize>),
    Owned(Arc<[u8]>),
}

impl Bytes {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map, range) => &map[range.clone()],
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
}

/// Maps the whole of `path`.
pub(crate) fn map(path: &Path) -> Result<Bytes, Error> {
    map_file(&ordinary::open(path)?, path)
}

/// Maps an open file; `path` is what errors call it.
pub(crate) fn map_file(file: &File, path: &Path) -> Result<Bytes, Error> {
    let metadata = file.metadata().map_err(|e| Error::io(path, e))?;
    if metadata.len() == 0 {
        return Err(Error::format(path, "the file is empty"));
    }
    // SAFETY: the mapping is read-only and the bytes are only ever read as plain bytes (every bit
    // pattern is valid). As with every mapped reader, a file that another process shrinks while
    // we run ends this process with SIGBUS; it cannot make us read outside the mapping.
    let map = unsafe { Mmap::map(file) }.map_err(|e| Error::io(path, e))?;
    let len = map.len();
    Ok(Bytes::Mapped(Arc::new(map), 0..len))
}
