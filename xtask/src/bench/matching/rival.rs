//! A contestant in its own process: `bench/matching.py`, or our side, the example `contestant` of
//! the models crate. Both speak the same protocol.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nextpair_core::WITHOUT;
use nextpair_data::npy;
use serde_json::{Value, json};

use super::super::rivals::{REQUIREMENTS, check_versions};
use super::super::script::Script;
use super::{Case, folder};
use crate::{cargo, succeed};

/// The result of one turn.
pub(super) struct Turn {
    /// Mean time of a call, without the work before and after the calls.
    pub(super) seconds: f64,
    pub(super) answer: Vec<f64>,
}

pub(super) struct Rival {
    script: Script,
    name: String,
    run: &'static str,
    calls: usize,
    /// Images and captions per tile, once chosen.
    tile: Option<[usize; 2]>,
    /// The path of its similarities.
    out: PathBuf,
}

impl Rival {
    pub(super) fn start(
        python: &Path,
        case: &Case,
        name: &str,
        input: &Path,
        threads: usize,
    ) -> Result<Self> {
        let arguments = ["serve".into(), input.to_path_buf(), threads.to_string().into()];
        let script = Script::start(python, "bench/matching.py", &arguments, threads, &[])?;
        check_versions(&script.versions, REQUIREMENTS)?;
        Ok(Self::new(script, case, name))
    }

    /// Starts our side, which does without some vector instructions.
    pub(super) fn ours(
        binary: &Path,
        case: &Case,
        input: &Path,
        threads: usize,
        without: &str,
    ) -> Result<Self> {
        let arguments = [input.to_path_buf(), threads.to_string().into()];
        let script = Script::start(binary, "serve", &arguments, threads, &[(WITHOUT, without)])?;
        Ok(Self::new(script, case, "nextpair"))
    }

    fn new(script: Script, case: &Case, name: &str) -> Self {
        let out = folder().join(format!("{name}.npy"));
        Rival { script, name: name.into(), run: case.run, calls: case.calls, tile: None, out }
    }

    pub(super) fn versions(&self) -> Value {
        self.script.versions.clone()
    }

    pub(super) fn title(&self) -> String {
        let tile = self.tile.map(|[images, captions]| format!(" (tiles of {images} x {captions})"));
        format!("PyTorch, {}{}", self.name, tile.unwrap_or_default())
    }

    /// Chooses the fastest tile, by the better of two turns each.
    pub(super) fn tune(&mut self, tiles: &[[usize; 2]]) -> Result<()> {
        let mut best = (f64::INFINITY, None);
        for &tile in tiles {
            self.tile = Some(tile);
            let seconds = self.turn()?.seconds.min(self.turn()?.seconds);
            eprintln!("  {} x {}: {:.1} ms", tile[0], tile[1], 1e3 * seconds);
            if seconds < best.0 {
                best = (seconds, Some(tile));
            }
        }
        self.tile = best.1;
        Ok(())
    }

    fn ask(&mut self, mut request: Value) -> Result<Value> {
        request["rival"] = json!(self.name);
        if let (Some(tile), true) = (self.tile, request["run"] != "reset") {
            request["tile"] = json!(tile);
        }
        self.script.ask(&request).with_context(|| format!("the rival {}", self.name))
    }

    /// Runs one turn. Every turn starts from the same state and gives the same answer.
    pub(super) fn turn(&mut self) -> Result<Turn> {
        let (mut seconds, mut answer) = (0.0, Vec::new());
        let number = |said: &Value, name: &str| {
            said[name].as_f64().with_context(|| format!("an answer without {name}"))
        };
        if self.run == "step" {
            self.ask(json!({"run": "reset"}))?;
            for _ in 0..self.calls {
                let said = self.ask(json!({"run": "step"}))?;
                seconds += number(&said, "seconds")?;
                answer.extend([number(&said, "loss")?, number(&said, "grad_norm")?]);
            }
        } else {
            for _ in 0..self.calls {
                let said = self.ask(json!({"run": "score", "out": self.out}))?;
                seconds += number(&said, "seconds")?;
            }
            let scores = npy::open(&self.out)?;
            answer.resize(scores.rows() * scores.dim(), 0.0);
            for (row, values) in answer.chunks_exact_mut(scores.dim()).enumerate() {
                scores.read_f64(row, values);
            }
        }
        Ok(Turn { seconds: seconds / self.calls as f64, answer })
    }
}

/// Builds our side. Naming all packages keeps their features the same as elsewhere, which avoids
/// compiling them again.
pub(super) fn build() -> Result<PathBuf> {
    succeed(&mut cargo(&["build", "--release", "--workspace", "--example", "contestant"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    Ok(target.join("release/examples/contestant"))
}
