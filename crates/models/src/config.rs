//! Architectures by name, for files and flags.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    Architecture, Camp, Error, Heads, Imram, Inputs, Naaf, Pvse, Scan, Setting, Sgraf, Vse,
    VseInfinity, Vsrn,
};

/// The largest layer size, and the most steps, that settings may ask for.
const LARGEST: usize = 1 << 16;

/// Defines the enum of architectures from its table.
macro_rules! architectures {
    ($($(#[$doc:meta])* $kind:ident $variant:ident($settings:ident) = $tag:literal: $($name:literal),*;)*) => {
        /// An architecture with its settings. Files store it under the name of its model, such as
        /// `text-imram`; those of people may have its family, such as `imram`.
        #[derive(Clone, Debug, PartialEq, Deserialize)]
        #[serde(tag = "architecture", rename_all = "kebab-case")]
        pub enum Config { $($(#[$doc])* #[serde($(alias = $name),*)] $variant($settings),)* }

        impl Serialize for Config {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                #[derive(Serialize)]
                struct Stored<'a, T> {
                    architecture: &'a str,
                    #[serde(flatten)]
                    settings: &'a T,
                }
                let architecture = self.name();
                match self {
                    $(Config::$variant(settings) => {
                        Stored { architecture, settings }.serialize(serializer)
                    })*
                }
            }
        }

        impl Config {
            /// Names of the families of architectures.
            const FAMILIES: &[&str] = &[$($tag),*];

            /// What kind of model it is.
            pub fn kind(&self) -> ModelKind {
                match self { $(Config::$variant(_) => ModelKind::$kind,)* }
            }

            /// The family of its architecture.
            fn family(&self) -> &'static str {
                match self { $(Config::$variant(_) => $tag,)* }
            }

            /// Names of the models, with their published settings.
            fn presets() -> Vec<(&'static str, Config)> {
                let mut all = Vec::new();
                $(all.extend($settings::presets().into_iter().map(|(name, settings)| {
                    (name, Config::$variant(settings))
                }));)*
                all
            }

            /// Reads all settings of the architecture called `name`; `None` if there is none.
            pub fn read<'de, D: Deserializer<'de>>(
                name: &str,
                settings: D,
            ) -> Option<Result<Self, D::Error>> {
                match name {
                    $($tag $(| $name)* => {
                        Some($settings::deserialize(settings).map(Config::$variant))
                    })*
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
    CrossAttention Imram(Imram) = "imram": "text-imram", "image-imram", "full-imram";
    /// One pass of attention.
    CrossAttention Scan(Scan) = "scan": "scan-t2i", "scan-i2t";
    /// Graph reasoning over similarity vectors, attention that filters them, or both.
    CrossAttention Sgraf(Sgraf) = "sgraf": "sgr", "saf";
    /// Attention above a threshold, and a penalty below it.
    CrossAttention Naaf(Naaf) = "naaf": ;
    /// Messages between regions and words, fused through gates.
    CrossAttention Camp(Camp) = "camp": "camp-cross", "camp-old", "camp-cross-old";
    /// One vector per side, a recurrent unit for captions.
    DualEncoder Vse(Vse) = "vse": "vse++", "vse0";
    /// One vector per side, pooled by rank.
    DualEncoder VseInfinity(VseInfinity) = "vse-infinity": ;
    /// Graph layers over regions, and captions that are written.
    DualEncoder Vsrn(Vsrn) = "vsrn": ;
    /// Several vectors per item, with a head of attention each.
    DualEncoder Pvse(Pvse) = "pvse": ;
    /// Layers on frozen embeddings.
    Heads Heads(Heads) = "heads": ;
}

/// What a model learns to do, as far as it matters to what it gains from a caption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelKind {
    /// It learns layers on vectors of frozen encoders.
    Heads,
    /// It learns to read, and compares an image and a caption as a whole.
    DualEncoder,
    /// It learns to read, and compares regions with words.
    CrossAttention,
}

impl Config {
    /// Names of the models.
    pub fn names() -> Vec<&'static str> {
        Self::presets().into_iter().map(|(name, _)| name).collect()
    }

    /// The published settings of one of [`names`](Self::names), or of the first of a family.
    pub fn named(name: &str) -> Option<Self> {
        let is_called =
            |(known, config): &(&str, Config)| *known == name || config.family() == name;
        Self::presets().into_iter().find(is_called).map(|(_, config)| config)
    }

    /// Names of families that are not names of models: [`named`](Self::named) knows them too.
    pub fn other_names() -> Vec<&'static str> {
        let names = Self::names();
        Self::FAMILIES.iter().copied().filter(|family| !names.contains(family)).collect()
    }

    /// Its name, whatever its other settings.
    pub fn name(&self) -> &str {
        self.architecture().name()
    }

    /// Whether it reads captions as words, rather than as vectors.
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
    /// If the architecture has no such setting: a flag must not be ignored.
    pub fn set(&mut self, setting: Setting) -> Result<(), Error> {
        if self.architecture_mut().set(setting) {
            return Ok(());
        }
        Err(Error::NoSuchSetting { flag: setting.flag(), model: self.name().to_owned() })
    }

    /// Adapts to images of so many regions, where weights depend on their number.
    pub fn fit(&mut self, regions: usize) {
        self.architecture_mut().fit(regions);
    }

    /// Rejects invalid settings.
    ///
    /// # Errors
    /// With the setting and the reason.
    pub fn check(&self) -> Result<(), Error> {
        self.architecture().check()
    }

    /// Number of parameters.
    pub fn weights(&self, inputs: Inputs) -> usize {
        let declared = self.architecture().declare(inputs);
        declared.iter().map(|weight| weight.shape.iter().product::<usize>()).sum()
    }
}

/// Rejects sizes that are 0 or too large.
pub(crate) fn check_size(name: &'static str, value: usize) -> Result<(), Error> {
    match value {
        0 => Err(Error::setting(name, "is 0; at least 1 is needed")),
        1..=LARGEST => Ok(()),
        _ => Err(Error::setting(name, format!("{value} is more than {LARGEST}"))),
    }
}

/// Rejects all but positive numbers.
pub(crate) fn check_positive(name: &'static str, value: f32) -> Result<(), Error> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(Error::setting(name, format!("{value} is not above 0")))
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
        assert_eq!(Config::other_names(), ["imram", "scan", "vse"]);
        for (family, name) in [("imram", "text-imram"), ("scan", "scan-t2i"), ("vse", "vse++")] {
            let config = Config::named(family).unwrap();
            assert_eq!((config.name(), config.family()), (name, family));
        }
        assert_eq!(Config::named("bert"), None);
    }

    #[test]
    fn files_have_the_names_of_flags_and_may_have_those_of_families() {
        for name in Config::names() {
            let config = Config::named(name).unwrap();
            let mut stored = serde_json::to_value(&config).unwrap();
            assert_eq!(stored["architecture"], name);
            assert_eq!(serde_json::from_value::<Config>(stored.clone()).unwrap(), config);
            stored["architecture"] = config.family().into();
            assert_eq!(serde_json::from_value::<Config>(stored.clone()).unwrap(), config);
            stored.as_object_mut().unwrap().remove("architecture");
            for known in [name, config.family()] {
                assert_eq!(Config::read(known, stored.clone()).unwrap().unwrap(), config);
            }
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
