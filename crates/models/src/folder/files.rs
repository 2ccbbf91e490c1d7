//! The files of a run: their names, how they are written, and who may write.

use std::fs;
use std::path::{Path, PathBuf};

use nextpair_data::{AtomicFile, FolderLock};
use serde::Serialize;

use crate::Error;

/// What was asked for. Older folders call it [`OLD_SPEC`].
pub(super) const SPEC: &str = "model.json";
pub(super) const OLD_SPEC: &str = "run.json";
pub(super) const VOCABULARY: &str = "vocabulary.json";
pub(super) const PAIRS: &str = "pairs.jsonl";
pub(super) const WEIGHTS: &str = "model.safetensors";

/// Where the spec of a folder is, or will be.
pub(super) fn spec_path(folder: &Path) -> PathBuf {
    let (path, old) = (folder.join(SPEC), folder.join(OLD_SPEC));
    if !path.exists() && old.exists() { old } else { path }
}

/// A run that was killed while it was made may be made again; what is not of a run stays alone.
pub(super) fn refuse_strangers(folder: &Path) -> Result<(), Error> {
    let io = |e| nextpair_data::Error::io(folder, e);
    for entry in fs::read_dir(folder).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let name = name.to_string_lossy();
        if ![VOCABULARY, PAIRS].contains(&&*name) && !name.starts_with('.') {
            let what = format!("holds {name}, which is not of a model; name a new folder");
            return Err(Error::file(folder, what));
        }
    }
    Ok(())
}

pub(super) fn lock(folder: &Path) -> Result<FolderLock, Error> {
    Ok(FolderLock::take(folder, "another process is training this model")?)
}

pub(super) fn push_line(
    lines: &mut Vec<u8>,
    line: &impl Serialize,
    path: &Path,
) -> Result<(), Error> {
    serde_json::to_writer(&mut *lines, line).map_err(|e| Error::file(path, e.to_string()))?;
    lines.push(b'\n');
    Ok(())
}

pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    Ok(AtomicFile::write_whole(path, bytes)?)
}
