//! Whether the last bytes of a picture are there. Downloads that stop halfway are the most
//! common damage of all, and this finds them without decoding.

use std::io::{self, BufRead, Read, Seek, SeekFrom};

use super::Format;

/// Some cameras and editors append a few kilobytes of their own after the picture.
const TAIL: u64 = 16 * 1024;

/// False if the file in `reader` ends before its picture does. Needs only some of its bytes, and
/// may miss a cut near the end; decoding does not.
pub(super) fn is_there(format: Format, reader: &mut (impl BufRead + Seek)) -> io::Result<bool> {
    let length = reader.seek(SeekFrom::End(0))?;
    let tail = read(reader, length.saturating_sub(TAIL), TAIL)?;
    let head = read(reader, 0, 16)?;
    Ok(match format {
        // The marker "end of image" cannot occur in coded data, only in an embedded preview.
        Format::Jpeg => tail.windows(2).any(|pair| pair == [0xff, 0xd9]),
        Format::Png => tail.windows(12).any(|chunk| chunk == b"\0\0\0\0IEND\xaeB`\x82"),
        // A RIFF file says how many bytes follow its first eight.
        Format::WebP => length >= little_endian(&head, 4).saturating_add(8),
        // Its trailer is one byte that also occurs in coded data, so it must be the last.
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
