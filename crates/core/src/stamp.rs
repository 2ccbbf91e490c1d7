//! Whether a file is still what it was when its reading began.

use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

use crate::Error;

/// What tells one state of a file from another without reading it: which file it is, its length,
/// and when it was last written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    identity: (u64, u64),
    len: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    /// Of an open file.
    pub fn of(metadata: &Metadata) -> Self {
        Stamp {
            identity: identity(metadata),
            len: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }

    /// An error unless the file at `path` is still the same, as it was.
    pub fn check(&self, path: &Path) -> Result<(), Error> {
        match fs::metadata(path) {
            Ok(metadata) => self.compare(path, Stamp::of(&metadata)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(Error::changed(path, "it is gone"))
            }
            Err(error) => Err(Error::io(path, error)),
        }
    }

    /// The same for an open file, wherever its name leads by now.
    pub fn check_open(&self, file: &File, path: &Path) -> Result<(), Error> {
        let metadata = file.metadata().map_err(|e| Error::io(path, e))?;
        self.compare(path, Stamp::of(&metadata))
    }

    fn compare(&self, path: &Path, now: Stamp) -> Result<(), Error> {
        if now.identity != self.identity {
            return Err(Error::changed(path, "another file is in its place"));
        }
        if now.len != self.len {
            let (before, now) = (self.len, now.len);
            return Err(Error::changed(path, format!("it had {before} bytes and has {now}")));
        }
        match now == *self {
            true => Ok(()),
            false => Err(Error::changed(path, "it was written to")),
        }
    }
}

/// Runs `read`, which reads all it needs of the file at `path`, and refuses what it read if the file
/// changed meanwhile. That comes before what `read` complains of, which may be due to it.
pub fn steady<T>(path: &Path, read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let stamp = Stamp::of(&fs::metadata(path).map_err(|e| Error::io(path, e))?);
    let result = read();
    stamp.check(path)?;
    result
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

/// Without the numbers of devices and files, length and time have to do.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

#[cfg(test)]
mod tests {
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
        #[cfg(unix)]
        assert_eq!(refused(&replace), says("another file is in its place"));
        // A file that is open stays what it was, whatever has its name.
        let file = File::open(&path).unwrap();
        let stamp = Stamp::of(&file.metadata().unwrap());
        replace();
        assert!(stamp.check_open(&file, &path).is_ok());
        assert!(steady(&path, || Ok(())).is_ok());
        // What the reader complains of is due to the change.
        let both = steady::<()>(&path, || {
            fs::remove_file(&path).unwrap();
            Err(Error::format(&path, "damaged"))
        });
        assert_eq!(both.unwrap_err().to_string(), says("it is gone"));
    }
}
