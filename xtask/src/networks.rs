//! Compares what `embed` computes of random networks with ONNX Runtime.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::test::programs;
use crate::{python, succeed};

const REQUIREMENTS: &str = "xtask/networks-requirements.txt";
const SCRIPT: &str = "xtask/networks.py";
const FOLDER: &str = "target/networks";
/// Always the same networks: with these, even 250 use every operator with every attribute.
const SEED: &str = "1";
/// The test that reads the folder.
const TEST: &str = "networks_give_what_onnx_runtime_gives";

/// Makes `count` networks and runs them. Fails if one differs, or if an operator, an attribute or a word
/// for one that `embed` accepts is in none of them.
pub(crate) fn run(count: usize) -> Result<()> {
    let python = python::environment(Path::new("target/networks-venv"), REQUIREMENTS)?;
    let folder = Path::new(FOLDER);
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    succeed(Command::new(python).arg(SCRIPT).arg(folder).arg(count.to_string()).arg(SEED))?;
    let folder = folder.canonicalize().context(FOLDER)?;
    for (program, _) in programs(&["encode"])? {
        let mut tests = Command::new(program);
        succeed(tests.args([TEST, "--ignored", "--nocapture"]).env("NEXTPAIR_NETWORKS", &folder))?;
    }
    Ok(())
}
