//! Settings in TOML files: `[model]` and `[training]`, and the other keys of experiments.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nextpair_data::{Side, ordinary};
use nextpair_models::{Config, Training};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use nextpair_data::Amount;

use super::{Annotator, Bow, Splits, Test, VocabularyOf};
use crate::{Error, World};

/// The settings of a model and its training, as written in a file.
#[derive(Debug, Default)]
pub struct SettingsFile {
    /// The model.
    pub model: Option<Config>,
    /// The training settings.
    pub training: Option<Training>,
    /// The keys that the table of training has. What it does not say was published with the model.
    said: BTreeSet<String>,
}

/// The keys of an experiment as written. Missing keys have defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExperimentKeys {
    /// See [`Experiment::dataset`](super::Experiment::dataset), and likewise for the other keys.
    pub dataset: Option<PathBuf>,
    /// The side of the unpaired items.
    pub pool: Option<Side>,
    /// Number of items paired from the start.
    pub initial: Option<Amount>,
    /// Number of items paired per round.
    pub budget: Option<Amount>,
    /// Number of rounds.
    pub rounds: Option<usize>,
    /// Names of strategies.
    pub strategies: Option<Vec<String>>,
    /// Seeds.
    pub seeds: Option<Vec<u64>>,
    /// The annotator.
    pub annotator: Option<Annotator>,
    /// The price of pairing an item.
    pub price: Option<f64>,
    /// Name of the image features.
    pub features: Option<String>,
    /// Name of the text features.
    pub text_features: Option<String>,
    /// The source of the vocabulary.
    pub vocabulary: Option<VocabularyOf>,
    /// A file of what people search for.
    pub queries: Option<PathBuf>,
    /// Minimum count of a word.
    pub min_count: Option<u64>,
    /// Which items are train, dev and test.
    pub splits: Option<Splits>,
    /// The settings of visual words.
    pub bow: Option<Bow>,
    /// How the pool differs from the dataset.
    pub world: Option<World>,
    /// The test after every round.
    pub evaluation: Option<Test>,
    /// Ids of the only training items that take part.
    pub only: Option<Vec<String>>,
}

impl ExperimentKeys {
    /// Returns these keys, with missing ones from `other`.
    pub fn or(self, other: ExperimentKeys) -> ExperimentKeys {
        ExperimentKeys {
            dataset: self.dataset.or(other.dataset),
            pool: self.pool.or(other.pool),
            initial: self.initial.or(other.initial),
            budget: self.budget.or(other.budget),
            rounds: self.rounds.or(other.rounds),
            strategies: self.strategies.or(other.strategies),
            seeds: self.seeds.or(other.seeds),
            annotator: self.annotator.or(other.annotator),
            price: self.price.or(other.price),
            features: self.features.or(other.features),
            text_features: self.text_features.or(other.text_features),
            vocabulary: self.vocabulary.or(other.vocabulary),
            queries: self.queries.or(other.queries),
            min_count: self.min_count.or(other.min_count),
            splits: self.splits.or(other.splits),
            bow: self.bow.or(other.bow),
            world: self.world.or(other.world),
            evaluation: self.evaluation.or(other.evaluation),
            only: self.only.or(other.only),
        }
    }
}

/// A fault in a file, and its byte offset.
struct Wrong {
    at: usize,
    what: String,
}

impl From<toml::de::Error> for Wrong {
    fn from(error: toml::de::Error) -> Self {
        let at = error.span().map_or(0, |span| span.start);
        Wrong { at, what: error.message().to_owned() }
    }
}

impl SettingsFile {
    /// Returns the model and its training, with what was published where the file says nothing, or
    /// `None` if it names no model. They are not checked.
    pub fn with_published(self) -> Option<(Config, Training)> {
        let config = self.model.clone()?;
        let training = self.training_over(config.architecture().training());
        Some((config, training))
    }

    /// Whether the table of training has a key.
    pub fn says(&self, key: &str) -> bool {
        self.said.contains(key)
    }

