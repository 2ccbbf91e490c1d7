//! The cases: sizes, distributions, and files under `target/bench-data`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::succeed;

/// Correlation between an image and its text.
const RHO: f64 = 0.7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bench {
    Select,
    CoreSet,
    Herding,
    Design,
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) pool: usize,
    /// Number of pairs, or of centres.
    pub(super) pairs: usize,
    pub(super) dim: usize,
    pub(super) budget: usize,
    /// Select: covariance eigenvalues fall like `i^-decay`. Core-set: scales do.
    pub(super) decay: f64,
    pub(super) rivals: &'static [&'static str],
    pub(super) note: &'static str,
}

impl Bench {
    pub(super) fn name(self) -> &'static str {
        match self {
            Bench::Select => "select",
            Bench::CoreSet => "core-set",
            Bench::Herding => "herding",
            Bench::Design => "design",
        }
    }

    pub(super) fn cases(self) -> Vec<Case> {
        let select = |name, decay, note| Case {
            name,
            pool: 200_000,
            pairs: 10_000,
            dim: 512,
            budget: 1_000,
            decay,
            rivals: &["numpy", "torch"],
            note,
        };
        match self {
            Bench::Select => vec![
                select("isotropic", 0.0, "Eigenvalues all equal: nothing to prune."),
                select("spectrum-1", 1.0, "Covariance eigenvalues fall like i^-1."),
                select("spectrum-1.5", 1.5, "Covariance eigenvalues fall like i^-1.5."),
            ],
            Bench::Herding => {
                let note =
                    "Covariance eigenvalues fall like i^-1; 2,000 points, bandwidth by the data.";
                let rivals: &[&str] = &["numpy-herding"];
                vec![
                    Case { rivals, ..select("herding", 1.0, note) },
                    Case { rivals: &[], ..select("novelty", 1.0, note) },
                ]
            }
            Bench::Design => {
                let (all, note) = (&["numpy-512", "torch-512"], "Eigenvalues fall like i^-1.");
                let few = &["numpy-128", "torch-128"];
                let axes = "Eigenvalues fall like i^-1; 128 principal axes.";
                vec![
                    Case { rivals: all, ..select("512", 1.0, note) },
                    Case { rivals: few, ..select("128", 1.0, axes) },
                ]
            }
            Bench::CoreSet => vec![
                Case {
                    name: "standard",
                    pool: 50_000,
                    pairs: 1_000,
                    dim: 256,
                    budget: 500,
                    decay: 0.0,
                    rivals: &["numpy-greedy", "scikit-activeml", "lightly-mundig"],
                    note: "Independent N(0, 1) features.",
                },
                Case {
                    name: "coco",
                    pool: 57_949,
                    pairs: 24_834,
                    dim: 2_048,
                    budget: 4_139,
                    decay: 0.5,
                    rivals: &[],
                    note: "The size of COCO in the paper, non-negative features. Rivals run when \
                           asked for with --rivals; each takes 10 minutes or more a run.",
                },
            ],
        }
    }

    pub(super) fn names(self) -> String {
        self.cases().iter().map(|case| case.name).collect::<Vec<_>>().join(", ")
    }
}

impl Case {
    /// Returns the parameters of the generator.
    pub(super) fn parameters(&self, bench: Bench, seed: u64) -> Value {
        let mut parameters = json!({
            "bench": bench.name(),
            "seed": seed,
            "pool": self.pool,
            "pairs": self.pairs,
            "dim": self.dim,
            "decay": self.decay,
        });
        if bench != Bench::CoreSet {
            parameters["rho"] = json!(RHO);
        }
        parameters
    }

    /// Returns the folder of the case's files, generating them if necessary.
    pub(super) fn data(&self, bench: Bench, seed: u64, python: &Path) -> Result<PathBuf> {
        let (name, pool, pairs, dim) = (self.name, self.pool, self.pairs, self.dim);
        let all = Path::new("target/bench-data");
        let folder = all.join(format!("{name}-{pool}x{dim}-{pairs}-seed{seed}"));
        if folder.is_dir() {
            return Ok(folder);
        }
        eprintln!("{name}: generating {}", folder.display());
        // Partial data never has the final name.
        let half = all.join(format!("{name}.half"));
        std::fs::create_dir_all(&half).with_context(|| half.display().to_string())?;
        let parameters = self.parameters(bench, seed).to_string();
        succeed(Command::new(python).arg("bench/generate.py").arg(&half).arg(parameters))?;
        std::fs::rename(&half, &folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    /// Returns the number of similarities by definition, for select.
    pub(super) fn similarities(&self) -> f64 {
        self.pairs as f64 * (self.pool + self.pairs) as f64
    }
}
