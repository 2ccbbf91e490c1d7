//! Image files that are there twice.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::{Error, ordinary};

/// How much of both ends of a file is looked at before two files are compared as a whole.
const ENDS: u64 = 4096;

/// The length of a file and a hash of its ends: equal for equal files, and nearly always
/// different for different ones.
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
pub(super) struct Seen(HashMap<Print, String>);

impl Seen {
    /// Remembers an image; the earlier one with the very same bytes, if there is one.
    pub(super) fn twin(&mut self, folder: &Path, image: &str, print: Print) -> Option<String> {
        let first = match self.0.entry(print) {
            std::collections::hash_map::Entry::Vacant(vacant) => {
                vacant.insert(image.to_owned());
                return None;
            }
            std::collections::hash_map::Entry::Occupied(occupied) => occupied.get().clone(),
        };
        let bytes = |image: &str| std::fs::read(folder.join(image));
        match (bytes(&first), bytes(image)) {
            (Ok(one), Ok(other)) if one == other && first != image => Some(first),
            _ => None,
        }
    }
}
