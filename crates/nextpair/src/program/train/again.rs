//! `train --resume` with settings: they must be those that the training began with.

use crate::data::first_difference;
use crate::models::{Corpus, ModelFolder, Pair};
use crate::scenario::SettingsFile;
use anyhow::{Result, ensure};

use super::Args;
use crate::program::progress::Bar;

/// Checks that everything that is given again is what the training began with. The error names the
/// first difference.
pub(super) fn check(
    args: &Args,
    run: &ModelFolder,
    corpus: &Corpus,
    pairs: &[Pair],
    bar: &Bar,
) -> Result<()> {
    let spec = run.spec();
    let file = args.config.as_deref().map(SettingsFile::read).transpose()?.unwrap_or_default();
    let preset = args.model.preset()?.and_then(SettingsFile::with_published);
    let own = || match args.config {
        // A file says all of it, or what was published.
        Some(_) => spec.model.architecture().training(),
        None => spec.training.clone(),
    };
    let (model, training) = preset.unwrap_or_else(|| (spec.model.clone(), own()));
    let mut training = file.training_over(training);
    args.training.change(&mut training);
    let seed = if args.config.is_some() { training.seed } else { spec.training.seed };
    training.seed = args.seed.unwrap_or(seed);
    let mut model = args.model.changed(file.model.unwrap_or(model))?;
    model.fit(corpus.regions());
    let table = |model, training| -> Result<toml::Table> {
        Ok([
            ("model".to_owned(), toml::Value::try_from(model)?),
            ("training".to_owned(), toml::Value::try_from(training)?),
        ]
        .into_iter()
        .collect())
    };
    let differs =
        first_difference(&table(&spec.model, &spec.training)?, &table(&model, &training)?, "");
    let start = args.start.as_ref().map(|start| start.display().to_string());
    let differs = match differs {
        Some(differs) => Some(differs),
        None if start.is_some() && start != spec.start => {
            let of = |name: Option<String>| name.unwrap_or_else(|| "not set".to_owned());
            Some(format!("start is {} and not {}", of(start), of(spec.start.clone())))
        }
        None => args.data.difference(run, corpus, pairs, bar)?,
    };
    ensure!(
        differs.is_none(),
        "{}: {}; a training keeps its settings, name another folder with --out",
        run.folder().display(),
        differs.unwrap_or_default()
    );
    Ok(())
}