    /// Returns these settings of training, with what the file says in place of them.
    pub fn training_over(&self, settings: Training) -> Training {
        let Some(training) = &self.training else { return settings };
        let settings = match self.says("loss") {
            true => settings.with_loss(training.loss),
            false => settings,
        };
        let table = |training: &Training| match serde_json::to_value(training) {
            Ok(serde_json::Value::Object(table)) => table,
            _ => unreachable!("settings are a table"),
        };
        let (mut merged, mut given) = (table(&settings), table(training));
        for key in &self.said {
            // What is at its default may not be written.
            match given.remove(key) {
                Some(value) => merged.insert(key.clone(), value),
                None => merged.remove(key),
            };
        }
        let merged = serde_json::from_value(serde_json::Value::Object(merged));
        merged.expect("both are settings of training")
    }

    /// Reads a file with the tables `[model]` and `[training]`.
    pub fn read(path: &Path) -> Result<Self, Error> {
        parse_settings(&ordinary::read_text(path)?, path)
    }
}

/// Reads the text of a file with the tables `[model]` and `[training]`; errors call it `path`.
pub(super) fn parse_settings(text: &str, path: &Path) -> Result<SettingsFile, Error> {
    parse(text, path, |tables| {
        let file = settings_of(tables)?;
        match tables.keys().next() {
            None => Ok(file),
            Some(key) => {
                let what = format!("unknown {}; there are [model] and [training]", key.get_ref());
                Err(Wrong { at: key.span().start, what })
            }
        }
    })
}

/// Reads an experiment file.
pub fn read_experiment(path: &Path) -> Result<(ExperimentKeys, SettingsFile), Error> {
    parse_experiment(&ordinary::read_text(path)?, path)
}

/// Reads the text of an experiment file; errors call it `path`.
pub fn parse_experiment(text: &str, path: &Path) -> Result<(ExperimentKeys, SettingsFile), Error> {
    parse(text, path, |tables| {
        // A resolved experiment has a seed of 0.
        let seed = |table: &Spanned<DeValue<'_>>| {
            let seed = table.get_ref().get("seed");
            let at =
                seed.filter(|seed| seed.get_ref().as_integer().map(|i| i.as_str()) != Some("0"));
            let what = "seeds stand at the top of an experiment";
            at.map(|seed| Wrong { at: seed.span().start, what: what.to_owned() })
        };
        if let Some(wrong) = tables.get("training").and_then(seed) {
            return Err(wrong);
        }
        if let Some(seeds) = tables.get("seeds").filter(|seeds| !seeds.get_ref().is_array()) {
            let what = match seeds.get_ref().as_integer().and_then(|i| i.as_str().parse().ok()) {
                Some(count @ 1..=100) => {
                    let list: Vec<String> = (0..count).map(|seed: u64| seed.to_string()).collect();
                    let list = list.join(", ");
                    format!("seeds is a list: write seeds = [{list}], or give --seeds 0..{count}")
                }
                _ => "seeds is a list: write seeds = [0, 1, 2], or give --seeds 0..3".to_owned(),
            };
            return Err(Wrong { at: seeds.span().start, what });
        }
        let settings_file = settings_of(tables)?;
        let keys = DeValue::Table(std::mem::take(tables));
        Ok((settings(Spanned::new(0..0, keys))?, settings_file))
    })
}

