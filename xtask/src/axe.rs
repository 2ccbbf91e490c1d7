//! axe-core, which looks for barriers in pages. Browser tests run it in the pages that they open.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::succeed;

/// The package, and the SHA-256 of its archive.
const VERSION: &str = "4.14.0";
const SHA_256: &str = "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af";
/// Where the tests look for its script: `package/axe.min.js`.
const FOLDER: &str = "target/axe-core";

/// Fetches the package with npm, once, and checks that it is the one that we know.
pub(crate) fn ensure_fetched() -> Result<()> {
    let folder = Path::new(FOLDER);
    let marker = folder.join("version");
    if fs::read_to_string(&marker).is_ok_and(|known| known == VERSION) {
        return Ok(());
    }
    eprintln!("fetching axe-core {VERSION}");
    fs::create_dir_all(folder).with_context(|| FOLDER.to_owned())?;
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", "--pack-destination", FOLDER]);
    succeed(npm.arg(format!("axe-core@{VERSION}"))).context("npm could not fetch axe-core")?;
    let archive = folder.join(format!("axe-core-{VERSION}.tgz"));
    let sum = Command::new("sha256sum").arg(&archive).output().context("sha256sum")?;
    let sum = String::from_utf8_lossy(&sum.stdout).into_owned();
    ensure!(sum.starts_with(SHA_256), "{}: not the known archive: {sum}", archive.display());
    succeed(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(folder))?;
    fs::write(&marker, VERSION).with_context(|| marker.display().to_string())
}
