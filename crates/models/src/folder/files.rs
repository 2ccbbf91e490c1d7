//! The files of a model folder: their names, how to write them, and who may.

use std::fs;
use std::path::Path;

use nextpair_data::{AtomicFile, FolderLock};
use serde::Serialize;

use crate::Error;

/// The resolved settings.
pub(super) const SPEC: &str = "model.json";
pub(super) const VOCABULARY: &str = "vocabulary.json";
pub(crate) const PAIRS: &str = "pairs.jsonl";
pub(super) const WEIGHTS: &str = "model.safetensors";
pub(super) const START: &str = "start.safetensors";

/// Rejects a folder with foreign files. Files of a creation that was killed may be overwritten.
pub(super) fn refuse_strangers(folder: &Path) -> Result<(), Error> {
    let io = |e| nextpair_data::Error::io(folder, e);
    for entry in fs::read_dir(folder).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let name = name.to_string_lossy();
        if ![VOCABULARY, PAIRS, START].contains(&&*name) && !name.starts_with('.') {
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
