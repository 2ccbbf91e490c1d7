//! Output files that appear whole or not at all.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::{Error, system};

/// Prefix of the names of temporary files.
const TEMPORARY: &str = ".nextpair-";

/// A file that appears under its name only when it is complete.
///
/// Writes go to a temporary file in the same folder. [`commit`](Self::commit) renames it to its
/// final name. If it is dropped before that, the temporary file is removed and any older file of
/// the name stays as it was.
#[derive(Debug)]
pub struct AtomicFile {
    target: PathBuf,
    writer: BufWriter<NamedTempFile>,
}

impl AtomicFile {
    /// Starts to write the file `path`.
    pub fn create(path: &Path) -> Result<Self, Error> {
        // The final rename would replace a device such as /dev/null as readily as a file.
        if let Ok(existing) = fs::metadata(path) {
            if existing.is_dir() {
                return Err(Error::io(path, ErrorKind::IsADirectory.into()));
            }
            if !existing.is_file() {
                return Err(Error::format(path, "exists and is not an ordinary file"));
            }
        }
        // We create the file ourselves: tempfile makes it readable by its owner alone, and the file
        // would keep those permissions under its final name.
        let open =
            |temporary: &Path| OpenOptions::new().write(true).create_new(true).open(temporary);
        let file = tempfile::Builder::new()
            .prefix(TEMPORARY)
            .make_in(folder(path), open)
            .map_err(|e| Error::making(path, e))?;
        Ok(AtomicFile { target: path.to_path_buf(), writer: BufWriter::new(file) })
    }

    /// Writes a whole file.
    pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let mut file = Self::create(path)?;
        file.write_all(bytes).map_err(|e| Error::io(path, e))?;
        file.commit()
    }

    /// Returns an error if `path` cannot be written now. Long jobs call this first: they fail at
    /// once, and a job that is killed later leaves no temporary file behind.
    pub fn check(path: &Path) -> Result<(), Error> {
        Self::create(path).map(drop)
    }

    /// Removes the temporary files that killed processes left in a folder. No other process may be
    /// writing there.
    pub fn remove_unfinished(folder: &Path) -> Result<(), Error> {
        let remove = || {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
                    fs::remove_file(entry.path())?;
                }
            }
            Ok(())
        };
        remove().map_err(|e| Error::io(folder, e))
    }

    /// Renames the file into place and returns once it would survive a power loss.
    ///
    /// # Errors
    /// [`Error::InUse`] on Windows, if a file of the name is mapped. It stays as it was.
    pub fn commit(self) -> Result<(), Error> {
        let AtomicFile { target, writer } = self;
        let write = || {
            let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.as_file().sync_all()?;
            Ok(file.into_temp_path())
        };
        let mut temporary = write().map_err(|e| Error::io(&target, e))?;
        rename(&temporary, &target)?;
        temporary.disable_cleanup(true);
        // The name is stored in the folder, not in the file.
        system::sync_folder(folder(&target)).map_err(|e| Error::io(&target, e))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Renames a file or folder. A file replaces a file of its new name.
///
/// # Errors
/// [`Error::InUse`] on Windows, if a file is mapped that would be replaced or lies in the folder.
pub fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(|error| refused(to, error))
}

/// Removes a folder with all that is in it.
///
/// # Errors
/// [`Error::InUse`] on Windows, if a file in it is open or mapped. What is left of the folder stays.
pub fn remove_folder(folder: &Path) -> Result<(), Error> {
    fs::remove_dir_all(folder).map_err(|error| refused(folder, error))
}

fn refused(path: &Path, error: io::Error) -> Error {
    if system::is_in_use(&error) {
        Error::InUse { path: path.to_path_buf(), error }
    } else {
        Error::io(path, error)
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_appears_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.txt");
        fs::write(&path, "old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert!(names(folder.path()).iter().any(|name| name.starts_with(".nextpair-")));
        file.commit().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(names(folder.path()), ["out.txt"]);
    }

    #[test]
    fn what_is_not_committed_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = AtomicFile::create(&folder.path().join("out.txt")).unwrap();
        file.write_all(&[0; 100_000]).unwrap();
        drop(file);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn what_a_killed_process_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let keep = folder.path().join("out.txt");
        fs::write(&keep, "").unwrap();
        let mut file = AtomicFile::create(&keep).unwrap();
        file.write_all(&[0; 100]).unwrap();
        file.writer.get_mut().disable_cleanup(true);
        drop(file);
        assert_eq!(names(folder.path()).len(), 2);
        AtomicFile::remove_unfinished(folder.path()).unwrap();
        assert_eq!(names(folder.path()), ["out.txt"]);
        assert!(AtomicFile::remove_unfinished(&keep).is_err());
    }

    #[test]
    fn a_mapped_file_is_replaced_or_said_to_be_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.txt");
        fs::write(&path, "old").unwrap();
        let mapped = crate::mapping::map(&path).unwrap();
        let replaced = AtomicFile::write_whole(&path, b"new");
        assert_eq!(mapped.as_slice(), b"old");
        if cfg!(unix) {
            replaced.unwrap();
        } else {
            assert!(matches!(&replaced, Err(Error::InUse { path: of, .. }) if *of == path));
            let what = replaced.unwrap_err().to_string();
            assert!(
                what.contains(
                    "out.txt: cannot be replaced or removed; perhaps a program has it open"
                ),
                "{what}"
            );
            assert_eq!(fs::read(&path).unwrap(), b"old");
            drop(mapped);
            AtomicFile::write_whole(&path, b"new").unwrap();
        }
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["out.txt"]);
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_the_usual_ones() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (path, usual) = (folder.path().join("a"), folder.path().join("b"));
        AtomicFile::create(&path).unwrap().commit().unwrap();
        fs::write(&usual, "").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&usual));
    }

    #[test]
    fn impossible_places_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("no/out.txt");
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = AtomicFile::create(&missing).unwrap_err().to_string();
        let said = format!(
            "{}: there is no such folder for out.txt; make it",
            missing.parent().unwrap().display()
        );
        assert!(error.starts_with(&said), "{error}");
        for target in [folder.path(), &file.join("out.txt")] {
            let error = AtomicFile::create(target).unwrap_err();
            assert!(matches!(&error, Error::Io { path, .. } if path == target), "{error}");
            assert!(!error.to_string().contains(".nextpair-"), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_not_replaced() {
        let what = AtomicFile::create(Path::new("/dev/null")).unwrap_err().to_string();
        assert_eq!(what, "/dev/null: exists and is not an ordinary file");
    }
}
