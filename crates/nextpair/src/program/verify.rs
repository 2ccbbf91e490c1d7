//! `nextpair verify`: checks this program against a folder of reference files.

mod cited;
mod eval;
mod models;
mod selection;
mod text;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::data::safetensors::SafetensorsFile;
use crate::models::Device;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use self::models::Given;
use crate::program::device::SelectionDeviceArgs;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A folder laid out like the reference vectors, or one file of it
    dir: PathBuf,
    #[command(flatten)]
    device: SelectionDeviceArgs,
}

/// Tolerance of values. Other programs summed the references, so the last digits of float64 may
/// differ. Ids and orders must not.
const TOLERANCE: f64 = 1e-12;

/// An answer in few bits may be off by this many times what rounding of what is given does to the
/// reference: there are as many layers, each of which rounds anew.
const LAYERS: f64 = 8.0;

/// The largest error so far, and the number of values compared.
#[derive(Default)]
struct Outcome {
    largest: f64,
    compared: usize,
    /// By how much answers move in double precision when weights and features are rounded.
    moves: BTreeMap<String, f64>,
    /// Whether moves are found, and nothing is judged.
    listening: bool,
}

impl Outcome {
    fn close(&mut self, what: &str, found: &[f64], expected: &[f64]) -> Result<()> {
        self.within(what, found, expected, TOLERANCE)
    }

    fn within(
        &mut self,
        what: &str,
        found: &[f64],
        expected: &[f64],
        tolerance: f64,
    ) -> Result<()> {
        ensure!(
            found.len() == expected.len(),
            "{what}: {} values, expected {}",
            found.len(),
            expected.len()
        );
        if self.listening {
            let errors =
                found.iter().zip(expected).map(|(found, expected)| (found - expected).abs());
            let moved = self.moves.entry(what.to_owned()).or_default();
            *moved = errors.fold(*moved, f64::max);
            return Ok(());
        }
        let leeway = self.moves.get(what).map_or(0.0, |moved| LAYERS * moved);
        let tolerance = tolerance.max(leeway);
        for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
            let error = (found - expected).abs();
            self.largest = self.largest.max(error);
            // Written so that NaN fails.
            ensure!(error <= tolerance, "{what}[{i}]: {found}, expected {expected}");
        }
        self.compared += found.len();
        Ok(())
    }

    fn equal<T: PartialEq + Debug>(
        &mut self,
        what: &str,
        found: &[T],
        expected: &[T],
    ) -> Result<()> {
        if found != expected {
            let i = found.iter().zip(expected).position(|(f, e)| f != e);
            match i {
                Some(i) => bail!("{what}[{i}]: {:?}, expected {:?}", found[i], expected[i]),
                None => bail!("{what}: {} values, expected {}", found.len(), expected.len()),
            }
        }
        self.compared += found.len();
        Ok(())
    }
}

/// A reference file: its tensors, and the configuration in its metadata.
struct Case {
    file: SafetensorsFile,
    config: Value,
}

impl Case {
    fn open(path: &Path) -> Result<Self> {
        let file = SafetensorsFile::open(path)?;
        let config = match file.metadata().get("config") {
            Some(config) => serde_json::from_str(config).context("its config is not JSON")?,
            None => Value::Null,
        };
        Ok(Case { file, config })
    }

    fn family(&self) -> &str {
        self.config["family"].as_str().unwrap_or("")
    }

    fn has(&self, name: &str) -> bool {
        self.file.names().iter().any(|n| n == name)
    }

    fn floats(&self, name: &str) -> Result<Vec<f64>> {
        Ok(self.file.f64s(name)?.1)
    }

    fn integers(&self, name: &str) -> Result<Vec<i64>> {
        Ok(self.file.i64s(name)?.1)
    }

    /// Returns the values of a matrix and its number of columns.
    fn table(&self, name: &str) -> Result<(Vec<f64>, usize)> {
        let (shape, values) = self.file.f64s(name)?;
        match shape.as_slice() {
            [_, columns] if *columns > 0 => Ok((values, *columns)),
            _ => bail!("{name} has shape {shape:?}, expected a matrix"),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut files = Vec::new();
    collect(&args.dir, &mut files)?;
    files.sort();
    let search = args.device.of_search()?;
    let (mut passed, mut failed) = (0, 0);
    for path in &files {
        let name = path.strip_prefix(&args.dir).ok().filter(|p| !p.as_os_str().is_empty());
        let name = name.unwrap_or(path).display();
        match check(path, (&search, &args.device)) {
            Ok(Some(outcome)) => {
                passed += 1;
                tell!(
                    "ok       {name}: {} values, largest error {:.1e}",
                    outcome.compared,
                    outcome.largest
                )?;
            }
            Ok(None) => tell!("unknown  {name}: no check for this kind of file")?,
            Err(error) => {
                failed += 1;
                tell!("FAILED   {name}: {error:#}")?;
            }
        }
    }
    ensure!(passed + failed > 0, "{}: no reference case found", args.dir.display());
    tell!("{passed} passed, {failed} failed")?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        ensure!(path.exists(), "{}: no such file or folder", path.display());
        files.push(path.to_path_buf());
        return Ok(());
    }
    for entry in std::fs::read_dir(path).with_context(|| path.display().to_string())? {
        collect(&entry?.path(), files)?;
    }
    Ok(())
}

/// The device that searches among embeddings, and the flag that says where models compute.
type Devices<'a> = (&'a crate::engine::Device, &'a SelectionDeviceArgs);

/// Checks one file. Returns `None` if its kind is unknown.
fn check(path: &Path, devices: Devices<'_>) -> Result<Option<Outcome>> {
    let mut outcome = Outcome::default();
    let known = match path.extension().and_then(|extension| extension.to_str()) {
        Some("safetensors") => check_tensors(&Case::open(path)?, devices, &mut outcome)?,
        Some("json") => text::check(path, &mut outcome)?,
        _ => false,
    };
    ensure!(!known || outcome.compared > 0, "nothing in it could be compared");
    Ok(known.then_some(outcome))
}

/// Checks a case with tensors. Returns whether its family is known.
fn check_tensors(
    case: &Case,
    (search, device): Devices<'_>,
    outcome: &mut Outcome,
) -> Result<bool> {
    let check: Check = match case.family() {
        "selection" => return selection::selection(case, search, outcome).map(|()| true),
        "coreset" => return selection::core_set(case, search, outcome).map(|()| true),
        "coreset_features" => return selection::features(case, search, outcome).map(|()| true),
        "eval" => return eval::eval(case, outcome).map(|()| true),
        "loss" => return models::losses(case, outcome).map(|()| true),
        "VSE++" | "SCAN" | "IMRAM" => models::model,
        "VSE_INF" | "VSRN" | "PVSE" | "SGRAF" | "CAMP" => cited::model,
        "NAAF" => cited::naaf,
        "VSE_INF_GPO" => cited::pooling,
        _ => return Ok(false),
    };
    for device in [device.of_exact_models()?, Device::Reference] {
        check_model(case, check, device, outcome)?;
    }
    Ok(true)
}

/// Compares a model that computes as given with its reference.
type Check = fn(&Case, Given, &mut Outcome) -> Result<()>;

/// Checks a model on a device.
fn check_model(case: &Case, check: Check, device: Device, outcome: &mut Outcome) -> Result<()> {
    outcome.moves.clear();
    if models::is_rounding(device) {
        outcome.listening = true;
        let heard = check(case, Given { device: Device::Reference, rounded: true }, outcome);
        outcome.listening = false;
        heard?;
    }
    check(case, Given { device, rounded: false }, outcome)
}
