//! Detection of duplicate image files.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::{Error, ordinary};

/// Bytes at both ends of a file that are hashed before whole files are compared.
const ENDS: u64 = 4096;

/// The length of a file and a hash of its ends: equal for equal files, and nearly always different
/// for different ones.
pub(super) type Print = (u64, u64);

pub(super) fn print(path: &Path) -> Result<Print, Error> {
    let file = ordinary::open(path)?;
    print_file(file).map_err(|e| Error::io(path, e))
}

fn print_file(mut file: File) -> io::Result<Print> {
    let length = file.metadata()?.len();
    let mut ends = Vec::with_capacity(2 * ENDS as usize);
    (&mut file).take(ENDS).read_to_end(&mut ends)?;
    if length > ENDS {
        file.seek(SeekFrom::Start(length.saturating_sub(ENDS).max(ENDS)))?;
        file.take(ENDS).read_to_end(&mut ends)?;
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(&ends);
    Ok((length, hasher.finish()))
}

/// The images seen so far.
#[derive(Default)]
pub(super) struct SeenImages(HashMap<Print, String>);

impl SeenImages {
    /// Remembers an image. Returns an earlier one with exactly the same bytes, if any.
    pub(super) fn twin(&mut self, folder: &Path, image: &str, print: Print) -> Option<String> {
        let first = match self.0.entry(print) {
            std::collections::hash_map::Entry::Vacant(vacant) => {
                vacant.insert(image.to_owned());
                return None;
            }
            std::collections::hash_map::Entry::Occupied(occupied) => occupied.get().clone(),
        };
        // A file that is gone by now is no duplicate.
        let same = |first: &str| same_bytes(&folder.join(first), &folder.join(image));
        (first != image && same(&first).unwrap_or(false)).then_some(first)
    }
}

/// Returns whether two files have the same bytes.
pub(crate) fn same_bytes(one: &Path, other: &Path) -> Result<bool, Error> {
    let open =
        |path: &Path| ordinary::open(path).map(|file| BufReader::with_capacity(1 << 16, file));
    let (mut one_file, mut other_file) = (open(one)?, open(other)?);
    loop {
        let read = one_file.fill_buf().map_err(|e| Error::io(one, e))?;
        let other_read = other_file.fill_buf().map_err(|e| Error::io(other, e))?;
        let length = read.len().min(other_read.len());
        if length == 0 {
            return Ok(read.len() == other_read.len());
        }
        if read[..length] != other_read[..length] {
            return Ok(false);
        }
        one_file.consume(length);
        other_file.consume(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_compared_to_their_ends() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let mut bytes = vec![7; 200_000];
        let one = write("one", &bytes);
        assert!(same_bytes(&one, &write("same", &bytes)).unwrap());
        assert!(!same_bytes(&one, &write("longer", &[&bytes[..], &[7]].concat())).unwrap());
        bytes[150_000] = 8;
        assert!(!same_bytes(&one, &write("other", &bytes)).unwrap());
        assert!(same_bytes(&one, &folder.path().join("missing")).is_err());
    }
}
