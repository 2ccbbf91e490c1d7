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

mod arm;
mod file;
mod preset;
mod resolve;

use std::path::PathBuf;

use nextpair_data::Amount;
use nextpair_data::Side;
use nextpair_engine::BagOfWords;
use nextpair_models::{Config, Training};
use serde::{Deserialize, Serialize};

use crate::{ExperimentFolder, Round, World};

pub use arm::{Arm, expand};
pub use file::{ExperimentKeys, SettingsFile, parse_experiment, read_experiment};

/// An experiment with all settings resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// The dataset.
    pub dataset: PathBuf,
    /// The side of the unpaired items.
    pub pool: Side,
    /// Number of items paired from the start.
    pub initial: Amount,
    /// Number of items paired per round.
    pub budget: Amount,
    /// Number of rounds.
    pub rounds: usize,
    /// The strategies to compare.
    pub strategies: Vec<Arm>,
    /// The seeds. Each one is a repetition with its own draws and initial weights.
    pub seeds: Vec<u64>,
    /// The annotator.
    pub annotator: Annotator,
    /// The price of pairing an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
    /// The image features. The default is the last set added to the dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<String>,
    /// The text features, for models that do not read words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_features: Option<String>,
    /// The source of the vocabulary, if not the captions of train and dev.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<VocabularyOf>,
    /// A file of what people search for, for strategies with `queries`: lines of text, or vectors like
    /// the text features (`.npy`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queries: Option<PathBuf>,
    /// Minimum count of a word, for vocabularies that are not from a file.
    pub min_count: u64,
    /// Which items are train, dev and test.
    #[serde(default, skip_serializing_if = "Splits::is_of_dataset")]
    pub splits: Splits,
    /// The settings of visual words, for strategies with `bow`.
    #[serde(default, skip_serializing_if = "Bow::is_usual")]
    pub bow: Bow,
    /// How the pool differs from the dataset, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world: Option<World>,
    /// The test after every round.
    pub evaluation: Test,
    /// Ids of the only training items that take part. Without any, all do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// The model.
    pub model: Config,
    /// The training settings of every round. The seed is that of the repetition.
    pub training: Training,
}

impl Experiment {
    /// Returns the folder of the items: the dataset, or the world that was made of it in the folder of
    /// the experiment.
    pub fn items_in(&self, folder: &ExperimentFolder) -> PathBuf {
        if self.world.is_some() { folder.world() } else { self.dataset.clone() }
    }

    /// Returns whether a round belongs to this experiment.
    pub fn asks_for(&self, round: &Round) -> bool {
        self.seeds.contains(&round.seed)
            && round.round <= self.rounds
            && round.strategy.is_none_or(|arm| self.strategies.contains(&arm))
    }
}

/// The source of a model's vocabulary: a file, or `paired`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PathBuf", into = "PathBuf")]
pub enum VocabularyOf {
    /// The captions that are paired from the start. Words of later captions stay unknown, so that
    /// the size of the model does not change between rounds.
    Paired,
    /// A vocabulary file.
    File(PathBuf),
}

impl From<PathBuf> for VocabularyOf {
    fn from(path: PathBuf) -> Self {
        if path.as_os_str() == PAIRED { VocabularyOf::Paired } else { VocabularyOf::File(path) }
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

/// The value for the captions that are paired from the start. A file of this name is `./paired`.
const PAIRED: &str = "paired";

/// Which items are train, dev and test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Splits {
    /// Those of the dataset, for all seeds.
    #[default]
    Dataset,
    /// Every seed draws its own from the items of all three, with the same sizes. All strategies of a
    /// seed share them. Intervals over seeds then hold for new test images too.
    Redraw,
}

impl Splits {
    fn is_of_dataset(&self) -> bool {
        *self == Splits::Dataset
    }
}

/// Settings of the visual words of `bow`: k-means on a sample of all regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bow {
    /// Number of regions in the sample.
    pub sample: usize,
    /// Maximum number of k-means iterations.
    pub iterations: usize,
    /// Whether to find the words once and share them between all seeds and selections of an
    /// experiment. Otherwise every selection finds its own.
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

/// The test after every round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Test {
    /// The name of the split.
    pub split: String,
    /// Number of folds to average over. Each number is a test of its own: all are reported, and the
    /// first one decides which strategy is better.
    pub folds: Vec<usize>,
}

impl Default for Test {
    fn default() -> Self {
        Test { split: nextpair_data::dataset::TEST.to_owned(), folds: vec![1] }
    }
}

/// The annotator of picked items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Annotator {
    /// The dataset, which has the other half of every item.
    #[default]
    Oracle,
    /// The dataset, with mistakes.
    Noisy(Noise),
    /// People. The experiment writes a queue and stops until their answers are there.
    Human,
}

/// Mistakes of an annotator, as shares of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Noise {
    /// Share of items that get the other half of another training item.
    pub wrong: f64,
    /// Share of items that swap their other halves in twos.
    pub swapped: f64,
}
