//! Python environments of our own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::succeed;

/// Returns a Python with `requirements` installed, in `folder`. It is created once, and again when
/// the requirements change.
pub(crate) fn environment(folder: &Path, requirements: &str) -> Result<PathBuf> {
    let (python, installed) = (folder.join("bin/python"), folder.join("requirements.txt"));
    let wanted = std::fs::read_to_string(requirements).context(requirements.to_owned())?;
    if std::fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(python);
    }
    eprintln!("installing {requirements} into {}", folder.display());
    succeed(Command::new("python3").args(["-m", "venv"]).arg(folder))
        .context("python3 with its venv module is needed")?;
    let mut pip = Command::new(&python);
    succeed(pip.args(["-m", "pip", "install", "--quiet", "-r", requirements]))
        .with_context(|| format!("pip could not install {requirements}"))?;
    std::fs::write(&installed, wanted).with_context(|| installed.display().to_string())?;
    Ok(python)
}
