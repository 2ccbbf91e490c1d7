//! Safetensors files with a digest of all their bytes, so that damage shows when they are read.

use std::path::Path;

use ::safetensors::tensor::{SafeTensorError, View, serialize};

use crate::{Error, fingerprint};

/// Every header with metadata begins so.
const START: &str = r#"{"__metadata__":{"#;
/// What stands between that and the digest.
const KEY: &str = r#""digest":""#;
/// What stands between the digest and the other metadata. A header is a multiple of 8 bytes long, and
/// so is what is added to it.
const END: &str = r#"",    "#;
/// Where the digest is. The length of the header comes before it.
const PLACE: usize = 8 + START.len() + KEY.len();
const DIGITS: usize = 16;

/// The bytes of a safetensors file with one entry of metadata, and a digest of all the rest.
///
/// # Errors
/// If tensors cannot be written in this format.
pub fn sealed<S, V>(
    tensors: impl IntoIterator<Item = (S, V)>,
    (key, text): (&str, String),
) -> Result<Vec<u8>, SafeTensorError>
where
    S: AsRef<str> + Ord + std::fmt::Display,
    V: View,
{
    // One entry: the order of several is not the same every time.
    let mut bytes = serialize(tensors, Some([(key.to_owned(), text)].into()))?;
    let (length, _) = bytes.split_first_chunk().expect("a header has a length");
    let added = format!("{KEY}{}{END}", "0".repeat(DIGITS));
    let length = u64::from_le_bytes(*length) + added.len() as u64;
    bytes[..8].copy_from_slice(&length.to_le_bytes());
    let start = 8 + START.len();
    bytes.splice(start..start, added.bytes());
    let digest = digest(&bytes);
    bytes[PLACE..PLACE + DIGITS].copy_from_slice(digest.as_bytes());
    Ok(bytes)
}

/// Fails unless these bytes of `path` are exactly what [`sealed`] made.
///
/// # Errors
/// If they are not.
pub fn check_sealed(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let before = bytes.get(8..PLACE);
    let Some(stored) = bytes.get(PLACE..PLACE + DIGITS) else {
        return Err(Error::format(path, "damaged: its beginning is cut off"));
    };
    if before != Some(format!("{START}{KEY}").as_bytes()) {
        let what = "damaged, or not written by this version of nextpair: it has no digest";
        return Err(Error::format(path, what));
    }
    if stored == digest(bytes).as_bytes() {
        return Ok(());
    }
    let what =
        "damaged: its bytes are not those that were written; take a copy of it, or make it again";
    Err(Error::format(path, what))
}

/// The digest of everything but the digest.
fn digest(bytes: &[u8]) -> String {
    let (before, after) = (&bytes[..PLACE], &bytes[PLACE + DIGITS..]);
    fingerprint((fingerprint(before) + &fingerprint(after)).as_bytes())
}

#[cfg(test)]
mod tests {
    use ::safetensors::tensor::{Dtype, SafeTensors, TensorView};

    use super::*;

    #[test]
    fn every_flipped_bit_and_every_cut_shows() {
        let path = Path::new("a.safetensors");
        for count in [0, 1, 5] {
            let data: Vec<u8> = (0..8 * count).map(|at| at as u8).collect();
            let view = TensorView::new(Dtype::F64, vec![count], &data).unwrap();
            let mut bytes = sealed([("a", view)], ("about", "\"it\"".to_owned())).unwrap();
            check_sealed(path, &bytes).unwrap();
            let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
            assert_eq!(header.metadata().as_ref().unwrap()["about"], "\"it\"");
            let file = SafeTensors::deserialize(&bytes).unwrap();
            assert_eq!(file.tensor("a").unwrap().data(), data);
            for bit in 0..8 * bytes.len() {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(check_sealed(path, &bytes).is_err(), "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            for length in 0..bytes.len() {
                assert!(check_sealed(path, &bytes[..length]).is_err(), "{length} bytes");
            }
            bytes.push(0);
            assert!(check_sealed(path, &bytes).is_err());
        }
    }

    #[test]
    fn a_file_without_a_digest_is_said_to_have_none() {
        let view = TensorView::new(Dtype::U8, vec![64], &[0; 64]).unwrap();
        let plain = serialize([("a", view)], None).unwrap();
        let what = check_sealed(Path::new("a.safetensors"), &plain).unwrap_err().to_string();
        assert!(what.contains("a.safetensors: damaged, or not written by this version"), "{what}");
    }
}
