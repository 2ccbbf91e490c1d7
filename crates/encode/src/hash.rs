//! The identity of a file: its absolute path and its SHA-256.

use std::io::Read;
use std::path::Path;

use nextpair_data::escape::hex;
use nextpair_data::ordinary;
use sha2::{Digest, Sha256};

use crate::Error;

/// The SHA-256 of a file, as `sha256sum` prints it.
pub(crate) fn sha256(path: &Path) -> Result<String, Error> {
    let fail = |e| Error::io(path, e);
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    let mut file = ordinary::open(path)?;
    loop {
        match file.read(&mut buffer).map_err(fail)? {
            0 => break,
            read => hasher.update(&buffer[..read]),
        }
    }
    Ok(hex(&hasher.finalize()))
}

/// The absolute path of a file.
pub(crate) fn whole_path(path: &Path) -> Result<String, Error> {
    let fail = |e| Error::io(path, e);
    Ok(path.canonicalize().map_err(fail)?.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_hash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&path).unwrap(), expected);
        assert!(sha256(folder.path().join("none").as_path()).is_err());
    }
}
