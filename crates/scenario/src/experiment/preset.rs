//! Published settings by dataset, as files of settings: `presets/DATASET/MODEL.toml`.

use std::path::Path;

use super::SettingsFile;
use super::file::parse_settings;
use crate::Error;

/// Lists the files of presets.
macro_rules! presets {
    ($($dataset:literal: $($model:literal),*;)*) => {
        &[$($(($dataset, $model, include_str!(concat!("../../presets/", $dataset, "/", $model, ".toml")))),*),*]
    };
}

/// Dataset, model and text of every preset. A new one is a file and a word.
const PRESETS: &[(&str, &str, &str)] = presets! {
    "flickr30k": "vse-infinity", "vsrn", "sgr", "saf", "sgraf", "naaf", "camp", "camp-cross";
    "coco": "vse-infinity", "vsrn", "pvse", "sgr", "saf", "sgraf", "naaf";
};

impl SettingsFile {
    /// Names of the datasets that settings were published for.
    pub fn preset_names() -> Vec<&'static str> {
        let mut names: Vec<&str> = PRESETS.iter().map(|(dataset, ..)| *dataset).collect();
        names.dedup();
        names
    }

    /// The settings that were published with a model for a dataset.
    ///
    /// # Errors
    /// If there are none, with the models that have some.
    pub fn preset(dataset: &str, model: &str) -> Result<Self, Error> {
        let found = PRESETS.iter().find(|(of, name, _)| (*of, *name) == (dataset, model));
        let Some((dataset, model, text)) = found else {
            let known = PRESETS.iter().filter(|(of, ..)| *of == dataset).map(|(_, name, _)| *name);
            let known = known.collect::<Vec<_>>().join(", ");
            let what = format!("nothing was published for {model} on {dataset}; there is {known}");
            return Err(Error::setting("preset", what));
        };
        parse_settings(text, Path::new(&format!("{dataset}/{model}.toml")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_model_with_its_training() {
        for (dataset, model, _) in PRESETS {
            let preset = SettingsFile::preset(dataset, model).unwrap();
            let (config, training) = preset.with_published().unwrap();
            assert_eq!(config.name(), *model);
            config.check().unwrap();
            training.check().unwrap();
        }
        assert_eq!(SettingsFile::preset_names(), ["flickr30k", "coco"]);
        let error = SettingsFile::preset("flickr30k", "pvse").unwrap_err().to_string();
        assert!(error.contains("nothing was published for pvse on flickr30k"), "{error}");
    }

    #[test]
    fn defaults_are_the_settings_for_flickr30k() {
        for model in ["sgr", "saf", "sgraf", "naaf", "camp-cross"] {
            let (config, training) =
                SettingsFile::preset("flickr30k", model).unwrap().with_published().unwrap();
            assert_eq!(Some(&config), nextpair_models::Config::named(model).as_ref());
            assert_eq!(training, config.architecture().training());
        }
    }

    #[test]
    fn defaults_are_the_settings_for_coco() {
        for model in ["vse-infinity", "vsrn", "pvse"] {
            let (config, training) =
                SettingsFile::preset("coco", model).unwrap().with_published().unwrap();
            assert_eq!(Some(&config), nextpair_models::Config::named(model).as_ref());
            assert_eq!(training, config.architecture().training());
        }
    }
}
