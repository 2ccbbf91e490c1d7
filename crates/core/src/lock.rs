//! Locks that let only one process at a time write to a folder.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use crate::{AtomicFile, Error, ordinary, system};

const NAME: &str = ".lock";

/// Attempts to take a lock. A released lock lasts a moment longer while a child process starts, which has the file open
/// until it becomes another program. [`FolderLock::is_held`] shares the lock for a moment. (Many such calls without a pause
/// could keep it for all tries.)
const TRIES: usize = 10;
const PAUSE: Duration = Duration::from_millis(10);

/// The right to write to a folder for as long as this value lives. The system releases the locks of
/// killed processes.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Takes the lock and removes the unfinished files of killed processes. If another process
    /// holds the lock, the error is [`Error::Busy`], and `busy` says what that process is doing.
    pub fn take(folder: &Path, busy: &str) -> Result<Self, Error> {
        let lock = Self::named(folder, NAME, busy)?;
        AtomicFile::remove_unfinished(folder)?;
        Ok(lock)
    }

    /// Takes another lock of the folder: the file of this name. It does not keep other processes
    /// from writing; its meaning is up to the programs that know its name.
    pub fn named(folder: &Path, name: &str, busy: &str) -> Result<Self, Error> {
        let options = &mut File::options();
        let options = options.create(true).truncate(false).write(true);
        let file = ordinary::open_with(&folder.join(name), options)?;
        lock(&file, folder, busy)?;
        Ok(FolderLock { _file: file })
    }

    /// Returns whether a process holds the lock of a folder. `None` if that cannot be told.
    pub fn is_held(folder: &Path) -> Option<bool> {
        system::is_locked(&folder.join(NAME))
    }
}

/// Takes the lock of an open file that stands for the file or folder `path`, or returns soon. If another process holds
/// it, the error is [`Error::Busy`], and `busy` says what that process is doing. Some file systems have no locks.
pub fn lock(file: &File, path: &Path, busy: &str) -> Result<(), Error> {
    let mut locked = system::try_lock(file);
    for _ in 0..TRIES {
        if !matches!(locked, Err(TryLockError::WouldBlock)) {
            break;
        }
        std::thread::sleep(PAUSE);
        locked = system::try_lock(file);
    }
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => Error::Busy { path: path.to_path_buf(), what: busy.to_owned() },
        TryLockError::Error(error) => {
            let what = format!("cannot be locked: {error}; does its file system have locks?");
            Error::io(path, std::io::Error::new(error.kind(), what))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(".nextpair-x"), "left").unwrap();
        assert_eq!(FolderLock::is_held(folder.path()), Some(false));
        let held = FolderLock::take(folder.path(), "somebody is at it").unwrap();
        assert!(!folder.path().join(".nextpair-x").exists());
        assert_eq!(FolderLock::is_held(folder.path()), Some(true));
        let what = FolderLock::take(folder.path(), "somebody is at it").unwrap_err().to_string();
        assert!(what.ends_with(": somebody is at it"), "{what}");
        let _other = FolderLock::named(folder.path(), ".other", "").unwrap();
        let busy = FolderLock::named(folder.path(), ".other", "too late");
        assert!(matches!(busy, Err(Error::Busy { what, .. }) if what == "too late"));
        drop(held);
        drop(FolderLock::take(folder.path(), "").unwrap());
    }

    #[test]
    fn lock_queries_do_not_block_takers() {
        let folder = tempfile::tempdir().unwrap();
        let taken = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !taken.load(std::sync::atomic::Ordering::Relaxed) {
                        FolderLock::is_held(folder.path());
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
            }
            let takes = (0..20).all(|_| FolderLock::take(folder.path(), "").is_ok());
            taken.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(takes);
        });
    }
}
