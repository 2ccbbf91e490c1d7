//! The means to run an experiment: settings that are not part of it.

use std::sync::Arc;

use nextpair_data::dataset::TextSource;
use nextpair_models::{Device, Mixing};

/// The means to run an experiment. They are not stored, and change no result, except that another
/// device may round the last digits otherwise.
#[derive(Clone)]
pub struct Options {
    /// Where models compute.
    pub device: Device,
    /// Gives features to the captions that people write, for models that take text features.
    pub text_source: Option<Arc<dyn TextSource>>,
    /// Whether to go on with what another version or another vector unit has worked on. Where that
    /// happens it is written down.
    pub mixing: Mixing,
}

impl Default for Options {
    /// On the CPU, without a source of text features, never mixed.
    fn default() -> Self {
        Options { device: Device::Cpu, text_source: None, mixing: Mixing::Refuse }
    }
}
