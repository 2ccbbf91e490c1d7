//! Compiled kernels on disk. Whatever goes wrong here costs a compilation and nothing else.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use sha2::{Digest, Sha256};

/// What a compilation depends on, as one name.
pub(crate) fn key(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn folder() -> Option<PathBuf> {
    let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || Some(Path::new(&env::var_os("HOME")?).join(".cache"));
    Some(base.or_else(home)?.join("nextpair").join("kernels"))
}

/// The length of a checksum, which is the head of every file.
const CHECKSUM: usize = 32;

pub(crate) fn read(key: &str) -> Option<Vec<u8>> {
    let bytes = fs::read(folder()?.join(key)).ok()?;
    let (checksum, image) = bytes.split_at_checked(CHECKSUM)?;
    (Sha256::digest(image).as_slice() == checksum).then(|| image.to_vec())
}

pub(crate) fn write(key: &str, image: &[u8]) {
    let Some(folder) = folder() else { return };
    // Two processes may compile the same kernels: each has a file of its own until it is whole.
    let draft = folder.join(format!("{key}.{}", process::id()));
    let bytes = [Sha256::digest(image).as_slice(), image].concat();
    let written = fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&draft, bytes))
        .and_then(|()| fs::rename(&draft, folder.join(key)));
    if written.is_err() {
        let _ = fs::remove_file(draft);
    }
}
