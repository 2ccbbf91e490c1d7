//! An experiment: the file that people write, and its meaning.
//!
//! ```toml
//! dataset = "f8k"
//! pool = "image"                       # the unpaired half: image or text
//! initial = 0.30                       # a share of the training items, or a count
//! budget = 0.05                        # bought every round
//! rounds = 3
//! strategies = ["random", "hard-negative", "hard-negative+mini-2560+top-5+count"]
//! seeds = [0, 1, 2]
//! annotator = "oracle"                 # human, or { noisy = { wrong = 0.1, swapped = 0.1 } }
//! price = 0.25                         # of a caption, for the report
//!
//! [evaluation]
//! split = "test"
//! folds = [1]
//!
//! [model]
//! architecture = "vse"
//!
//! [training]
//! epochs = 20
//! ```

mod amount;
mod arm;
mod file;
mod resolve;

use std::path::PathBuf;

use nextpair_data::Side;
use nextpair_engine::BagOfWords;
use nextpair_models::{Config, Training};
use serde::{Deserialize, Serialize};

use crate::Round;

pub use amount::Amount;
pub(crate) use amount::floor;
pub use arm::{Arm, MiniBatch, expand};
pub use file::{ExperimentKeys, SettingsFile, read_experiment};
pub(crate) use resolve::first_difference;

/// An experiment in which every setting is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The dataset.
    pub dataset: PathBuf,
    /// The half that unpaired items have.
    pub pool: Side,
    /// Items that are paired from the start.
    pub initial: Amount,
    /// Items that are paired in a round.
    pub budget: Amount,
    /// How often a batch is bought.
    pub rounds: usize,
    /// Who chooses, each for itself.
    pub strategies: Vec<Arm>,
    /// One repetition each, with draws and first weights of its own.
    pub seeds: Vec<u64>,
    /// Who pairs.
    pub annotator: Annotator,
    /// The cost of pairing an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
    /// The image features, the last that were added unless named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<String>,
    /// The text features, for models that do not read words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_features: Option<String>,
    /// Other words than those of train and dev.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<VocabularyOf>,
    /// How often a word is seen at least, unless words are from a file.
    pub min_count: u64,
    /// How visual words are found, for strategies with `bow`.
    #[serde(default, skip_serializing_if = "Bow::is_usual")]
    pub bow: Bow,
    /// The test at the end of every round.
    pub evaluation: Test,
    /// The model.
    pub model: Config,
    /// How it is trained in every round. The seed is that of the repetition.
    pub training: Training,
}

impl Experiment {
    /// Whether a round is among what was asked for.
    pub fn asks_for(&self, round: &Round) -> bool {
        self.seeds.contains(&round.seed)
            && round.round <= self.rounds
            && round.strategy.is_none_or(|arm| self.strategies.contains(&arm))
    }
}

/// The source of a model's words: a file, or `paired`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PathBuf", into = "PathBuf")]
pub enum VocabularyOf {
    /// The captions that are paired from the start. Words that come later are unknown: the size of
    /// a model does not change between rounds.
    Paired,
    /// A file of words.
    File(PathBuf),
}

impl From<PathBuf> for VocabularyOf {
    fn from(path: PathBuf) -> Self {
        match path.as_os_str() == PAIRED {
            true => VocabularyOf::Paired,
            false => VocabularyOf::File(path),
        }
    }
}

impl From<VocabularyOf> for PathBuf {
    fn from(words: VocabularyOf) -> Self {
        match words {
            VocabularyOf::Paired => PAIRED.into(),
            VocabularyOf::File(path) => path,
        }
    }
}

/// Stands for the captions that are paired from the start. A file of this name is `./paired`.
const PAIRED: &str = "paired";

/// How the visual words of `bow` are found: k-means on a sample of all regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bow {
    /// Regions that are drawn for it.
    pub sample: usize,
    /// Rounds of k-means at most.
    pub iterations: usize,
    /// Found once, by the same draw for all seeds, and shared by all selections of an experiment.
    /// Otherwise every selection draws and finds its own.
    pub once: bool,
}

impl Default for Bow {
    fn default() -> Self {
        let BagOfWords { sample, iterations, .. } = BagOfWords::default();
        Bow { sample, iterations, once: false }
    }
}

impl Bow {
    fn is_usual(&self) -> bool {
        *self == Bow::default()
    }
}

/// The test at the end of every round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Test {
    /// The split.
    pub split: String,
    /// In how many parts, averaged. Several numbers are several evaluations: all are reported, and
    /// the first decides which strategy is better.
    pub folds: Vec<usize>,
}

impl Default for Test {
    fn default() -> Self {
        Test { split: nextpair_data::dataset::TEST.to_owned(), folds: vec![1] }
    }
}

/// Who pairs what was picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Annotator {
    /// The dataset itself: it has had the other half all along.
    #[default]
    Oracle,
    /// The dataset, with mistakes.
    Noisy(Noise),
    /// People: the experiment writes a queue and stops until their answers are there.
    Human,
}

/// Mistakes of an annotator, as shares of the items of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Noise {
    /// Items that get the other half of some other training item.
    pub wrong: f64,
    /// Items whose other halves are exchanged, two and two.
    pub swapped: f64,
}
