//! Architectures by name, as files and flags have them.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{Architecture, Error, Heads, Imram, Inputs, Scan, Setting, Vse};

/// The largest layer, and the most steps, that can be meant.
const LARGEST: usize = 1 << 16;

/// Makes the enum of architectures from its table.
macro_rules! architectures {
    ($($(#[$doc:meta])* $variant:ident($settings:ident) = $tag:literal;)*) => {
        /// Which architecture, with its settings, as files store it.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "architecture", rename_all = "kebab-case")]
        pub enum Config { $($(#[$doc])* $variant($settings),)* }

        impl Config {
            /// How files call the architectures.
            pub const TAGS: &[&str] = &[$($tag),*];

            /// What people call the models, with their published settings.
            fn presets() -> Vec<(&'static str, Config)> {
                let mut all = Vec::new();
                $(all.extend($settings::presets().into_iter().map(|(name, settings)| {
                    (name, Config::$variant(settings))
                }));)*
                all
            }

            /// Reads the settings of the architecture that files call `tag`; `None` if there is none.
            pub fn read<'de, D: Deserializer<'de>>(
                tag: &str,
                settings: D,
            ) -> Option<Result<Self, D::Error>> {
                match tag {
                    $($tag => Some($settings::deserialize(settings).map(Config::$variant)),)*
                    _ => None,
                }
            }

            /// The architecture.
            pub fn architecture(&self) -> &dyn Architecture {
                match self { $(Config::$variant(settings) => settings,)* }
            }

            fn architecture_mut(&mut self) -> &mut dyn Architecture {
                match self { $(Config::$variant(settings) => settings,)* }
            }
        }

        impl From<Config> for Arc<dyn Architecture> {
            fn from(config: Config) -> Self {
                match config { $(Config::$variant(settings) => Arc::new(settings),)* }
            }
        }
    };
}

// A new architecture is one file and one line.
architectures! {
    /// Attention with a memory.
    Imram(Imram) = "imram";
    /// One pass of attention.
    Scan(Scan) = "scan";
    /// One vector per side, a recurrent unit for captions.
    Vse(Vse) = "vse";
    /// Layers on frozen embeddings.
    Heads(Heads) = "heads";
}

impl Config {
    /// What people call the models.
    pub fn names() -> Vec<&'static str> {
        Self::presets().into_iter().map(|(name, _)| name).collect()
    }

    /// The published settings of a model of [`names`](Self::names).
    pub fn named(name: &str) -> Option<Self> {
        Self::presets().into_iter().find(|(known, _)| *known == name).map(|(_, config)| config)
    }

    /// What people call it, whatever its other settings.
    pub fn name(&self) -> &str {
        self.architecture().name()
    }

    /// Whether captions are words to it, or vectors.
    pub fn reads_words(&self) -> bool {
        self.architecture().reads_words()
    }

    /// Dimensions of the joint space.
    pub fn dim(&self) -> usize {
        self.architecture().dim()
    }

    /// Changes a setting.
    ///
    /// # Errors
    /// If it has no such setting: a flag that did nothing would be a surprise.
    pub fn set(&mut self, setting: Setting) -> Result<(), Error> {
        if self.architecture_mut().set(setting) {
            return Ok(());
        }
        Err(Error::NoSuchSetting { flag: setting.flag(), model: self.name().to_owned() })
    }

    /// Refuses what cannot be meant.
    ///
    /// # Errors
    /// With the setting and what is wrong with it.
    pub fn check(&self) -> Result<(), Error> {
        self.architecture().check()
    }

    /// How many numbers its weights are.
    pub fn weights(&self, inputs: Inputs) -> usize {
        let declared = self.architecture().declare(inputs);
        declared.iter().map(|weight| weight.shape.iter().product::<usize>()).sum()
    }
}

/// Refuses a size that cannot be meant.
pub(crate) fn check_size(name: &'static str, value: usize) -> Result<(), Error> {
    match value {
        0 => Err(Error::setting(name, "is 0; at least 1 is needed")),
        1..=LARGEST => Ok(()),
        _ => Err(Error::setting(name, format!("{value} is more than {LARGEST}"))),
    }
}

/// Refuses what is not a positive number.
pub(crate) fn check_positive(name: &'static str, value: f32) -> Result<(), Error> {
    match value.is_finite() && value > 0.0 {
        true => Ok(()),
        false => Err(Error::setting(name, format!("{value} is not above 0"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_know_their_names() {
        for name in Config::names() {
            assert_eq!(Config::named(name).unwrap().name(), name);
        }
        assert_eq!(Config::named("vse"), None);
    }

    #[test]
    fn tags_are_those_of_files() {
        for name in Config::names() {
            let config = Config::named(name).unwrap();
            let mut stored = serde_json::to_value(&config).unwrap();
            let tag = stored.as_object_mut().unwrap().remove("architecture").unwrap();
            let tag = tag.as_str().unwrap();
            assert!(Config::TAGS.contains(&tag));
            assert_eq!(Config::read(tag, stored).unwrap().unwrap(), config);
        }
        assert!(Config::read("bert", serde_json::json!({})).is_none());
    }

    #[test]
    fn a_setting_that_is_not_there_is_refused() {
        let mut config = Config::named("vse++").unwrap();
        config.set(Setting::Dim(3)).unwrap();
        assert_eq!(config.dim(), 3);
        let error = config.set(Setting::Steps(2)).unwrap_err();
        assert_eq!(error.to_string(), "--steps is not a setting of vse++");
    }
}
