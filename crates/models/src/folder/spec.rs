//! The resolved settings of a model folder.

use std::collections::BTreeMap;
use std::path::Path;

use nextpair_data::dataset::Dataset;
use nextpair_data::{fingerprint, ordinary};
use serde::{Deserialize, Serialize};

use super::files::{SPEC, write};
use crate::{Config, Device, Error, Inputs, Makers, Origin, Training};

/// Version of the format.
const VERSION: u32 = 1;

/// The resolved settings of a model and its training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Version of the format, 1.
    pub nextpair_run: u32,
    /// Version of nextpair that created it.
    pub version: String,
    /// Vector unit that training began on.
    pub unit: String,
    /// Other versions and vector units that trained it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub continued_by: Vec<Origin>,
    /// The dataset, by the name it was given.
    pub dataset: String,
    /// The model.
    pub model: Config,
    /// Inputs of the model.
    pub inputs: Inputs,
    /// Name of the image features.
    pub image_features: String,
    /// Name of the text features, unless the model reads words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_features: Option<String>,
    /// Whether it was trained elsewhere; then only the epochs of its training are known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
    /// Settings of the training.
    pub training: Training,
    /// The model whose weights it began with, by the name it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Fingerprints of the files beside it that must not change. In the file, also that of the settings
    /// themselves.
    pub files: BTreeMap<String, String>,
}

impl Spec {
    /// A spec for this version.
    pub fn new(
        dataset: &Dataset,
        model: Config,
        inputs: Inputs,
        (image_features, text_features): (String, Option<String>),
        training: Training,
    ) -> Self {
        let name = dataset.manifest().name.clone();
        Self::of(name, model, inputs, (image_features, text_features), training)
    }

    /// The same, for a model that another device begins than the CPU.
    pub fn made_on(self, device: Device) -> Self {
        Spec { unit: Origin::of(device).unit, ..self }
    }

    fn of(
        dataset: String,
        model: Config,
        inputs: Inputs,
        (image_features, text_features): (String, Option<String>),
        training: Training,
    ) -> Self {
        let Origin { version, unit } = Origin::of(Device::Cpu);
        Spec {
            nextpair_run: VERSION,
            version,
            unit,
            continued_by: Vec::new(),
            dataset,
            model,
            inputs,
            image_features,
            text_features,
            adopted: false,
            training,
            start: None,
            files: BTreeMap::new(),
        }
    }

    /// The versions and vector units that have trained it so far.
    pub fn makers(&self) -> Makers<'_> {
        Makers { version: &self.version, unit: &self.unit, continued_by: &self.continued_by }
    }

    /// A spec of a model that was trained elsewhere. It takes whatever image features a dataset
    /// has.
    pub(super) fn adopted(origin: &Path, model: Config, inputs: Inputs, epochs: usize) -> Self {
        let training = Training { epochs, ..Training::default() };
        let features = (String::new(), None);
        let spec = Self::of(origin.display().to_string(), model, inputs, features, training);
        Spec { adopted: true, ..spec }
    }

    /// Reads and checks what [`write`](Self::write) wrote.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        // Check the version first: a newer format may have unknown fields.
        #[derive(Deserialize)]
        struct Head {
            nextpair_run: u32,
        }
        let text = ordinary::read(path)?;
        let wrong = |e: serde_json::Error| Error::file(path, e.to_string());
        let Head { nextpair_run: version } = serde_json::from_slice(&text).map_err(wrong)?;
        if version != VERSION {
            let what = format!("format {version}; this version reads {VERSION}");
            return Err(Error::file(path, what));
        }
        let mut spec: Spec = serde_json::from_slice(&text).map_err(wrong)?;
        let what = match spec.files.remove(SPEC) {
            Some(own) if own == fingerprint_of_settings(&text).map_err(wrong)? => None,
            Some(_) => Some("damaged, or changed after the model was made"),
            None => Some("without a fingerprint of itself: damaged"),
        };
        if let Some(what) = what {
            return Err(Error::file(path, what));
        }
        spec.model.check()?;
        spec.training.check()?;
        Ok(spec)
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), Error> {
        let text = |spec: &Spec| {
            let text = serde_json::to_string_pretty(spec)?;
            Ok(text + "\n")
        };
        let sealed = || {
            let own = fingerprint_of_settings(text(self)?.as_bytes())?;
            let mut sealed = self.clone();
            sealed.files.insert(SPEC.to_owned(), own);
            text(&sealed)
        };
        let sealed = sealed().map_err(|e: serde_json::Error| Error::file(path, e.to_string()))?;
        write(path, sealed.as_bytes())
    }
}

/// The fingerprint of written settings, whatever their layout, without that fingerprint.
fn fingerprint_of_settings(text: &[u8]) -> Result<String, serde_json::Error> {
    let mut settings: serde_json::Value = serde_json::from_slice(text)?;
    if let Some(files) = settings.get_mut("files").and_then(|files| files.as_object_mut()) {
        files.remove(SPEC);
    }
    Ok(fingerprint(settings.to_string().as_bytes()))
}

/// Edited settings, with the fingerprint of what they are now.
#[cfg(test)]
pub(crate) fn resealed(text: &str, edit: impl FnOnce(String) -> String) -> String {
    let own = |text: &str| fingerprint_of_settings(text.as_bytes()).unwrap_or_default();
    let edited = edit(text.to_owned());
    edited.replace(&own(text), &own(&edited))
}
