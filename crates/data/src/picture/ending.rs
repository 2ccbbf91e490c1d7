//! Checks that a picture file ends properly. Downloads that stop halfway are the most common
//! damage, and this finds them without decoding.

use std::io::{self, BufRead, Read, Seek, SeekFrom};

use super::Format;

/// Bytes at the end that may follow the picture: some cameras and editors append a few kilobytes.
const TAIL: u64 = 16 * 1024;

/// Returns false if the file in `reader` ends before its picture does. It reads only some of the
/// bytes and may miss a cut near the end; decoding does not.
pub(super) fn is_there(format: Format, reader: &mut (impl BufRead + Seek)) -> io::Result<bool> {
    let length = reader.seek(SeekFrom::End(0))?;
    let tail = read(reader, length.saturating_sub(TAIL), TAIL)?;
    let head = read(reader, 0, 16)?;
    Ok(match format {
        // The end-of-image marker cannot occur in coded data, only in an embedded preview.
        Format::Jpeg => tail.windows(2).any(|pair| pair == [0xff, 0xd9]),
        Format::Png => tail.windows(12).any(|chunk| chunk == b"\0\0\0\0IEND\xaeB`\x82"),
        // A RIFF header says how many bytes follow its first eight.
        Format::WebP => length >= little_endian(&head, 4).saturating_add(8),
        // The trailer is one byte that also occurs in coded data, so it must be the last.
        Format::Gif => tail.iter().rfind(|&&byte| byte != 0) == Some(&0x3b),
        // Some writers leave the size of the file at zero.
        Format::Bmp => length >= little_endian(&head, 2),
    })
}

fn read(reader: &mut (impl BufRead + Seek), start: u64, count: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.seek(SeekFrom::Start(start))?;
    reader.take(count).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn little_endian(bytes: &[u8], at: usize) -> u64 {
    let number = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    number.map_or(u64::MAX, |four| u32::from_le_bytes(four).into())
}
