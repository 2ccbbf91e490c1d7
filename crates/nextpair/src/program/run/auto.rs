//! `--strategies auto`: a rehearsal chooses the strategy before the experiment begins.

use std::path::{Path, PathBuf};

use crate::scenario::{
    Advice, Annotator, Arm, Experiment, ExperimentFolder, ExperimentKeys, Options,
    RehearsalSettings, Study,
};
use anyhow::{Result, ensure};

use crate::program::rehearse::{SEEDS, rehearse};

/// The name that asks for a rehearsal.
const AUTO: &str = "auto";

/// Returns whether the strategies ask for a rehearsal, and replaces them: by those of the
/// experiment if it has begun, else by random for now.
pub(super) fn is_asked(keys: &mut ExperimentKeys, folder: &Path) -> Result<bool> {
    let Some(names) = &mut keys.strategies else { return Ok(false) };
    if !names.iter().any(|name| name == AUTO) {
        return Ok(false);
    }
    ensure!(names.len() == 1, "strategies: auto stands alone; it compares the others itself");
    *names = match ExperimentFolder::new(folder).manifest().exists() {
        true => Study::open(folder)?.experiment.strategies.iter().map(Arm::to_string).collect(),
        false => vec!["random".to_owned()],
    };
    Ok(true)
}

/// Rehearses the first batch of an experiment and sets its strategy. An experiment that is a
/// simulation keeps random beside it.
pub(super) fn choose(
    experiment: &mut Experiment,
    folder: &Path,
    jobs: Option<usize>,
    options: &Options,
) -> Result<Advice> {
    let settings = RehearsalSettings::before(experiment, SEEDS)?;
    let advice = rehearse(settings, &place(folder), jobs, options)?;
    let chosen = advice.strategy;
    experiment.strategies = match experiment.annotator {
        Annotator::Human => vec![chosen],
        _ if chosen.is_random() => vec![chosen],
        _ => vec![Arm::random(1), chosen],
    };
    say!("\nauto: {}", advice.sentence());
    Ok(advice)
}

/// Returns the folder of the rehearsal, beside that of the experiment.
fn place(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".rehearsal");
    folder.with_file_name(name)
}
