//! The machine and versions behind a record, without names or folders of the machine.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

pub(super) fn describe() -> Result<Value> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_string())
    };
    let flags = field("flags").unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|f| f == flag);
    let features: Vec<&str> = ["avx2", "fma", "avx512f", "avx512_vnni", "amx_int8"]
        .into_iter()
        .filter(|f| has(f))
        .collect();
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).map(str::trim);
    Ok(json!({
        "cpu": field("model name"),
        "family_model": format!(
            "{}/{}",
            field("cpu family").unwrap_or_default(),
            field("model\t").unwrap_or_default()
        ),
        "features": features,
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": memory,
        "system": std::env::consts::OS,
        "rustc": said("rustc", &["--version"])?,
        "commit": said("git", &["rev-parse", "HEAD"])?,
        "changed_files": said("git", &["status", "--porcelain"])?.lines().count(),
    }))
}

/// Returns today's date from the system clock.
pub(super) fn today() -> Result<String> {
    said("date", &["-u", "+%F"])
}

fn said(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).output().context(program.to_string())?;
    ensure!(output.status.success(), "{program} {arguments:?} ended with {}", output.status);
    Ok(String::from_utf8(output.stdout)?.trim().to_string())
}
