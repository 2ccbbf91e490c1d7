//! Little-endian integers of any width, as all formats here store them.

use std::path::Path;

use crate::Error;

/// Decodes all integers of `bytes`, `size` bytes each. One that does not fit is a row error.
pub(crate) fn decode_all(
    path: &Path,
    bytes: &[u8],
    size: usize,
    signed: bool,
) -> Result<Vec<i64>, Error> {
    let numbers = bytes.chunks_exact(size).enumerate();
    numbers
        .map(|(row, bytes)| {
            decode(bytes, signed).ok_or_else(|| Error::Row {
                path: path.to_path_buf(),
                row,
                what: format!("the integer is larger than {}", i64::MAX),
            })
        })
        .collect()
}

/// Decodes an integer of 1 to 8 bytes, sign-extended; `None` if it is above [`i64::MAX`].
fn decode(bytes: &[u8], signed: bool) -> Option<i64> {
    let negative = signed && bytes.last().is_some_and(|&top| top >= 0x80);
    let mut wide = [if negative { 0xff } else { 0 }; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let value = i64::from_le_bytes(wide);
    (signed || value >= 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_reads_back() {
        for value in [-128i8, -1, 0, 127] {
            let wide = i64::from(value);
            assert_eq!(decode(&value.to_le_bytes(), true), Some(wide));
            assert_eq!(decode(&i16::from(value).to_le_bytes(), true), Some(wide));
            assert_eq!(decode(&i32::from(value).to_le_bytes(), true), Some(wide));
            assert_eq!(decode(&wide.to_le_bytes(), true), Some(wide));
        }
        assert_eq!(decode(&[200], false), Some(200));
        assert_eq!(decode(&u32::MAX.to_le_bytes(), false), Some(u32::MAX as i64));
        assert_eq!(decode(&u64::MAX.to_le_bytes(), false), None);
    }
}
