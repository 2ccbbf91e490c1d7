//! NumPy's `.npz` format: a zip archive of `.npy` members, as `numpy.savez` and
//! `numpy.savez_compressed` write it.

use std::io::{self, Cursor, Read};
use std::path::Path;

use flate2::Crc;
use flate2::read::DeflateDecoder;
use zip::{CompressionMethod, ZipArchive};

use crate::guard::guard;
use crate::mapping::{self, Bytes};
use crate::{Error, Matrix, Spill, listed, npy};

/// Bytes of a compressed member that its header lies in, and that are decompressed at a time.
const CHUNK: usize = 1 << 16;

/// Opens an array by its name, or the only one. A stored array is mapped where it lies; a compressed
/// one is decompressed once into a [`Spill`].
pub fn open(path: &Path, array: Option<&str>) -> Result<Matrix, Error> {
    let bytes = mapping::map(path)?;
    let matrix = guard(path, || read(path, &bytes, array))?;
    bytes.check_unchanged()?;
    Ok(matrix)
}

fn read(path: &Path, bytes: &Bytes, array: Option<&str>) -> Result<Matrix, Error> {
    let wrong = |what: String| Error::format(path, what);
    let mut zip = ZipArchive::new(Cursor::new(bytes.as_slice()))
        .map_err(|e| wrong(format!("not a .npz archive: {e}")))?;
    let names: Vec<String> = zip.file_names().flatten().map(|name| name.into_owned()).collect();
    let name = chosen(&names, array).map_err(wrong)?;
    let failed = |what: String| Error::format(path, format!("array {}: {what}", stem(&name)));
    let index = zip.index_for_name(&name).ok_or_else(|| failed("is not there".to_owned()))?;
    let member = zip.by_index_raw(index).map_err(|e| failed(e.to_string()))?;
    let (method, sum) = (member.compression(), member.crc32());
    let place = member
        .data_start()
        .and_then(|start| usize::try_from(start).ok())
        .zip(usize::try_from(member.compressed_size()).ok())
        .and_then(|(start, length)| Some(start..start.checked_add(length)?))
        .filter(|place| place.end <= bytes.as_slice().len())
        .ok_or_else(|| failed("lies outside the file".to_owned()))?;
    let data = bytes.slice(place);
    match method {
        CompressionMethod::Stored => npy::matrix(data).map_err(failed),
        // The archive crate is built without it, and the raw bytes are enough.
        CompressionMethod::DEFLATE => {
            let mut inflated =
                CheckedReader { bytes: DeflateDecoder::new(data.as_slice()), sum: Crc::new() };
            let matrix = spilled(&mut inflated).map_err(|e| match e {
                Failure::Array(what) => failed(what),
                Failure::Disk(error) => error,
            })?;
            if inflated.sum.sum() != sum {
                return Err(failed("damaged: its checksum is another one".to_owned()));
            }
            Ok(matrix)
        }
        other => Err(failed(format!("is compressed by {other:?}; numpy deflates or stores"))),
    }
}

/// The member of an array: that of this name, or the only one.
fn chosen(names: &[String], array: Option<&str>) -> Result<String, String> {
    let arrays: Vec<&String> = names.iter().filter(|name| name.ends_with(".npy")).collect();
    let all = || listed(arrays.iter().map(|name| stem(name)));
    let found = match array {
        Some(array) => arrays.iter().find(|name| stem(name) == array || name.as_str() == array),
        None if arrays.len() == 1 => arrays.first(),
        None if arrays.is_empty() => None,
        None => return Err(format!("holds several arrays; name one as FILE.npz:NAME: {}", all())),
    };
    match (found, array) {
        (Some(name), _) => Ok((*name).clone()),
        (None, Some(array)) if !arrays.is_empty() => {
            Err(format!("no array {array}; its arrays are {}", all()))
        }
        (None, _) => Err("holds no arrays".to_owned()),
    }
}

/// The name of an array, without the ending of its member.
fn stem(name: &str) -> &str {
    name.strip_suffix(".npy").unwrap_or(name)
}

/// Decompressed bytes and their checksum so far.
struct CheckedReader<R> {
    bytes: R,
    sum: Crc,
}

impl<R: Read> Read for CheckedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        self.sum.update(&buffer[..read]);
        Ok(read)
    }
}

/// Why an array cannot be decompressed.
enum Failure {
    Array(String),
    Disk(Error),
}

impl From<String> for Failure {
    fn from(what: String) -> Self {
        Failure::Array(what)
    }
}

