//! Detects whether a file changed while it was read.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::SystemTime;

use crate::Error;
use crate::system::{self, Identity};

/// The identity, length and last write time of a file. They tell one state of a file from another
/// without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    identity: Identity,
    len: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    /// The stamp of an open file.
    pub fn of(file: &File) -> io::Result<Self> {
        system::look_into(file).map(Self::new)
    }

    /// The stamp of the file at `path`.
    pub fn at(path: &Path) -> io::Result<Self> {
        system::look_at(path).map(Self::new)
    }

    fn new((metadata, identity): (Metadata, Identity)) -> Self {
        Stamp { identity, len: metadata.len(), modified: metadata.modified().ok() }
    }

    /// Returns an error if the file at `path` was replaced or changed.
    pub fn check(&self, path: &Path) -> Result<(), Error> {
        match Stamp::at(path) {
            Ok(now) => self.compare(path, now),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(Error::changed(path, "it is gone"))
            }
            Err(error) => Err(Error::io(path, error)),
        }
    }

    /// The same check for an open file, whatever its name refers to by now.
    pub fn check_open(&self, file: &File, path: &Path) -> Result<(), Error> {
        let now = Stamp::of(file).map_err(|e| Error::io(path, e))?;
        self.compare(path, now)
    }

    fn compare(&self, path: &Path, now: Stamp) -> Result<(), Error> {
        if now.identity != self.identity {
            return Err(Error::changed(path, "another file is in its place"));
        }
        if now.len != self.len {
            let (before, now) = (self.len, now.len);
            return Err(Error::changed(path, format!("it had {before} bytes and has {now}")));
        }
        if now == *self { Ok(()) } else { Err(Error::changed(path, "it was written to")) }
    }
}

/// Runs `read`, which reads all it needs of the file at `path`, and discards its result if the file
/// changed meanwhile. The error about the change takes precedence over an error of `read`, which
/// the change may have caused.
pub fn steady<T>(path: &Path, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let stamp = Stamp::at(path).map_err(|e| Error::io(path, e))?;
    let result = read();
    stamp.check(path)?;
    result
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_change_while_reading_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let refused = |change: &dyn Fn()| {
            fs::write(&path, "before").unwrap();
            let error = steady(&path, || {
                change();
                Ok(())
            });
            error.unwrap_err().to_string()
        };
        let later = SystemTime::now() + Duration::from_secs(5);
        let write_to = || File::options().write(true).open(&path).unwrap().set_modified(later);
        let name = format!("{}: changed while it was read: ", path.display());
        let says = |what: &str| format!("{name}{what}; nothing was made of it");
        assert_eq!(refused(&|| write_to().unwrap()), says("it was written to"));
        let shorter = refused(&|| fs::write(&path, "now").unwrap());
        assert_eq!(shorter, says("it had 6 bytes and has 3"));
        assert_eq!(refused(&|| fs::remove_file(&path).unwrap()), says("it is gone"));
        let replace = || {
            fs::write(folder.path().join("other"), "before").unwrap();
            fs::rename(folder.path().join("other"), &path).unwrap();
        };
        assert_eq!(refused(&replace), says("another file is in its place"));
        // An open file stays the same, whatever file has its name now. Windows may refuse to replace it.
        if cfg!(unix) {
            let file = File::open(&path).unwrap();
            let stamp = Stamp::of(&file).unwrap();
            replace();
            assert!(stamp.check_open(&file, &path).is_ok());
        }
        assert!(steady(&path, || Ok(())).is_ok());
        // The change caused the reader's error.
        let both = steady::<()>(&path, || {
            fs::remove_file(&path).unwrap();
            Err(Error::format(&path, "damaged"))
        });
        assert_eq!(both.unwrap_err().to_string(), says("it is gone"));
    }
}
