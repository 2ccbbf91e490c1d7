//! Opening files, and nothing that only looks like one.

use std::fs::{self, File};
use std::path::Path;

use crate::Error;

/// Opens a file, through links. Folders, pipes, sockets and devices are refused before they are
/// opened: a pipe that nobody writes to would be waited for without end, and opening some devices
/// already does something.
pub fn open(path: &Path) -> Result<File, Error> {
    let metadata = fs::metadata(path).map_err(|e| Error::io(path, e))?;
    if metadata.is_dir() {
        return Err(Error::format(path, "is a folder, expected a file"));
    }
    if !metadata.is_file() {
        return Err(Error::format(path, "is a pipe, socket or device, expected an ordinary file"));
    }
    File::open(path).map_err(|e| Error::io(path, e))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;
    use crate::{lines::Lines, mapping, picture};

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
                picture::probe(&path).err(),
                picture::read(&path).err(),
                mapping::map(&path).err(),
                Lines::all(&path).err(),
            ] {
                let what = refused.expect("nothing to open").to_string();
                assert_eq!(what, format!("{}: {expected}", path.display()));
            }
        }
        fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        for name in ["file", "link"] {
            assert_eq!(Lines::all(&at(name)).unwrap(), ["text"]);
        }
        assert!(matches!(open(&at("missing")), Err(Error::Io { .. })));
    }
}
