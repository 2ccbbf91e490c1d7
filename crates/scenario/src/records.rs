//! Records that an experiment keeps of itself, for people and for reports.

use nextpair_models::{Evaluation, Origin};
use serde::{Deserialize, Serialize};

use crate::Arm;

/// A finished round: a line of `rounds.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Round {
    /// The seed of the draws and the first weights.
    pub seed: u64,
    /// The strategy that chose; round 0 is shared by all and has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Arm>,
    /// From 0: how many batches were bought before it.
    pub round: usize,
    /// Items that are paired.
    pub paired: usize,
    /// Pairs that the model learned from: items may have several captions.
    pub pairs: usize,
    /// Items that are still unpaired.
    pub pool: usize,
    /// How the batch of this round was chosen; round 0 has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// How the model does on the test split, once for every number of folds that was asked for.
    pub test: Vec<Evaluation>,
    /// How it did on dev, where it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev: Option<Evaluation>,
    /// The epoch of its weights, from 1.
    pub epoch: usize,
    /// The fingerprint of its weights.
    pub weights: String,
    /// Who picked, trained and evaluated; older versions did not write it down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made_by: Vec<Origin>,
    /// The time of every phase.
    pub phases: Vec<Phase>,
}

/// How a batch was chosen and what came back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Items that were picked.
    pub picked: usize,
    /// Items that came back without the other half.
    pub skipped: usize,
    /// Pairs that a noisy annotator made wrong on purpose.
    pub wrong: usize,
    /// Items that the pool had.
    pub pool: usize,
    /// Pool items with at least one hit, for strategies that look at hits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard_negatives: Option<u64>,
    /// Picks without a hit, for strategies that look at hits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_hit: Option<usize>,
    /// The fingerprint of the picks.
    pub picks: String,
    /// The fingerprint of what people said about them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
    /// The fingerprint of the features of the captions that they wrote, for models that take them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captions: Option<String>,
}

impl Batch {
    /// Percentage of the pool with at least one hit (Table 4 of the paper).
    pub fn hard_negative_share(&self) -> Option<f64> {
        self.hard_negatives.map(|count| 100.0 * count as f64 / self.pool as f64)
    }
}

/// Time and memory of a part of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// `training`, `evaluation`, `selection` or `other`.
    pub name: String,
    /// Seconds.
    pub seconds: f64,
    /// The most memory of the process meanwhile, in bytes, where the system tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

/// Where and with what an experiment is made: `experiment.json`, or `run.json` in folders of older
/// versions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentManifest {
    /// The version of the format, 1.
    pub nextpair_scenario: u32,
    /// The version of nextpair that made it.
    pub version: String,
    /// The vector unit that it was begun on; older versions did not write it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The name of the dataset.
    pub dataset: String,
    /// Whether it was made up by a program. Whoever shows numbers about it says so.
    pub synthetic: bool,
    /// Items that could be paired: the whole of which shares are meant.
    pub items: usize,
    /// Where it ran.
    pub machine: Machine,
    /// Fingerprints of what must stay as it is: the items and features of the dataset, the words.
    pub files: std::collections::BTreeMap<String, String>,
}

/// Where an experiment ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The processor as it calls itself.
    pub cpu: String,
    /// Threads that were used.
    pub threads: usize,
    /// The operating system and the architecture.
    pub system: String,
}
