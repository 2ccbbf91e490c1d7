//! A dataset under construction: a folder beside its final place, renamed when it is complete.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::{MANIFEST, Manifest};
use crate::{AtomicFile, Error, remove_folder, rename, system};

/// The folder `.NAME.partial`. Nothing is visible under `NAME` until [`finish`].
///
/// Dropping a draft removes the folder, unless it can be continued. A kill leaves the folder
/// behind, and the next run of the same import clears or continues it.
///
/// [`finish`]: Self::finish
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    target: PathBuf,
    folder: PathBuf,
    lock_path: PathBuf,
    lock: File,
    keep: bool,
    /// The files of which one marks a dataset that this one may replace.
    replaces: &'a [&'a str],
}

impl<'a> Draft<'a> {
    /// Starts or continues the draft of `target`, which must not exist yet.
    pub(crate) fn open(target: &Path) -> Result<Self, Error> {
        Self::start(target, &[])
    }

    /// Starts the draft of `target`. It may replace a dataset that contains one of the files `marks`.
    pub(crate) fn replacing(target: &Path, marks: &'a [&'a str]) -> Result<Self, Error> {
        Self::start(target, marks)
    }

    fn start(target: &Path, replaces: &'a [&'a str]) -> Result<Self, Error> {
        let Some(name) = target.file_name().and_then(|name| name.to_str()) else {
            return Err(Error::format(target, "is not the name of a folder"));
        };
        // The lock file lies beside the folder, so that renaming the folder does not release it.
        let lock_path = target.with_file_name(format!(".{name}.lock"));
        let left_by_us = lock_path.exists();
        let open = File::options().write(true).create(true).truncate(false).open(&lock_path);
        let lock = open.map_err(|e| Error::making(target, e))?;
        nextpair_core::lock(&lock, target, "is being written by another process")?;
        let folder = Self::place(target);
        let target = target.to_path_buf();
        let mut draft = Draft { target, folder, lock_path, lock, keep: true, replaces };
        let target = draft.target.as_path();
        let refused = match (fs::symlink_metadata(target), fs::symlink_metadata(&draft.folder)) {
            (Ok(_), _) if !draft.may_replace(target) => {
                Some((target, "exists already; name a new folder, or remove it"))
            }
            (_, Ok(found)) if !(found.is_dir() && left_by_us) => {
                Some((draft.folder.as_path(), "is in the way, and was not left by an import"))
            }
            _ => None,
        };
        if let Some((path, what)) = refused {
            let _ = fs::remove_file(&draft.lock_path);
            return Err(Error::format(path, what));
        }
        // What a kill left unfinished would become part of the dataset.
        if draft.folder.is_dir() {
            AtomicFile::remove_unfinished(&draft.folder)?;
        }
        // Not `create_dir_all`: a mistyped path should be an error, not a new tree.
        draft.keep = false;
        match fs::create_dir(&draft.folder) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(Error::io(target, e)),
            _ => Ok(draft),
        }
    }

    /// Removes what earlier drafts left, and returns a free name for the dataset that is replaced. A kill between the
    /// two renames leaves one, and so does Windows if somebody had it open; then another name is taken.
    fn earlier(&self) -> Result<PathBuf, Error> {
        let name = self.target.file_name().unwrap_or_default().to_string_lossy();
        let place = |end: &str| self.target.with_file_name(format!(".{name}.earlier{end}"));
        let mut free = self.remove(&place("")).map(|()| place(""));
        for end in ["-2", "-3", "-4"] {
            let removed = self.remove(&place(end));
            if matches!(free, Err(Error::InUse { .. })) {
                free = removed.map(|()| place(end));
            }
        }
        free
    }

    /// Returns the folder of the draft of `target`.
    pub(crate) fn place(target: &Path) -> PathBuf {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        target.with_file_name(format!(".{name}.partial"))
    }

    /// Returns whether `path` is a dataset that this one may replace.
    fn may_replace(&self, path: &Path) -> bool {
        let folder = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        let marked = self.replaces.iter().any(|mark| path.join(mark).is_file());
        folder && marked && path.join(MANIFEST).is_file()
    }

    /// Removes the replaced dataset, or the rest of it after a kill. Its mark may be gone by then,
    /// but only drafts make folders of this name.
    fn remove(&self, earlier: &Path) -> Result<(), Error> {
        let found = fs::symlink_metadata(earlier).is_ok_and(|found| found.is_dir());
        if found && !self.replaces.is_empty() { remove_folder(earlier) } else { Ok(()) }
    }

    /// The folder to write files to.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes the files of an earlier run.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        let fail = |e| Error::io(&self.folder, e);
        for entry in fs::read_dir(&self.folder).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let path = entry.path();
            let is_folder = entry.file_type().map_err(fail)?.is_dir();
            let removed =
                if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(|e| Error::io(&path, e))?;
        }
        Ok(())
    }

    /// Keeps the folder even if the import fails, so that the next run can continue it.
    pub(crate) fn keep(&mut self) {
        self.keep = true;
    }

    /// Writes the manifest, with fingerprints of the features, and gives the dataset its name.
    pub(crate) fn finish(mut self, manifest: &Manifest) -> Result<(), Error> {
        let mut manifest = manifest.clone();
        manifest.features.iter_mut().try_for_each(|set| set.seal(&self.folder))?;
        manifest.write(&self.folder.join(MANIFEST))?;
        let earlier = self.earlier()?;
        let replaced = self.may_replace(&self.target);
        if replaced {
            rename(&self.target, &earlier)?;
        }
        if let Err(error) = rename(&self.folder, &self.target) {
            if replaced {
                // If this fails as well, the next run still finds it.
                let _ = rename(&earlier, &self.target);
            }
            return Err(error);
        }
        self.keep = false;
        // The new one is in place. If another program has the old one open, the next draft removes its rest.
        let _ = self.remove(&earlier);
        if let Some(parent) = self.target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            system::sync_folder(parent).map_err(|e| Error::io(&self.target, e))?;
        }
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.keep {
            // Drop cannot report an error; the next run clears the folder.
            let _ = fs::remove_dir_all(&self.folder);
            let _ = fs::remove_file(&self.lock_path);
        }
        let _ = system::unlock(&self.lock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_files_do_not_become_part_of_a_dataset() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("ds");
        let mut draft = Draft::open(&target).unwrap();
        draft.keep();
        let [unfinished, whole] =
            [".nextpair-a1b2c3", "items.jsonl"].map(|name| draft.folder().join(name));
        fs::write(&unfinished, "half").unwrap();
        fs::write(&whole, "").unwrap();
        drop(draft);
        let draft = Draft::open(&target).unwrap();
        assert!(!unfinished.exists() && whole.exists());
        draft.finish(&Manifest::new("ds", "a test")).unwrap();
        assert!(target.join("items.jsonl").exists());
    }
}
