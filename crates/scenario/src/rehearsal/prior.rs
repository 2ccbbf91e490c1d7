//! What to expect of a strategy before it is rehearsed: the default one, or what paid with models of the same kind in the
//! experiments of `docs/when-it-pays.md`.

use nextpair_data::Side;
use nextpair_engine::{BuiltIn, CoreSet, ItemFeatures};
use nextpair_models::ModelKind;
use serde::Serialize;

use crate::{Annotator, Arm, Experiment};

/// A strategy that is expected to pay with a kind of model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prior {
    /// The kind of model.
    pub kind: ModelKind,
    /// The models of this kind.
    pub models: &'static str,
    /// The strategy.
    pub strategy: Arm,
    /// Where it is not the default strategy, what is known of it on Flickr8k, where everything in the pool could be
    /// captioned: a number of experiments, and the random captions that one of its captions replaced in them, the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<(usize, f64)>,
}

impl Prior {
    /// Returns what is expected to pay with a kind of model.
    pub(super) fn with(kind: ModelKind) -> Self {
        let usual = Arm::new(BuiltIn::default());
        let (models, strategy, found) = match kind {
            ModelKind::Heads => ("heads on frozen encoders", usual, None),
            ModelKind::DualEncoder => ("dual encoders", usual, None),
            // {imram-strategies,scan-strategies,imram-large}.toml
            ModelKind::CrossAttention => {
                let encoded = CoreSet { features: ItemFeatures::Encoded };
                ("Text-IMRAM and SCAN", Arm::new(encoded), Some((3, 1.13)))
            }
        };
        Prior { kind, models, strategy, found }
    }

    /// Returns what is expected to pay in an experiment. Where items may not be captioned, which a rehearsal does not
    /// see, the default strategy avoids what looks like it. `None` where core-set is expected and would lose by that, or
    /// where the pool is of texts, of which there was one experiment only.
    pub(super) fn of(experiment: &Experiment) -> Option<Self> {
        let junk = experiment.world.as_ref().is_some_and(|world| world.junk > 0.0);
        let sure = experiment.annotator != Annotator::Human && !junk;
        let mut prior = Self::with(experiment.model.kind());
        if prior.found.is_none() {
            prior.strategy.usable = !sure;
            return Some(prior);
        }
        (experiment.pool == Side::Image && sure).then_some(prior)
    }

    /// Returns the strategy as it is rehearsed, where everything is paired.
    pub(super) fn rehearsed(&self) -> Arm {
        Arm { usable: false, ..self.strategy }
    }

    /// Returns what it says, as a sentence or two.
    pub(super) fn shown(&self, budget: &str) -> String {
        let Prior { models, strategy, found, .. } = self;
        match found {
            None => format!(
                "{strategy} is expected to pay with {models}, and the rehearsal does not speak against it. Buy the \
                 next {budget} with it, or rehearse longer."
            ),
            Some((experiments, worth)) => format!(
                "{strategy} is expected to pay: in {experiments} experiments with {models} on Flickr8k, one of its \
                 captions was worth {worth:.2} random ones (median), and the rehearsal does not speak against it. Buy the \
                 next {budget} with it if nearly everything in your pool can be captioned, else at random; or rehearse \
                 longer."
            ),
        }
    }
}
