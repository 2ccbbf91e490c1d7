//! What was decided about the next batch: `plan.json` in the folder of a rehearsal or a model. The lines that name the
//! next command carry it, so that what was advised is what is bought.
//!
//! A rehearsal writes the first one. `train --after` takes it over for the new model, and `select` with that model
//! writes down with which flags it picked. `annotate` and `add` hand the name of the model on.

use std::path::{Path, PathBuf};

use crate::data::{AtomicFile, ordinary};
use crate::models::ModelFolder;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::program::parameters;
use crate::program::typed::{self, Flags};

/// The file of a plan.
const PLAN: &str = "plan.json";

/// Flags of `select` that are a decision, beside the parameters of strategies. The others name files of one batch.
const DECIDED: [&str; 11] = [
    "--pool-side",
    "--budget",
    "--spend",
    "--costs",
    "--strategy",
    "--queries",
    "--usable",
    "--dedupe",
    "--seed",
    "--device",
    "--precision",
];
/// Flags of `train` that are of one training.
const OF_ONE_TRAINING: [&str; 8] =
    ["--after", "--out", "--resume", "--mixed", "--json", "--log", "--paired", "--share"];

/// The flag of commands between two selections.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct PlanArgs {
    /// The rehearsal, or the model that picked the last batch: the next line goes on with what was
    /// decided there
    #[arg(long, value_name = "REHEARSAL|MODEL")]
    pub(crate) after: Option<PathBuf>,
}

impl PlanArgs {
    /// Checks the name before the work begins.
    pub(crate) fn check(&self) -> Result<()> {
        self.after.as_deref().map_or(Ok(()), |folder| Plan::taken_over(folder).map(drop))
    }
}

/// What was decided about the next batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Plan {
    /// Flags of `train`: the model and how it is trained.
    pub(crate) train: Flags,
    /// Flags of `select`: side, budget, strategy, device.
    pub(crate) select: Flags,
    /// The price of a caption.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) price: Option<f64>,
    /// The model that picked the batch before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<PathBuf>,
    /// What a rehearsal forecasts of the batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rehearsed: Option<String>,
    /// What the picks were expected to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) effect: Option<String>,
}

impl Plan {
    /// Returns the plan in a folder, if there is one.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(PLAN);
        if !path.exists() {
            return Ok(None);
        }
        let text = ordinary::read_text(&path)?;
        Ok(Some(serde_json::from_str(&text).with_context(|| path.display().to_string())?))
    }

    /// Returns the plan in a folder for the next line. Work that is done does not fail because of it.
    pub(crate) fn of(folder: &Path) -> Self {
        Self::read(folder)
            .unwrap_or_else(|why| {
                say!("note        {why:#}; the next line is the usual one");
                None
            })
            .unwrap_or_default()
    }

    /// Writes it into a folder.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        Ok(AtomicFile::write_whole(&folder.join(PLAN), text.as_bytes())?)
    }

    /// Returns the plan of a model that is trained by this command line.
    pub(crate) fn of_training(after: Option<&Path>) -> Result<Self> {
        let mut plan = after.map(Self::taken_over).transpose()?.unwrap_or_default();
        plan.train = typed::flags();
        plan.train.retain(|flag| !OF_ONE_TRAINING.contains(&flag[0].as_str()));
        if !plan.select.iter().any(|flag| is_of_device(flag)) {
            plan.select.extend(plan.train.iter().filter(|flag| is_of_device(flag)).cloned());
        }
        Ok(plan)
    }

    /// Returns what is left of the plan of a rehearsal, or of the model before the last batch.
    fn taken_over(folder: &Path) -> Result<Self> {
        let (plan, is_model) = (Self::read(folder)?, ModelFolder::is_there(folder));
        ensure!(
            is_model || plan.is_some(),
            "--after {}: neither a rehearsal nor a model",
            folder.display()
        );
        let plan = plan.unwrap_or_default();
        Ok(match is_model {
            // The batch of the forecast is bought.
            true => {
                let before = Some(folder.to_path_buf());
                Plan { before, rehearsed: None, effect: None, ..plan }
            }
            false => plan,
        })
    }

    /// Writes down with which flags a model picked, and what is expected of the picks. Models that
    /// `train` did not make have no plan.
    pub(crate) fn bought(model: &Path, effect: Option<String>) -> Result<()> {
        let Some(mut plan) = Self::read(model)? else { return Ok(()) };
        let mut select = typed::flags();
        select.retain(|flag| {
            let name = flag[0].as_str();
            DECIDED.contains(&name) || parameters::has_flag(name.trim_start_matches('-'))
        });
        if sorted(&plan.select) != sorted(&select) {
            // The forecast was of another batch.
            plan.rehearsed = None;
        }
        (plan.select, plan.effect) = (select, effect);
        plan.write(model)
    }
}

fn sorted(flags: &[Vec<String>]) -> Flags {
    let mut flags = flags.to_vec();
    flags.sort();
    flags
}

/// Returns whether a flag says where to compute.
pub(crate) fn is_of_device(flag: &[String]) -> bool {
    ["--device", "--precision"].contains(&flag[0].as_str())
}
