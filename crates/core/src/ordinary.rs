//! Opening regular files only. Every path that a user names is opened here.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::{Error, system};

/// What is refused besides folders.
const SPECIAL: &str = "is a pipe, socket or device, expected an ordinary file";

/// Opens a file, following links. Folders, pipes, sockets and devices are refused before they are
/// opened: a pipe without a writer would block forever, and opening some devices has side effects.
pub fn open(path: &Path) -> Result<File, Error> {
    open_with(path, OpenOptions::new().read(true))
}

/// Opens a file with `options`, refusing the same things as [`open`]. The options may create a
/// file.
pub fn open_with(path: &Path, options: &mut OpenOptions) -> Result<File, Error> {
    match fs::metadata(path) {
        Ok(metadata) => check(path, &metadata)?,
        // The options decide whether a missing file is created.
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(Error::io(path, e)),
    }
    // Another kind of file may have taken the name meanwhile; opening it must not block either.
    system::do_not_wait(options);
    let io = |e| Error::io(path, e);
    let file = options.open(path).map_err(io)?;
    check(path, &file.metadata().map_err(io)?)?;
    // Where metadata does not tell them from files.
    if !system::is_ordinary(&file).map_err(io)? {
        return Err(Error::format(path, SPECIAL));
    }
    Ok(file)
}

/// Reads a file, up to the length it had when it was opened: endless system files report a length
/// of 0.
pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let file = open(path)?;
    let io = |e| Error::io(path, e);
    let length = file.metadata().map_err(io)?.len();
    let mut bytes = Vec::new();
    let room = usize::try_from(length).ok().filter(|&room| bytes.try_reserve_exact(room).is_ok());
    if room.is_none() {
        return Err(Error::format(path, format!("{length} bytes do not fit into memory")));
    }
    file.take(length).read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

/// Reads a file that may not exist.
pub fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match read(path) {
        Err(Error::Io { error, .. }) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Reads a text file.
pub fn read_text(path: &Path) -> Result<String, Error> {
    String::from_utf8(read(path)?).map_err(|_| Error::format(path, "not UTF-8"))
}

fn check(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    if metadata.is_dir() {
        return Err(Error::format(path, "is a folder, expected a file"));
    }
    if !metadata.is_file() {
        return Err(Error::format(path, SPECIAL));
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;
    use crate::{FolderLock, fingerprint_of, mapping};

    #[test]
    fn only_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        let _socket = UnixListener::bind(at("socket")).unwrap();
        symlink(at("pipe"), at("link to pipe")).unwrap();
        let device = Path::new("/dev/zero").to_path_buf();
        let special = ["pipe", "link to pipe", "socket"].map(at).into_iter().chain([device]);
        for (path, expected) in special
            .map(|path| (path, "is a pipe, socket or device, expected an ordinary file"))
            .chain([(folder.path().to_path_buf(), "is a folder, expected a file")])
        {
            for refused in [
                open(&path).err(),
                open_with(&path, OpenOptions::new().append(true).create(true)).err(),
                read(&path).err(),
                read_if_there(&path).err(),
                read_text(&path).err(),
                fingerprint_of(&path).err(),
                FolderLock::named(folder.path(), path.to_str().unwrap(), "busy").err(),
                mapping::map(&path).err(),
            ] {
                let what = refused.expect("nothing to open").to_string();
                assert_eq!(what, format!("{}: {expected}", path.display()));
            }
        }
        fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        for name in ["file", "link"] {
            assert_eq!(read_text(&at(name)).unwrap(), "text");
        }
        open_with(&at("new"), OpenOptions::new().append(true).create(true)).unwrap();
        assert_eq!(read_if_there(&at("new")).unwrap(), Some(Vec::new()));
        assert_eq!(read_if_there(&at("missing")).unwrap(), None);
        fs::write(at("bytes"), b"\xff").unwrap();
        let what = read_text(&at("bytes")).unwrap_err().to_string();
        assert!(what.ends_with("bytes: not UTF-8"), "{what}");
        assert!(matches!(open(&at("missing")), Err(Error::Io { .. })));
    }
}
