//! Fuzzes the readers of untrusted files with libFuzzer.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use crate::{cargo, succeed};

const TARGETS: [&str; 8] =
    ["npy", "safetensors", "parquet", "picture", "caption", "import", "pth", "answers"];

/// Runs all targets, which share the time.
pub(crate) fn run(seconds: u64) -> Result<()> {
    let each = seconds / TARGETS.len() as u64;
    ensure!(each > 0, "{seconds} seconds are too few for {} targets", TARGETS.len());
    install()?;
    for target in TARGETS {
        eprintln!("== fuzz {target} for {each} s");
        let corpus = format!("fuzz/corpus/{target}");
        std::fs::create_dir_all(&corpus)?;
        let seeds = format!("fuzz/seeds/{target}");
        ensure!(Path::new(&seeds).is_dir(), "{seeds} is missing");
        // Without a sanitizer, it runs on the stable toolchain. Our readers are safe Rust.
        let mut fuzz = cargo(&["fuzz", "run", "--sanitizer", "none", target, &corpus, &seeds]);
        succeed(fuzz.args(["--", &format!("-max_total_time={each}"), "-rss_limit_mb=2048"]))?;
    }
    Ok(())
}

/// Installs cargo-fuzz if it is missing.
fn install() -> Result<()> {
    let version = Command::new("cargo")
        .args(["fuzz", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if version.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    eprintln!("== installing cargo-fuzz");
    succeed(&mut cargo(&["install", "--locked", "cargo-fuzz"]))
}