/// Decompresses an array into a nameless file.
fn spilled(member: &mut impl Read) -> Result<Matrix, Failure> {
    let damaged = |e: io::Error| Failure::Array(format!("damaged: {e}"));
    let mut chunk = Vec::with_capacity(CHUNK);
    member.by_ref().take(CHUNK as u64).read_to_end(&mut chunk).map_err(damaged)?;
    let header = npy::parse(&chunk)?;
    let (extent, dtype) = npy::layout(&header)?;
    chunk.drain(..header.data_start);
    let mut spill = Spill::new().map_err(Failure::Disk)?;
    let mut left = extent.bytes;
    while left > 0 && !chunk.is_empty() {
        let taken = chunk.len().min(left);
        spill.append(&chunk[..taken]).map_err(Failure::Disk)?;
        left -= taken;
        chunk.drain(..taken);
        if chunk.is_empty() {
            member.by_ref().take(CHUNK as u64).read_to_end(&mut chunk).map_err(damaged)?;
        }
    }
    // The end has to be reached for the checksum, too.
    let more = chunk.len() + member.read(&mut [0; 1]).map_err(damaged)?;
    if left > 0 || more > 0 {
        let what = if left > 0 { "the data is cut off" } else { "there are bytes after the data" };
        return Err(format!("{what}: {} bytes are expected", extent.bytes).into());
    }
    let flat = spill.finish(extent.dim, dtype).map_err(Failure::Disk)?;
    Ok(if extent.locals == 1 { flat } else { flat.with_locals(extent.locals) })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    use super::*;
    use crate::Dtype;

    /// Returns an archive of members, stored or deflated, as numpy writes them.
    fn archive(members: &[(&str, &[u8])], deflate: bool) -> Vec<u8> {
        let (mut bytes, mut directory) = (Vec::new(), Vec::new());
        for (name, content) in members {
            let mut sum = Crc::new();
            sum.update(content);
            let stored = if deflate {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            } else {
                content.to_vec()
            };
            let mut fields = Vec::new();
            fields.extend(20u16.to_le_bytes());
            fields.extend(0u16.to_le_bytes());
            fields.extend((if deflate { 8u16 } else { 0 }).to_le_bytes());
            fields.extend([0, 0, 0x21, 0]);
            fields.extend(sum.sum().to_le_bytes());
            fields.extend((stored.len() as u32).to_le_bytes());
            fields.extend((content.len() as u32).to_le_bytes());
            fields.extend((name.len() as u16).to_le_bytes());
            fields.extend(0u16.to_le_bytes());
            let start = bytes.len() as u32;
            bytes.extend(b"PK\x03\x04");
            bytes.extend(&fields);
            bytes.extend(name.as_bytes());
            bytes.extend(&stored);
            directory.extend(b"PK\x01\x02");
            directory.extend(20u16.to_le_bytes());
            directory.extend(&fields);
            directory.extend([0; 10]);
            directory.extend(start.to_le_bytes());
            directory.extend(name.as_bytes());
        }
        let (start, count) = (bytes.len() as u32, members.len() as u16);
        bytes.extend(&directory);
        bytes.extend(b"PK\x05\x06\0\0\0\0");
        bytes.extend(count.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.extend((directory.len() as u32).to_le_bytes());
        bytes.extend(start.to_le_bytes());
        bytes.extend([0, 0]);
        bytes
    }

    fn array(rows: usize, dim: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        npy::write_f32(&mut bytes, rows, dim, (0..rows * dim).map(|i| i as f32)).unwrap();
        bytes
    }

    #[test]
    fn arrays_are_read_stored_and_deflated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        // Larger than a chunk.
        let (one, two) = (array(300, 100), array(2, 3));
        for deflate in [false, true] {
            std::fs::write(&path, archive(&[("one.npy", &one), ("two.npy", &two)], deflate))
                .unwrap();
            let matrix = open(&path, Some("one")).unwrap();
            assert_eq!((matrix.rows(), matrix.dim(), matrix.dtype()), (300, 100, Dtype::F32));
            let mut row = vec![0.0; 100];
            matrix.read_f32(299, &mut row);
            assert_eq!(row[99], 29_999.0);
            assert_eq!(open(&path, Some("two.npy")).unwrap().rows(), 2);
            let several = open(&path, None).unwrap_err().to_string();
            assert!(
                several.contains("several arrays") && several.contains("one, two"),
                "{several}"
            );
            let missing = open(&path, Some("three")).unwrap_err().to_string();
            assert!(missing.contains("no array three; its arrays are one, two"), "{missing}");
            drop(matrix);
            std::fs::write(&path, archive(&[("only.npy", &two)], deflate)).unwrap();
            assert_eq!(open(&path, None).unwrap().dim(), 3);
        }
    }

    #[test]
    fn damage_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        let refused = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            open(&path, None).unwrap_err().to_string()
        };
        assert!(refused(b"PK but not really").contains("not a .npz archive"));
        let none = archive(&[("a.txt", b"x")], false);
        assert!(refused(&none).contains("holds no arrays"));
        let whole = array(50, 4);
        for deflate in [false, true] {
            let cut = refused(&archive(&[("a.npy", &whole[..whole.len() - 3])], deflate));
            assert!(cut.contains("array a: the data is cut off"), "{cut}");
            let long = refused(&archive(&[("a.npy", &[&whole[..], b"x"].concat())], deflate));
            assert!(long.contains("array a: there are bytes after the data"), "{long}");
        }
        let mut wrong_sum = archive(&[("a.npy", &whole)], true);
        let at = wrong_sum.windows(4).rposition(|four| four == b"PK\x01\x02").unwrap() + 16;
        wrong_sum[at] ^= 1;
        let what = refused(&wrong_sum);
        assert!(what.contains("checksum"), "{what}");
        // No bytes of a damaged archive panic.
        let good = archive(&[("a.npy", &whole)], true);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x55;
            std::fs::write(&path, &bad).unwrap();
            let _ = open(&path, None);
        }
    }
}
