//! The folder of an experiment.
//!
//! ```text
//! EXPERIMENT/
//!   experiment.toml        the resolved experiment, which can be run again as it is
//!   experiment.json        version, machine, fingerprints of the dataset
//!   world/                 the dataset with copies and junk, for experiments with a world
//!   queries.txt, .npy      what people search for, for strategies that ask
//!   vocabulary.json        the vocabulary, for models that read words
//!   seed-0/vocabulary.json the same, if every seed has its own
//!   rounds.jsonl           one line per finished round, sealed together with those before it
//!   ensembles.jsonl        which models trained together, if any did
//!   seed-0/round-0/        the model that all strategies of a seed share
//!   seed-0/ranks-0.npy     the rank of every test query with that model
//!   seed-0/random/
//!     picks-1.jsonl        the picks after round 0, with reasons
//!     picks-1.json         number of hard negatives, time of the selection
//!     answers-1.jsonl      human annotators: the answers to the complete batch
//!     captions-1.npy       features of the new captions, for models on text features
//!     images-1.npy         features of the new images
//!     round-1/             the model trained with this batch
//!     ranks-1.npy          the rank of every test query with that model
//!   queue.jsonl, .csv, ... human annotators: the tasks that wait for them
//!   answers.jsonl          all of their answers
//!   images/                images that they brought for texts, named by their bytes
//!   dataset/               the dataset with their answers
//!   tensorboard/, log.csv  logs for other tools, made of the above
//!   .lock                  held by the process that writes to the folder
//!   .waiting               held by the process that waits for answers
//! ```

mod journal;

use std::path::{Path, PathBuf};

use nextpair_data::{FolderLock, ordinary};

use crate::{Arm, Error, ExperimentManifest};
pub(crate) use journal::{Journal, Record};

/// Name of the manifest.
const MANIFEST: &str = "experiment.json";

/// Name of the manifest in a model folder.
const MODEL: &str = "model.json";

/// Name of the lock of the process that waits for answers.
const WAITING: &str = ".waiting";

/// The format version.
pub(crate) const VERSION: u32 = 1;

/// The paths of an experiment's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentFolder(PathBuf);

impl ExperimentFolder {
    /// Names a folder. This does not access the disk.
    pub fn new(path: &Path) -> Self {
        ExperimentFolder(path.to_path_buf())
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the resolved experiment.
    pub fn experiment(&self) -> PathBuf {
        self.0.join("experiment.toml")
    }

    /// Returns the path of the manifest.
    pub fn manifest(&self) -> PathBuf {
        self.0.join(MANIFEST)
    }

    /// Returns the path of the finished rounds.
    pub fn rounds(&self) -> PathBuf {
        self.0.join("rounds.jsonl")
    }

    /// Returns the path of the record of models that train together.
    pub fn ensembles(&self) -> PathBuf {
        self.0.join("ensembles.jsonl")
    }

    /// Returns the path of the dataset of a world.
    pub fn world(&self) -> PathBuf {
        self.0.join("world")
    }

    /// Returns the path of the queries: texts, or vectors for models on text features.
    pub fn queries(&self, texts: bool) -> PathBuf {
        self.0.join(if texts { "queries.txt" } else { "queries.npy" })
    }

    /// Returns the path of the vocabulary.
    pub fn vocabulary(&self) -> PathBuf {
        self.0.join("vocabulary.json")
    }

    /// Returns the path of the vocabulary of a seed, for experiments with one per seed.
    pub fn seed_vocabulary(&self, seed: u64) -> PathBuf {
        self.lane(seed, None).join("vocabulary.json")
    }

    /// Returns the path of the queue for annotators.
    pub fn queue(&self) -> PathBuf {
        self.0.join("queue.jsonl")
    }

    /// Returns the path of all answers of annotators.
    pub fn answers(&self) -> PathBuf {
        self.0.join("answers.jsonl")
    }

    /// Returns the folder of the images that answers brought.
    pub fn images(&self) -> PathBuf {
        self.0.join("images")
    }

    /// Announces that this process will continue the experiment when all answers are there. The
    /// lock lasts until the result is dropped. Only one process at a time can hold it.
    pub fn promise_to_go_on(&self) -> Result<FolderLock, Error> {
        let busy = "another process waits for people, and goes on by itself when they are done";
        Ok(FolderLock::named(&self.0, WAITING, busy)?)
    }

    /// Returns whether another process will continue the experiment.
    pub fn is_waited_at(&self) -> Result<bool, Error> {
        if !self.0.join(WAITING).exists() {
            return Ok(false);
        }
        match self.promise_to_go_on() {
            Ok(_) => Ok(false),
            Err(error) if error.is_busy() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Returns the path of the model of a round. All strategies share round 0.
    pub fn model(&self, seed: u64, strategy: Option<&Arm>, round: usize) -> PathBuf {
        self.lane(seed, strategy.filter(|_| round > 0)).join(format!("round-{round}"))
    }

    /// Returns the path of the ranks of all test queries after a round. All strategies share round 0.
    pub fn ranks(&self, seed: u64, strategy: Option<&Arm>, round: usize) -> PathBuf {
        self.lane(seed, strategy.filter(|_| round > 0)).join(format!("ranks-{round}.npy"))
    }

    /// Returns the path of the picks of a strategy for a round, from 1.
    pub fn picks(&self, seed: u64, strategy: &Arm, round: usize) -> PathBuf {
        self.lane(seed, Some(strategy)).join(format!("picks-{round}.jsonl"))
    }

    /// Returns the path of the answers to the picks of a closed round.
    pub fn closed(&self, seed: u64, strategy: &Arm, round: usize) -> PathBuf {
        self.lane(seed, Some(strategy)).join(format!("answers-{round}.jsonl"))
    }

    /// Returns the path of the features of new captions of a round, for models on text features.
    pub fn captions(&self, seed: u64, strategy: &Arm, round: usize) -> PathBuf {
        self.lane(seed, Some(strategy)).join(format!("captions-{round}.npy"))
    }

    /// Returns the path of the features of new images of a round.
    pub fn image_features(&self, seed: u64, strategy: &Arm, round: usize) -> PathBuf {
        self.lane(seed, Some(strategy)).join(format!("images-{round}.npy"))
    }

    fn lane(&self, seed: u64, strategy: Option<&Arm>) -> PathBuf {
        let seed = self.0.join(format!("seed-{seed}"));
        strategy.map_or_else(|| seed.clone(), |strategy| seed.join(strategy.to_string()))
    }
}

/// Returns the error for a folder without an experiment.
pub(crate) fn no_experiment(path: &Path) -> Error {
    if path.join(MODEL).exists() {
        return Error::file(path, "the folder of a model, not of an experiment");
    }
    let why = match path.is_dir() {
        true => format!(": there is no {MANIFEST} in it"),
        false => String::new(),
    };
    Error::file(path, format!("not an experiment{why}; make one with `nextpair run`"))
}

/// Reads the manifest of an experiment.
pub(crate) fn read_manifest(path: &Path) -> Result<ExperimentManifest, Error> {
    // Check the version first: a newer format may have unknown fields.
    #[derive(serde::Deserialize)]
    struct Version {
        nextpair_scenario: u32,
    }
    let text = ordinary::read(path)?;
    let wrong = |e: serde_json::Error| Error::file(path, e.to_string());
    match serde_json::from_slice::<Version>(&text).map_err(wrong)?.nextpair_scenario {
        VERSION => serde_json::from_slice(&text).map_err(wrong),
        other => Err(Error::file(path, format!("format {other}; this version reads {VERSION}"))),
    }
}
