//! Records that an experiment stores about itself.

use nextpair_engine::Effect;
use nextpair_models::{Evaluation, Origin};
use serde::{Deserialize, Serialize};

use crate::Arm;

/// A finished round: a line of `rounds.jsonl`. The seal of the line says that nobody changed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The seed of the draws and of the initial weights.
    pub seed: u64,
    /// The strategy. All strategies share round 0, which has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Arm>,
    /// Number of batches bought before training, from 0.
    pub round: usize,
    /// Number of paired items.
    pub paired: usize,
    /// Number of items paid for, if picks could not be captioned: the paired ones and those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bought: Option<usize>,
    /// Number of training pairs. An item may have several captions.
    pub pairs: usize,
    /// Number of unpaired items.
    pub pool: usize,
    /// The batch of this round. Round 0 has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// Evaluations on the test split, one for every number of folds.
    pub test: Vec<Evaluation>,
    /// Evaluation on dev, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev: Option<Evaluation>,
    /// The epoch of the weights, from 1.
    pub epoch: usize,
    /// The fingerprint of the weights.
    pub weights: String,
    /// The fingerprint of the ranks of all test queries.
    pub ranks: String,
    /// Origins of the picks, the training and the evaluation.
    pub made_by: Vec<Origin>,
    /// Time and memory by phase.
    pub phases: Vec<Phase>,
}

impl Round {
    /// Returns the number of items paid for. Strategies are compared at equal numbers of them.
    pub fn paid_for(&self) -> usize {
        self.bought.unwrap_or(self.paired)
    }
}

/// The selection of a batch, and its annotation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Number of picks.
    pub picked: usize,
    /// Number of picks that came back without their other half.
    pub skipped: usize,
    /// Number of picks that nobody answered: they are back in the pool.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unanswered: usize,
    /// Number of pairs that a noisy annotator made wrong on purpose.
    pub wrong: usize,
    /// Size of the pool that the strategy chose from.
    pub pool: usize,
    /// Number of items that were left out of it because they look like refused ones, for strategies
    /// with `usable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<usize>,
    /// Number of items that were left out of it as duplicates, for strategies with `dedupe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicates: Option<usize>,
    /// Number of pool items with at least one hit, for strategies that use hits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_negatives: Option<u64>,
    /// Number of picks without a hit, for strategies that use hits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_hit: Option<usize>,
    /// What the picks change together, for strategies that measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// What looked wrong about the selection.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// The fingerprint of the picks.
    pub picks: String,
    /// The fingerprint of the human answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
    /// The fingerprint of the features of new captions, for models on text features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captions: Option<String>,
    /// The fingerprint of the features of new images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<String>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Batch {
    /// Returns the percentage of the pool with at least one hit (Table 4 of the paper).
    pub fn hard_negative_share(&self) -> Option<f64> {
        self.hard_negatives.map(|count| 100.0 * count as f64 / self.pool as f64)
    }
}

/// Something about a selection that people should look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warning {
    /// Its name, such as `near-chance` (`nextpair_engine::Finding::kind`).
    pub kind: String,
    /// A sentence without its full stop.
    pub text: String,
}

/// Time and memory of a phase of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// `training`, `evaluation`, `selection` or `other`.
    pub name: String,
    /// Seconds.
    pub seconds: f64,
    /// Peak memory of the process in bytes, if the system reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

/// The origin of an experiment: `experiment.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentManifest {
    /// The format version, 1.
    pub nextpair_scenario: u32,
    /// The version of nextpair that created it.
    pub version: String,
    /// The vector unit it was started on.
    pub unit: String,
    /// The name of the dataset.
    pub dataset: String,
    /// Whether a program generated the dataset. Output must say so.
    pub synthetic: bool,
    /// Number of items that could be paired. Shares refer to it.
    pub items: usize,
    /// The machine it was started on.
    pub machine: Machine,
    /// Fingerprints of files that must not change: items and features of the dataset, the
    /// vocabulary.
    pub files: std::collections::BTreeMap<String, String>,
}

/// The machine of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The model name of the CPU.
    pub cpu: String,
    /// Number of threads.
    pub threads: usize,
    /// The operating system and the architecture.
    pub system: String,
}