fn parse<T>(
    text: &str,
    path: &Path,
    parse: impl FnOnce(&mut DeTable<'_>) -> Result<T, Wrong>,
) -> Result<T, Error> {
    let parsed = DeTable::parse(text).map_err(Wrong::from);
    let parsed = parsed.and_then(|tables| parse(&mut tables.into_inner()));
    parsed.map_err(|Wrong { at, what }| {
        let line = 1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count();
        Error::line(path, line, what)
    })
}

/// Takes the tables of model and training out of a file.
fn settings_of(tables: &mut DeTable<'_>) -> Result<SettingsFile, Wrong> {
    let training = tables.remove("training");
    let said = match training.as_ref().map(Spanned::get_ref) {
        Some(DeValue::Table(table)) => {
            table.keys().map(|key| key.get_ref().as_ref().to_owned()).collect()
        }
        _ => BTreeSet::new(),
    };
    Ok(SettingsFile {
        model: tables.remove("model").map(model).transpose()?,
        training: training.map(settings).transpose()?,
        said,
    })
}

/// Reads the architecture first, then its settings, so that errors have a position. Missing settings
/// are those of the model that was published under the name.
fn model(mut table: Spanned<DeValue<'_>>) -> Result<Config, Wrong> {
    let wrong = |at: usize| {
        let known = Config::names().join(", ");
        Wrong { at, what: format!("[model] needs an architecture: {known}") }
    };
    let at = table.span().start;
    let architecture = match table.get_mut() {
        DeValue::Table(settings) => settings.remove("architecture"),
        _ => None,
    };
    let architecture = architecture.ok_or_else(|| wrong(at))?;
    let at = architecture.span().start;
    let name = architecture.get_ref().as_str().unwrap_or_default();
    let published = Config::named(name).ok_or_else(|| wrong(at))?;
    let usual = toml::to_string(&published).map_err(|e| Wrong { at, what: e.to_string() })?;
    let usual = DeTable::parse(&usual)?.into_inner();
    // Lives no longer than the text of the usual settings.
    let mut table = table;
    if let DeValue::Table(settings) = table.get_mut() {
        fill(settings, usual);
        settings.remove("architecture");
    }
    let config = Config::read(name, ValueDeserializer::from(table)).ok_or_else(|| wrong(at))??;
    if Config::names().contains(&name) && config.name() != name {
        let what = format!("these settings make it {}, not {name}", config.name());
        return Err(Wrong { at, what });
    }
    Ok(config)
}

/// Adds the settings that a table does not have. An aggregation is one setting, though it may be a
/// table.
fn fill<'a>(table: &mut DeTable<'a>, usual: DeTable<'a>) {
    for (key, value) in usual {
        match (table.get_mut(key.get_ref().as_ref()).map(Spanned::get_mut), value.into_inner()) {
            (Some(DeValue::Table(inner)), DeValue::Table(usual))
                if matches!(key.get_ref().as_ref(), "encoders" | "captioner") =>
            {
                fill(inner, usual);
            }
            (Some(_), _) => {}
            (None, value) => {
                table.insert(key, Spanned::new(0..0, value));
            }
        }
    }
}

