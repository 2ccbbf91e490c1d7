//! What an experiment is run with, besides what its file says.

use std::sync::Arc;

use nextpair_data::dataset::TextSource;
use nextpair_models::{Device, Mixing};

/// What an experiment is run with. None of it is stored, and but for the last digits that a device
/// may round otherwise, none of it changes the results.
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
