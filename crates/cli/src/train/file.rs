//! Settings in a TOML file.
//!
//! ```toml
//! [model]
//! architecture = "imram"     # vse, scan, imram, heads
//! mode = "text"
//!
//! [model.encoders]
//! dim = 256
//!
//! [training]
//! epochs = 10
//! ```

use std::path::Path;

use anyhow::Result;
use nextpair_models::{Config, Training};
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// What a file says.
#[derive(Debug, Default)]
pub(super) struct SettingsFile {
    pub(super) model: Option<Config>,
    pub(super) training: Option<Training>,
    /// Whether it says which violations count; the default depends on the model.
    pub(super) says_violation: bool,
}

/// What is wrong, and at which byte.
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
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| nextpair_data::Error::io(path, e))?;
        parse(&text).map_err(|Wrong { at, what }| {
            let line = 1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count();
            nextpair_data::Error::Line { path: path.to_path_buf(), line, what }.into()
        })
    }
}

fn parse(text: &str) -> Result<SettingsFile, Wrong> {
    let mut tables = DeTable::parse(text)?.into_inner();
    let training = tables.remove("training");
    let says_violation =
        training.as_ref().is_some_and(|table| table.get_ref().get("violation").is_some());
    let file = SettingsFile {
        model: tables.remove("model").map(model).transpose()?,
        training: training.map(settings).transpose()?,
        says_violation,
    };
    match tables.keys().next() {
        None => Ok(file),
        Some(key) => {
            let what = format!("unknown {}; there are [model] and [training]", key.get_ref());
            Err(Wrong { at: key.span().start, what })
        }
    }
}

/// The architecture is read first, and then its own settings: that way an error has a place.
fn model(mut table: Spanned<DeValue<'_>>) -> Result<Config, Wrong> {
    let wrong = |at: usize| {
        let what = "[model] needs an architecture: vse, scan, imram or heads".to_owned();
        Wrong { at, what }
    };
    let at = table.span().start;
    let architecture = match table.get_mut() {
        DeValue::Table(settings) => settings.remove("architecture"),
        _ => None,
    };
    let architecture = architecture.ok_or_else(|| wrong(at))?;
    match architecture.get_ref().as_str() {
        Some("vse") => settings(table).map(Config::Vse),
        Some("scan") => settings(table).map(Config::Scan),
        Some("imram") => settings(table).map(Config::Imram),
        Some("heads") => settings(table).map(Config::Heads),
        _ => Err(wrong(architecture.span().start)),
    }
}

fn settings<T: DeserializeOwned>(table: Spanned<DeValue<'_>>) -> Result<T, Wrong> {
    Ok(T::deserialize(ValueDeserializer::from(table))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SettingsFile, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.toml");
        std::fs::write(&path, text).unwrap();
        SettingsFile::read(&path).map_err(|e| e.to_string())
    }

    #[test]
    fn both_tables_are_read() {
        let file = read(
            "[model]\narchitecture = \"scan\"\ndirection = \"regions\"\n\
             aggregation = { log-sum-exp = 5 }\n[model.encoders]\ndim = 16\n\
             [training]\nepochs = 3\nviolation = \"sum\"\n",
        )
        .unwrap();
        let config = file.model.unwrap();
        assert_eq!((config.name(), config.dim()), ("scan-i2t", 16));
        assert_eq!(file.training.unwrap().epochs, 3);
        assert!(file.says_violation);
        let file = read("").unwrap();
        assert!(file.model.is_none() && file.training.is_none() && !file.says_violation);
    }

    #[test]
    fn what_is_stored_with_a_run_can_be_given_again() {
        for name in nextpair_models::NAMES {
            let config = Config::named(name).unwrap();
            let text = toml::to_string(&std::collections::BTreeMap::from([("model", &config)]));
            assert_eq!(read(&text.unwrap()).unwrap().model, Some(config));
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
            ("[training]\nepochs = \"x\"\n", "x.toml:2: invalid type: string"),
            ("[training]\nepochs = -3\n", "x.toml:2: "),
            ("[training]\n\nviolation = \"x\"\n", "x.toml:3: unknown variant `x`"),
            ("[training]\n[data]\n", "x.toml:2: unknown data; there are"),
            ("[model\n", "x.toml:1: "),
        ] {
            let what = read(text).unwrap_err();
            assert!(what.contains(says), "no '{says}' in {what}");
        }
    }
}
