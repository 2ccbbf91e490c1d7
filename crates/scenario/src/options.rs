//! Options to run an experiment that are not part of its settings.

use std::sync::Arc;

use nextpair_data::dataset::FeatureSource;
use nextpair_models::{Device, LogFormat, Mixing};

/// Options to run an experiment. They are not stored, and change no result, except that another
/// device, or training together on a GPU, may round the last digits differently.
#[derive(Clone)]
pub struct Options {
    /// The device of the models.
    pub device: Device,
    /// Encoders of new captions, for models on text features, and of new images.
    pub source: Option<Arc<dyn FeatureSource>>,
    /// Whether to continue an experiment of another version or vector unit. The journal records it.
    pub mixing: Mixing,
    /// The logs for other tools that are written beside the results.
    pub logs: Vec<LogFormat>,
    /// Whether the models of a round train together, if their architecture can and annotators are
    /// simulated. By default they do on a GPU.
    pub together: Option<bool>,
}

impl Default for Options {
    /// Returns options for the CPU, without encoders, mixing and logs.
    fn default() -> Self {
        let (device, mixing) = (Device::Cpu, Mixing::Refuse);
        Options { device, source: None, mixing, logs: Vec::new(), together: None }
    }
}
