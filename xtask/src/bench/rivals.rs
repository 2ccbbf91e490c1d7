//! The rivals: their Python environment, and one long-lived process that runs them by name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::memory::{Memory, Watch};
use super::script::Script;
use crate::python;

pub(super) const REQUIREMENTS: &str = "bench/requirements.txt";
/// Default chunk size in rows.
const CHUNK: usize = 4096;

/// Returns a Python with the rivals: in the given environment, or in our own.
pub(super) fn environment(named: &Option<PathBuf>) -> Result<PathBuf> {
    environment_in("target/bench-venv", REQUIREMENTS, named)
}

/// Returns a Python with `requirements`: in the given environment, or in our own, in `folder`.
pub(super) fn environment_in(
    folder: &str,
    requirements: &str,
    named: &Option<PathBuf>,
) -> Result<PathBuf> {
    if let Some(folder) = named {
        let python = folder.join("bin/python");
        ensure!(python.exists(), "{}: no Python environment (bin/python)", folder.display());
        return Ok(python);
    }
    python::environment(Path::new(folder), requirements)
        .context("--venv DIR takes an environment that has the rivals")
}

pub(super) struct Rivals {
    script: Script,
}

pub(super) struct Run {
    pub(super) seconds: f64,
    pub(super) picks: Vec<u64>,
}

impl Rivals {
    /// Starts the process. With `mapped`, it maps the files instead of reading them.
    pub(super) fn start(
        python: &Path,
        data: &Path,
        budget: usize,
        threads: usize,
        mapped: bool,
    ) -> Result<Self> {
        let numbers = [budget.to_string(), threads.to_string()].map(OsString::from);
        let arguments = [&[data.as_os_str().to_owned()], &numbers[..]].concat();
        let map = [("MAP", if mapped { "1" } else { "0" })];
        let script = Script::start(python, "bench/rivals.py", &arguments, threads, &map)?;
        check_versions(&script.versions, REQUIREMENTS)?;
        Ok(Rivals { script })
    }

    pub(super) fn versions(&self) -> Value {
        self.script.versions.clone()
    }

    /// Runs a rival once, on the first `rows` of the pool if given.
    pub(super) fn run(
        &mut self,
        name: &str,
        chunk: Option<usize>,
        rows: Option<usize>,
    ) -> Result<Run> {
        let request = json!({"run": name, "chunk": chunk.unwrap_or(CHUNK), "rows": rows});
        let answer = self.script.ask(&request).with_context(|| format!("the rival {name}"))?;
        let picks = answer["picks"].as_array().context("an answer without picks")?;
        Ok(Run {
            seconds: answer["seconds"].as_f64().context("an answer without seconds")?,
            picks: picks.iter().filter_map(Value::as_u64).collect(),
        })
    }

    /// Runs a rival once and measures the memory of the whole process.
    pub(super) fn watched(&mut self, name: &str, chunk: Option<usize>) -> Result<(Run, Memory)> {
        let watch = Watch::start(self.script.id());
        let run = self.run(name, chunk, None);
        let memory = watch.stop();
        Ok((run?, memory))
    }

    /// Returns the largest relative shortfall of a core-set from the farthest item, over all steps.
    pub(super) fn shortfall(&mut self, picks: &[u64]) -> Result<f64> {
        let answer = self.script.ask(&json!({"replay": picks}))?;
        answer["shortfall"].as_f64().context("an answer without a shortfall")
    }
}

/// Checks that the running packages, listed in `versions`, are the pinned ones.
pub(super) fn check_versions(versions: &Value, requirements: &str) -> Result<()> {
    let pinned = std::fs::read_to_string(requirements).context(requirements.to_owned())?;
    for (package, version) in pinned.lines().filter_map(|line| line.split_once("==")) {
        let found = versions[package].as_str().unwrap_or(version);
        ensure!(found == version, "{package} {found} is installed; {requirements} pins {version}");
    }
    Ok(())
}
