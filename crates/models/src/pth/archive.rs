//! The format of PyTorch since 1.6: a zip archive with a pickle and one member per storage.

use std::io::{self, Cursor};

use zip::{CompressionMethod, ZipArchive};

use super::pickle::Pickle;

/// First bytes of a zip archive.
pub(super) const MAGIC: &[u8] = b"PK\x03\x04";

/// An archive. Its members are not compressed, so that they can be used in place.
pub(super) struct Archive<'a> {
    bytes: &'a [u8],
    zip: ZipArchive<Cursor<&'a [u8]>>,
    /// The folder that holds all members.
    folder: String,
}

impl<'a> Archive<'a> {
    /// Reads the pickle of a file that starts with [`MAGIC`].
    pub(super) fn read(bytes: &'a [u8]) -> Result<(Pickle, Archive<'a>), String> {
        let zip = ZipArchive::new(Cursor::new(bytes)).map_err(|e| e.to_string())?;
        let names = zip.file_names().flatten();
        let folder = names.filter_map(|name| name.strip_suffix("/data.pkl").map(str::to_owned));
        let folder = folder.min().ok_or("a zip archive without data.pkl, not a checkpoint")?;
        let mut archive = Archive { bytes, zip, folder };
        // PyTorch before 2.1 did not write the byte order.
        if archive.contains("byteorder") && archive.member("byteorder")? != b"little" {
            return Err("was not written on a little-endian machine".into());
        }
        let (pickle, _) = Pickle::read(archive.member("data.pkl")?)?;
        Ok((pickle, archive))
    }

    /// The bytes of a storage.
    pub(super) fn storage(&mut self, key: &str) -> Result<&'a [u8], String> {
        self.member(&format!("data/{key}"))
    }

    fn contains(&self, name: &str) -> bool {
        self.zip.index_for_name(&format!("{}/{name}", self.folder)).is_some()
    }

    fn member(&mut self, name: &str) -> Result<&'a [u8], String> {
        let name = format!("{}/{name}", self.folder);
        let fail = |what: String| format!("{name} in the archive: {what}");
        let mut member = self.zip.by_name(&name).map_err(|e| fail(e.to_string()))?;
        if member.compression() != CompressionMethod::Stored {
            return Err(fail("is compressed, which PyTorch's are not".into()));
        }
        let start = member.data_start().and_then(|start| usize::try_from(start).ok());
        // Reads to the end and keeps nothing, to verify the checksum.
        let length = io::copy(&mut member, &mut io::sink()).map_err(|e| fail(e.to_string()))?;
        start
            .zip(usize::try_from(length).ok())
            .and_then(|(start, length)| self.bytes.get(start..)?.get(..length))
            .ok_or_else(|| fail("lies outside the file".into()))
    }
}
