//! What to expect of a strategy before it is rehearsed: what its captions were worth with models of the same
//! kind, in the experiments of `docs/when-it-pays.md`.

use nextpair_data::Side;
use nextpair_engine::{CoreSet, ItemFeatures, Novelty};
use nextpair_models::ModelKind;
use serde::Serialize;

use crate::{Annotator, Arm, Experiment};

/// A strategy that paid with a kind of model on Flickr8k, where everything in the pool could be captioned.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prior {
    /// The kind of model.
    pub kind: ModelKind,
    /// The models of the experiments.
    pub models: &'static str,
    /// The strategy.
    pub strategy: Arm,
    /// Number of experiments.
    pub experiments: usize,
    /// Random captions that one of its captions replaced, the median of the experiments.
    pub worth: f64,
}

impl Prior {
    /// Returns what pays with a kind of model and a pool of images. `None` for dual encoders, with which nothing
    /// does by as much as a tenth unless the pool has near-copies.
    pub(super) fn with(kind: ModelKind) -> Option<Self> {
        let (models, strategy, experiments, worth) = match kind {
            // heads-{encoded,regions,plain,hardest,info-nce,large-start,small-start,bursts}.toml
            ModelKind::Heads => ("heads on frozen encoders", Arm::new(Novelty::default()), 8, 1.12),
            ModelKind::DualEncoder => return None,
            // {imram-strategies,scan-strategies,imram-large}.toml
            ModelKind::CrossAttention => {
                let encoded = CoreSet { features: ItemFeatures::Encoded };
                ("Text-IMRAM and SCAN", Arm::new(encoded), 3, 1.13)
            }
        };
        Some(Prior { kind, models, strategy, experiments, worth })
    }

    /// Returns what is expected to pay in an experiment. `None` also for pools of texts, of which there was one
    /// experiment only, and where items may not be captioned: there it would lose, and a rehearsal does not see it.
    pub(super) fn of(experiment: &Experiment) -> Option<Self> {
        let junk = experiment.world.as_ref().is_some_and(|world| world.junk > 0.0);
        let sure = experiment.annotator != Annotator::Human && !junk;
        Self::with(experiment.model.kind()).filter(|_| experiment.pool == Side::Image && sure)
    }

    /// Returns what it says, as a sentence.
    pub(super) fn shown(&self) -> String {
        format!(
            "{} is expected to pay: in {} experiments with {} on Flickr8k, one of its captions was worth {:.2} random \
             ones (median), and the rehearsal does not speak against it.",
            self.strategy, self.experiments, self.models, self.worth
        )
    }
}
