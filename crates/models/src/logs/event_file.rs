//! Event files of TensorBoard, written by hand: two small messages in a simple frame.
//!
//! A file is a row of records: the length of the payload (`u64`), its masked CRC-32C, the payload, its masked
//! CRC-32C, all little-endian (the format TFRecord). A payload is a message `Event` of Protocol Buffers:
//!
//! ```text
//! Event    1 wall_time (double)  2 step (int64)  3 file_version (string)  5 summary (Summary)
//! Summary  1 value (repeated)
//! Value    1 tag (string)  2 simple_value (float)
//! ```

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use nextpair_data::{AtomicFile, Error as DataError, ordinary};

use super::LogRow;
use crate::Error;

/// TensorBoard takes every file with `tfevents` in its name. The name has no time in it: a training that is
/// resumed writes the same file.
const NAME: &str = "events.out.tfevents.nextpair";
/// The first record of every file says this.
const VERSION: &str = "brain.Event:2";

/// Writes the events of rows. Where the file has a part of them, the rest is appended: TensorBoard keeps files
/// open, and would not see a new one. So a kill leaves the beginning of what the next call writes.
pub(super) fn write(folder: &Path, rows: &[LogRow]) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(|e| DataError::io(folder, e))?;
    let path = folder.join(NAME);
    let bytes = events(rows);
    let known = ordinary::read_if_there(&path)?.unwrap_or_default();
    if known.is_empty() || !bytes.starts_with(&known) {
        // A process that was killed here left its part behind. Nobody else writes here: the folder that the logs
        // belong to is locked.
        AtomicFile::remove_unfinished(folder)?;
        return Ok(AtomicFile::write_whole(&path, &bytes)?);
    }
    let mut file = ordinary::open_with(&path, OpenOptions::new().append(true))?;
    Ok(file.write_all(&bytes[known.len()..]).map_err(|e| DataError::io(&path, e))?)
}

/// Returns the events of rows: epochs by their number, tests by the number of paired items.
fn events(rows: &[LogRow]) -> Vec<u8> {
    let mut first = Vec::new();
    put_double(&mut first, 1, rows.first().map_or(0.0, |row| row.time));
    put_bytes(&mut first, 3, VERSION.as_bytes());
    let mut bytes = Vec::new();
    put_record(&mut bytes, &first);
    for row in rows {
        if !row.metrics.is_empty() {
            put_record(&mut bytes, &event(row.time, row.step, &row.metrics));
        }
        if let Some(test) = &row.tested {
            put_record(&mut bytes, &event(row.time, test.paired, &test.metrics));
        }
    }
    bytes
}

fn event(time: f64, step: usize, metrics: &[(String, f64)]) -> Vec<u8> {
    let mut summary = Vec::new();
    for (tag, number) in metrics {
        let mut value = Vec::new();
        put_bytes(&mut value, 1, tag.as_bytes());
        put_key(&mut value, 2, FOUR_BYTES);
        value.extend((*number as f32).to_le_bytes());
        put_bytes(&mut summary, 1, &value);
    }
    let mut event = Vec::new();
    put_double(&mut event, 1, time);
    put_key(&mut event, 2, VARINT);
    put_varint(&mut event, step as u64);
    put_bytes(&mut event, 5, &summary);
    event
}

/// Wire types of Protocol Buffers.
const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const LENGTH: u64 = 2;
const FOUR_BYTES: u64 = 5;

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_key(out: &mut Vec<u8>, field: u64, wire_type: u64) {
    put_varint(out, field << 3 | wire_type);
}

fn put_double(out: &mut Vec<u8>, field: u64, number: f64) {
    put_key(out, field, EIGHT_BYTES);
    out.extend(number.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_key(out, field, LENGTH);
    put_varint(out, bytes.len() as u64);
    out.extend(bytes);
}

fn put_record(out: &mut Vec<u8>, payload: &[u8]) {
    let length = (payload.len() as u64).to_le_bytes();
    out.extend(length);
    out.extend(masked(crc32c(&length)).to_le_bytes());
    out.extend(payload);
    out.extend(masked(crc32c(payload)).to_le_bytes());
}

/// TFRecord masks sums, so that sums of data with sums in it are good ones.
fn masked(sum: u32) -> u32 {
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32 with Castagnoli's polynomial. Bit by bit: logs are short.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut sum = u32::MAX;
    for &byte in bytes {
        sum ^= u32::from(byte);
        for _ in 0..8 {
            sum = sum >> 1 ^ (0x82f6_3b78 & (sum & 1).wrapping_neg());
        }
    }
    !sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standard() {
        // RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    fn row(step: usize, loss: f64) -> LogRow {
        let metrics = vec![("loss".to_owned(), loss)];
        LogRow { step, epoch: Some(step), time: 1e9 + step as f64, metrics, ..LogRow::default() }
    }

    #[test]
    fn a_file_grows_and_heals() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let rows = [row(1, 0.5), row(2, 0.25), row(300, f64::NAN)];
        let whole = events(&rows);
        for done in 1..=rows.len() {
            write(folder.path(), &rows[..done]).unwrap();
            assert_eq!(fs::read(&path).unwrap(), events(&rows[..done]));
            assert!(whole.starts_with(&events(&rows[..done])), "what is written stays");
        }
        // A file that a kill left unfinished goes.
        fs::remove_file(&path).unwrap();
        fs::write(folder.path().join(".nextpair-killed"), "").unwrap();
        write(folder.path(), &rows).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        // Whatever a kill leaves becomes whole, and an epoch that was repeated is there once.
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            write(folder.path(), &rows).unwrap();
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
        let again = [row(1, 0.5), row(2, 0.125)];
        write(folder.path(), &again).unwrap();
        assert_eq!(fs::read(&path).unwrap(), events(&again));
    }
}
