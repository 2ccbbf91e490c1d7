//! A dataset in the making: a folder beside its final place, which it takes when it is whole.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::{MANIFEST, Manifest};
use crate::Error;

/// The file whose lock says that somebody is writing the draft.
const LOCK: &str = ".lock";

/// The folder `.NAME.partial`, of which nothing is visible under `NAME` until [`finish`].
///
/// It is removed when it is dropped, unless it can be continued: a kill leaves it behind, and the
/// next run of the same import clears it or goes on with it.
///
/// [`finish`]: Self::finish
#[derive(Debug)]
pub(crate) struct Draft {
    target: PathBuf,
    folder: PathBuf,
    lock: File,
    keep: bool,
}

impl Draft {
    /// Starts or continues the draft of `target`, which must not exist yet.
    pub(crate) fn open(target: &Path) -> Result<Self, Error> {
        if fs::symlink_metadata(target).is_ok() {
            return Err(Error::format(target, "exists already; name a new folder, or remove it"));
        }
        let Some(name) = target.file_name().and_then(|name| name.to_str()) else {
            return Err(Error::format(target, "is not the name of a folder"));
        };
        let folder = target.with_file_name(format!(".{name}.partial"));
        // Not `create_dir_all`: a mistyped path should be an error, not a new tree.
        match fs::create_dir(&folder) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(Error::io(target, e));
            }
            _ => {}
        }
        let path = folder.join(LOCK);
        let lock = File::create(&path).map_err(|e| Error::io(&path, e))?;
        if lock.try_lock().is_err() {
            return Err(Error::format(target, "is being written by another process"));
        }
        Ok(Draft { target: target.to_path_buf(), folder, lock, keep: false })
    }

    /// Where the files go for now.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes what an earlier run left.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        let fail = |e| Error::io(&self.folder, e);
        for entry in fs::read_dir(&self.folder).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            if entry.file_name() == LOCK {
                continue;
            }
            let path = entry.path();
            match entry.file_type().map_err(fail)?.is_dir() {
                true => fs::remove_dir_all(&path),
                false => fs::remove_file(&path),
            }
            .map_err(|e| Error::io(&path, e))?;
        }
        Ok(())
    }

    /// Leaves the folder where it is when this ends in an error: the next run goes on with it.
    pub(crate) fn keep(&mut self) {
        self.keep = true;
    }

    /// Writes the manifest and gives the dataset its name.
    pub(crate) fn finish(mut self, manifest: &Manifest) -> Result<(), Error> {
        manifest.write(&self.folder.join(MANIFEST))?;
        let lock = self.folder.join(LOCK);
        fs::remove_file(&lock).map_err(|e| Error::io(&lock, e))?;
        fs::rename(&self.folder, &self.target).map_err(|e| Error::io(&self.target, e))?;
        self.keep = true;
        #[cfg(unix)]
        if let Some(parent) = self.target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            let sync = || File::open(parent)?.sync_all();
            sync().map_err(|e| Error::io(&self.target, e))?;
        }
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.keep {
            // An error on the way out of an error has nobody to tell; the next run clears it.
            let _ = fs::remove_dir_all(&self.folder);
        }
        let _ = self.lock.unlock();
    }
}
