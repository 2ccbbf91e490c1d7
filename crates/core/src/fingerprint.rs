//! Fingerprints of files: they reveal changes made by accident or by hand.

use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::{Error, draw, ordinary};

/// Bytes read at a time; a multiple of the word size.
const PIECE: usize = 1 << 16;

/// Returns a 64-bit hash in hexadecimal, the same on every machine. It does not protect against
/// malice.
pub fn fingerprint(bytes: &[u8]) -> String {
    format!("{:016x}", taken(bytes.len() as u64, bytes))
}

/// The fingerprint of a file's bytes. The file need not fit into memory.
pub fn fingerprint_of(path: &Path) -> Result<String, Error> {
    let mut file = ordinary::open(path)?;
    let length = file.metadata().map_err(|e| Error::io(path, e))?.len();
    let (mut hash, mut left) = (length, length);
    let mut piece = [0; PIECE];
    while left > 0 {
        let piece = &mut piece[..left.min(PIECE as u64) as usize];
        file.read_exact(piece).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof => Error::format(path, "became shorter while it was read"),
            _ => Error::io(path, e),
        })?;
        hash = taken(hash, piece);
        left -= piece.len() as u64;
    }
    Ok(format!("{hash:016x}"))
}

/// Updates a hash with more bytes. Only the last bytes may end within a word.
fn taken(hash: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(hash, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        draw::draw_of(hash, u64::from_le_bytes(word), 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts_and_so_does_their_number() {
        let prints = ["", "\0", "a", "b", "ab", "ba", "12345678", "12345678\0"];
        let prints: std::collections::BTreeSet<String> =
            prints.iter().map(|text| fingerprint(text.as_bytes())).collect();
        assert_eq!(prints.len(), 8);
        assert!(prints.iter().all(|print| print.len() == 16));
    }

    #[test]
    fn a_file_has_the_fingerprint_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for length in [0, 1, 7, 8, 9, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5] {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 31 % 251) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(fingerprint_of(&path).unwrap(), fingerprint(&bytes), "{length}");
        }
    }
}
