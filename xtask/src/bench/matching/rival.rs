//! A rival: `bench/matching.py` in a process of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nextpair_data::npy;
use serde_json::{Value, json};

use super::super::rivals::{REQUIREMENTS, check_versions};
use super::super::script::Script;
use super::{Case, Side, Turn, folder};

pub(super) struct Rival {
    script: Script,
    name: String,
    run: &'static str,
    calls: usize,
    /// Images and captions scored at a time, once they are chosen.
    tile: Option<[usize; 2]>,
    /// Where it leaves similarities.
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
        let out = folder().join(format!("{name}.npy"));
        Ok(Rival { script, name: name.into(), run: case.run, calls: case.calls, tile: None, out })
    }

    pub(super) fn versions(&self) -> Value {
        self.script.versions.clone()
    }

    pub(super) fn title(&self) -> String {
        let tile = self.tile.map(|[images, captions]| format!(" (tiles of {images} x {captions})"));
        format!("PyTorch, {}{}", self.name, tile.unwrap_or_default())
    }

    /// Keeps the tile it is fastest with, the better of two turns each.
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
}

impl Side for Rival {
    fn turn(&mut self) -> Result<Turn> {
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
