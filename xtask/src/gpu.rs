//! `cargo xtask test gpu [ORACLE]`: what a machine with a GPU must pass.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{bench, cargo, succeed};

/// Packages whose tests run on every device, and the filter of those that do.
const TESTED: [(&str, &str); 5] = [
    ("nextpair-cuda", ""),
    ("nextpair-kernels", ""),
    ("nextpair-models", ""),
    ("nextpair-engine", "device"),
    ("nextpair-scenario", "together"),
];

const PRECISIONS: [&str; 3] = ["fp32", "tf32", "fp16"];

pub(crate) fn test(oracle: Option<&Path>) -> Result<()> {
    if let Some(oracle) = oracle {
        ensure!(oracle.is_dir(), "{}: no such folder", oracle.display());
    }
    let binary = bench::build_nextpair()?;
    if let Some(why) = unusable(&binary)? {
        // A pipeline that asks for this wants to know that nothing was tested.
        if std::env::var("CI").is_ok_and(|value| value == "true") {
            bail!("there is no GPU to test: {why}");
        }
        eprintln!("there is no GPU to test: {why}");
        return Ok(());
    }
    for (package, filter) in TESTED {
        eprintln!("== {package}");
        let mut tests = cargo(&["test", "--release", "--locked", "--package", package]);
        succeed(tests.args((!filter.is_empty()).then_some(filter)))?;
    }
    for (oracle, precision) in oracle.iter().flat_map(|&oracle| PRECISIONS.map(|p| (oracle, p))) {
        eprintln!("== verify in {precision}");
        let mut verify = Command::new(&binary);
        verify.arg("verify").arg(oracle).args(["--device", "cuda", "--precision", precision]);
        succeed(&mut verify)?;
    }
    eprintln!("== bench");
    succeed(Command::new(&binary).args(["bench", "--quick", "--device", "cuda"]))
}

/// Returns why no GPU can be used here, if none can.
fn unusable(binary: &Path) -> Result<Option<String>> {
    // A refusal of the device comes before that of the file.
    let mut asked = Command::new(binary);
    asked.args(["verify", "/dev/null", "--device", "cuda"]);
    let output = asked.output().with_context(|| binary.display().to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find_map(|line| line.strip_prefix("error: --device cuda: "));
    Ok(line.map(str::to_owned))
}
