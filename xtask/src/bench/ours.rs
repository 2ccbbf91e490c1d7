//! Our side: the whole `nextpair` process, from opening the files to the written picks.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nextpair_core::WITHOUT;
use serde_json::Value;

use super::answers::Pick;
use super::case::Bench;
use super::memory::{Memory, Watch};
use crate::cargo;

pub(super) struct Ours<'a> {
    pub(super) binary: &'a Path,
    pub(super) data: &'a Path,
    pub(super) bench: Bench,
    /// The name of the case. Those of herding are strategies, those of design dimensions.
    pub(super) case: &'a str,
    pub(super) threads: usize,
    /// Vector instructions to do without, separated by commas.
    pub(super) without: &'a str,
}

pub(super) struct Run {
    pub(super) seconds: f64,
    pub(super) picks: Vec<Pick>,
    /// Zero unless measured.
    pub(super) memory: Memory,
    /// Peak anonymous bytes in the program's own summary.
    pub(super) reported_peak: u64,
}

/// Builds the binary and returns its path. It builds the whole workspace, like the tests: other
/// features of dependencies would be compiled again.
pub(crate) fn build() -> Result<PathBuf> {
    let mut build = cargo(&["build", "--release", "--workspace", "--bin", "nextpair"]);
    let output = build.arg("--message-format=json").stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "cargo build of nextpair ended with {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut binaries = messages.filter_map(|m| Some(PathBuf::from(m["executable"].as_str()?)));
    binaries.next_back().context("cargo build named no binary")
}

impl Ours<'_> {
    pub(super) fn run(&self, budget: usize, watched: bool) -> Result<Run> {
        let out = Path::new("target/bench-data/picks.jsonl");
        let mut command = Command::new(self.binary);
        command.arg("select").arg("--paired-images").arg(self.data.join("images.npy"));
        match self.bench {
            Bench::Select => command
                .arg("--paired-texts")
                .arg(self.data.join("texts.npy"))
                .args(["--strategy", "hard-negative"]),
            Bench::CoreSet => command.args(["--strategy", "core-set"]),
            Bench::Design => command.args(["--strategy", "v-optimal", "--dimensions", self.case]),
            Bench::Herding => command
                .arg("--paired-texts")
                .arg(self.data.join("texts.npy"))
                .args(["--strategy", self.case]),
        };
        command.arg("--pool").arg(self.data.join("pool.npy")).args(["--pool-side", "image"]);
        command.args(["--budget", &budget.to_string(), "--threads", &self.threads.to_string()]);
        command.arg("--out").arg(out).arg("--json");
        command.env(WITHOUT, self.without);

        let Finished { seconds, memory, output } = finish(&mut command, watched)?;
        let summary: Value =
            serde_json::from_slice(&output.stdout).context("nextpair's summary")?;
        let reported_peak = summary["peak_bytes"].as_u64().unwrap_or(0);
        Ok(Run { seconds, picks: read(out)?, memory, reported_peak })
    }
}

/// A run of the program that ended well.
pub(super) struct Finished {
    /// From its start to its end.
    pub(super) seconds: f64,
    /// Zero unless watched.
    pub(super) memory: Memory,
    pub(super) output: Output,
}

/// Runs a command to its end.
pub(super) fn finish(command: &mut Command, watched: bool) -> Result<Finished> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let began = Instant::now();
    let child = command.spawn().with_context(|| format!("{command:?}"))?;
    let watch = watched.then(|| Watch::start(child.id()));
    let output = child.wait_with_output()?;
    let seconds = began.elapsed().as_secs_f64();
    let memory = watch.map(Watch::stop).unwrap_or_default();
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {said}", output.status);
    Ok(Finished { seconds, memory, output })
}

fn read(path: &Path) -> Result<Vec<Pick>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let pick = |line: &str| -> Result<Pick> {
        let value: Value = serde_json::from_str(line)?;
        Ok(Pick {
            index: value["index"].as_u64().context("a pick without an index")?,
            score: value["score"].as_f64().context("a pick without a score")?,
            hits: value["hits"].as_u64(),
        })
    };
    text.lines().map(pick).collect()
}
