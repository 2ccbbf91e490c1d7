//! The members of a tar file from any tool.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::Path;

use tar::EntryType;

use super::Stop;
use crate::Error;

/// Longest name in bytes. A name too long for a header comes in a member of its own; even longer
/// ones are an attack on memory.
const LONGEST_NAME: u64 = 1 << 16;
/// Largest text in bytes; captions and metadata are small.
const LARGEST_TEXT: u64 = 16 << 20;

/// A decompressed file, up to a size that only a decompression bomb exceeds.
pub(super) struct LimitedReader<R> {
    pub(super) bytes: R,
    pub(super) left: u64,
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            let what = "becomes more than 200 times as large; unpack it to a .tar if it is meant";
            io::Error::new(ErrorKind::InvalidData, what)
        })?;
        Ok(read)
    }
}

/// Calls `take` with every member and its name.
pub(super) fn each_member<R: Read>(
    bytes: R,
    mut take: impl FnMut(String, &mut tar::Entry<'_, R>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut archive = tar::Archive::new(bytes);
    let mut long_name: Option<String> = None;
    // Raw entries, because the crate would read names of any length into memory.
    for member in archive.entries()?.raw(true) {
        let mut member = member?;
        match member.header().entry_type() {
            EntryType::GNULongName => {
                let name = small(&mut member)?;
                long_name = Some(name.trim_end_matches('\0').to_owned());
            }
            EntryType::XHeader => long_name = pax_path(&small(&mut member)?).or(long_name),
            EntryType::GNULongLink | EntryType::XGlobalHeader => {}
            _ => {
                let in_header = String::from_utf8_lossy(&member.path_bytes()).into_owned();
                take(long_name.take().unwrap_or(in_header), &mut member)?;
            }
        }
    }
    Ok(())
}

fn small(member: &mut tar::Entry<'_, impl Read>) -> io::Result<String> {
    if member.size() > LONGEST_NAME {
        let what = format!("a header of {} bytes", member.size());
        return Err(io::Error::new(ErrorKind::InvalidData, what));
    }
    let mut bytes = Vec::new();
    member.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The path in the records of a pax header, one `LENGTH KEY=VALUE` per line.
fn pax_path(records: &str) -> Option<String> {
    let path = |record: &str| Some(record.split_once(' ')?.1.strip_prefix("path=")?.to_owned());
    records.lines().find_map(path)
}

/// Reads a small text. The inner error describes a bad one.
pub(super) fn text(member: &mut impl Read) -> io::Result<Result<String, String>> {
    let mut bytes = Vec::new();
    member.take(LARGEST_TEXT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_TEXT {
        return Ok(Err("more than 16 MB of text".to_owned()));
    }
    let text = String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned());
    Ok(text.map(|text| text.trim_start_matches('\u{feff}').to_owned()))
}

/// Writes a member to a new file. The inner error says why there can be no such file.
pub(super) fn unpack(
    member: &mut tar::Entry<'_, impl Read>,
    path: &Path,
) -> Result<Result<(), String>, Stop> {
    if member.size() == 0 {
        return Ok(Err("is empty".to_owned()));
    }
    let create = || {
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        // Never overwrite another member of the same name.
        File::create_new(path)
    };
    let mut file = match create() {
        Ok(file) => BufWriter::new(file),
        Err(e) => match e.kind() {
            ErrorKind::AlreadyExists => return Ok(Err("is there already".to_owned())),
            ErrorKind::InvalidFilename | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
                return Ok(Err(e.to_string()));
            }
            _ => return Err(Error::io(path, e).into()),
        },
    };
    let (size, mut done, mut buffer) = (member.size(), 0, vec![0; 1 << 16]);
    loop {
        let read = member.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        done += read as u64;
        file.write_all(&buffer[..read]).map_err(|e| Error::io(path, e))?;
    }
    file.flush().map_err(|e| Error::io(path, e))?;
    if done < size {
        std::fs::remove_file(path).map_err(|e| Error::io(path, e))?;
        let what = format!("cut off: a member has {done} of {size} bytes");
        return Err(io::Error::new(ErrorKind::UnexpectedEof, what).into());
    }
    Ok(Ok(()))
}