fn settings<T: DeserializeOwned>(table: Spanned<DeValue<'_>>) -> Result<T, Wrong> {
    Ok(T::deserialize(ValueDeserializer::from(table))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<SettingsFile, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.toml");
        std::fs::write(&path, text).unwrap();
        SettingsFile::read(&path).map_err(|e| e.to_string())
    }

    #[test]
    fn both_tables_are_read() {
        let file = read_text(
            "[model]\narchitecture = \"scan\"\ndirection = \"regions\"\n\
             aggregation = { log-sum-exp = 5 }\n[model.encoders]\ndim = 16\n\
             [training]\nepochs = 3\nviolation = \"sum\"\n",
        )
        .unwrap();
        assert!(file.says("violation") && !file.says("captions"));
        let config = file.model.unwrap();
        assert_eq!((config.name(), config.dim()), ("scan-i2t", 16));
        assert_eq!(file.training.unwrap().epochs, 3);
        let file = read_text("").unwrap();
        assert!(file.model.is_none() && file.training.is_none() && !file.says("violation"));
    }

    #[test]
    fn models_are_called_as_the_flag_calls_them() {
        for name in Config::names().into_iter().chain(Config::other_names()) {
            let file = read_text(&format!("[model]\narchitecture = \"{name}\"\n")).unwrap();
            assert_eq!(file.model, Config::named(name));
        }
        let text = "[model]\narchitecture = \"scan-i2t\"\naggregation = \"mean\"\n\
                    [model.encoders]\ndim = 8\n";
        let Some(Config::Scan(scan)) = read_text(text).unwrap().model else { panic!("SCAN") };
        assert_eq!((scan.encoders.dim, scan.temperature), (8, 4.0));
    }

    #[test]
    fn what_is_stored_with_a_run_can_be_given_again() {
        for name in Config::names() {
            let config = Config::named(name).unwrap();
            let text = toml::to_string(&std::collections::BTreeMap::from([("model", &config)]));
            assert_eq!(read_text(&text.unwrap()).unwrap().model, Some(config));
        }
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, says) in [
            ("[model]\narchitecture = \"vse\"\nsteps = 3\n", "x.toml:3: unknown field `steps`"),
            ("[model]\narchitecture = \"imram\"\n\n[model.encoders]\ndims = 3\n", "x.toml:5: "),
            ("\n[model]\ndim = 3\n", "x.toml:2: [model] needs an architecture"),
            ("[model]\narchitecture = \"bert\"\n", "x.toml:2: [model] needs an architecture"),
            ("model = 3\n", "x.toml:1: [model] needs an architecture"),
            (
                "[model]\narchitecture = \"text-imram\"\nmode = \"full\"\n",
                "x.toml:2: these settings make it full-imram, not text-imram",
            ),
            ("[training]\nepochs = \"x\"\n", "x.toml:2: invalid type: string"),
            ("[training]\nepochs = -3\n", "x.toml:2: "),
            ("[training]\n\nviolation = \"x\"\n", "x.toml:3: unknown variant `x`"),
            ("[training]\n[data]\n", "x.toml:2: unknown data; there are"),
            ("[model\n", "x.toml:1: "),
        ] {
            let what = read_text(text).unwrap_err();
            assert!(what.contains(says), "no '{says}' in {what}");
        }
    }

    #[test]
    fn the_experiments_of_the_project_can_be_run() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
        assert!(files.len() >= 8);
        for path in files {
            let (keys, settings) = read_experiment(&path).unwrap();
            // What only the command line names.
            let asked = keys.strategies.iter().flatten().any(|arm| arm.contains("+queries"));
            let keys = ExperimentKeys {
                dataset: Some("ds".into()),
                queries: asked.then(|| "queries.npy".into()),
                ..ExperimentKeys::default()
            }
            .or(keys);
            let model = settings.model.clone().unwrap();
            let training = settings.training_over(model.architecture().training());
            // A recorded result stays what it is when the defaults of a model change.
            let said = settings.training_over(Training::default());
            assert_eq!(training, said, "{}", path.display());
            crate::Experiment::resolve(keys, model, training).unwrap();
        }
    }

    #[test]
    fn every_key_overrides_and_is_kept_otherwise() {
        let keys = |number: usize| ExperimentKeys {
            dataset: Some(format!("{number}").into()),
            pool: Some(if number == 1 { Side::Image } else { Side::Text }),
            initial: Some(Amount::Count(number)),
            budget: Some(Amount::Count(number)),
            rounds: Some(number),
            strategies: Some(vec![number.to_string()]),
            seeds: Some(vec![number as u64]),
            annotator: Some(if number == 1 { Annotator::Oracle } else { Annotator::Human }),
            price: Some(number as f64),
            features: Some(number.to_string()),
            text_features: Some(number.to_string()),
            vocabulary: Some(VocabularyOf::File(format!("{number}").into())),
            queries: Some(format!("{number}").into()),
            min_count: Some(number as u64),
            splits: Some(if number == 1 { Splits::Dataset } else { Splits::Redraw }),
            only: Some(vec![number.to_string()]),
            bow: Some(Bow { sample: number, ..Bow::default() }),
            world: Some(World { copies: number as f64, ..World::default() }),
            evaluation: Some(Test { folds: vec![number], ..Test::default() }),
        };
        assert_eq!(keys(1).or(keys(2)), keys(1));
        assert_eq!(ExperimentKeys::default().or(keys(2)), keys(2));
        assert_eq!(keys(1).or(ExperimentKeys::default()), keys(1));
        let mixed = ExperimentKeys { rounds: None, seeds: None, ..keys(1) }.or(keys(2));
        assert_eq!(mixed, ExperimentKeys { rounds: Some(2), seeds: Some(vec![2]), ..keys(1) });
    }
}
