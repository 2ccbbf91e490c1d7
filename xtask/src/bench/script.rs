//! A long-lived Python script that answers requests as JSON lines.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

pub(super) struct Script {
    process: Child,
    requests: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
    /// Versions of Python and its packages: the first line of the script.
    pub(super) versions: Value,
}

impl Script {
    /// Starts `script ARGUMENTS` with this number of threads in every library, and waits for its
    /// versions.
    pub(super) fn start<A: AsRef<OsStr>>(
        python: &Path,
        script: &str,
        arguments: &[A],
        threads: usize,
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let mut command = Command::new(python);
        command.arg(script).args(arguments);
        let libraries = ["OMP", "OPENBLAS", "MKL", "RAYON"];
        command.envs(libraries.map(|name| (format!("{name}_NUM_THREADS"), threads.to_string())));
        command.envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().with_context(|| python.display().to_string())?;
        let requests = process.stdin.take();
        let output = process.stdout.take().with_context(|| format!("{script} has no output"))?;
        let answers = BufReader::new(output).lines();
        let mut script = Script { process, requests, answers, versions: Value::Null };
        script.versions = script.answer()?["versions"].take();
        Ok(script)
    }

    /// Returns the id of the process.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn ask(&mut self, request: &Value) -> Result<Value> {
        let requests = self.requests.as_mut().context("the script has no input")?;
        writeln!(requests, "{request}")?;
        requests.flush()?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Value> {
        let line = self.answers.next().context("the script ended early; see above")??;
        let answer: Value =
            serde_json::from_str(&line).with_context(|| format!("not an answer: {line}"))?;
        if let Some(error) = answer["error"].as_str() {
            bail!("{error}");
        }
        Ok(answer)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // Without requests, the process ends by itself.
        self.requests = None;
        let _ = self.process.wait();
    }
}
