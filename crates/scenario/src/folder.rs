//! The folder of an experiment.
//!
//! ```text
//! EXPERIMENT/
//!   experiment.toml        what was asked for, resolved: can be run again as it is
//!   experiment.json        version, machine, fingerprints of the dataset
//!   vocabulary.json        the words, for models that read
//!   seed-0/vocabulary.json the same where every seed has words of its own
//!   rounds.jsonl           one line per finished round, each sealed with those before it
//!   seed-0/round-0/        the model that all strategies of the seed start from
//!   seed-0/random/
//!     picks-1.jsonl        what was picked after round 0, and why
//!     picks-1.json         how many hard negatives there were, how long it took
//!     answers-1.jsonl      human annotators: what they had said when the batch was complete
//!     captions-1.npy       features of the captions in it, for models that take them
//!     round-1/             the model that learned from it
//!   queue.jsonl, .csv, ... human annotators: what is waiting for them
//!   answers.jsonl          everything they said
//!   dataset/               the dataset with their answers in it
//!   .lock                  held by the process that writes to the folder
//!   .waiting               held by the process that goes on when people are done
//! ```

mod journal;

use std::path::{Path, PathBuf};

use nextpair_data::{FolderLock, ordinary};

use crate::{Arm, Error, ExperimentManifest};
pub(crate) use journal::{Journal, Record};

/// The name of the manifest, and what older versions called it: models had one of the same name.
const MANIFEST: &str = "experiment.json";
const OLDER_MANIFEST: &str = "run.json";

/// The name of the same file in the folder of a model, where older versions had `run.json` too.
const MODEL: &str = "model.json";
const OF_A_MODEL: &str = "the folder of a model, not of an experiment";

/// The lock of whoever goes on when people are done.
const WAITING: &str = ".waiting";

/// The version of the format.
pub(crate) const VERSION: u32 = 1;

/// The places of an experiment's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentFolder(PathBuf);

impl ExperimentFolder {
    /// The folder of this name. Nothing is looked at.
    pub fn new(path: &Path) -> Self {
        ExperimentFolder(path.to_path_buf())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The resolved experiment.
    pub fn experiment(&self) -> PathBuf {
        self.0.join("experiment.toml")
    }

    /// The manifest. Folders of older versions keep the name that it had in them.
    pub fn manifest(&self) -> PathBuf {
        let (path, older) = (self.0.join(MANIFEST), self.0.join(OLDER_MANIFEST));
        if !path.exists() && older.exists() { older } else { path }
    }

    /// The finished rounds.
    pub fn rounds(&self) -> PathBuf {
        self.0.join("rounds.jsonl")
    }

    /// The words.
    pub fn vocabulary(&self) -> PathBuf {
        self.0.join("vocabulary.json")
    }

    /// The words of a seed, where seeds have their own.
    pub fn seed_vocabulary(&self, seed: u64) -> PathBuf {
        self.lane(seed, None).join("vocabulary.json")
    }

    /// The queue that waits for people.
    pub fn queue(&self) -> PathBuf {
        self.0.join("queue.jsonl")
    }

    /// Every answer of people.
    pub fn answers(&self) -> PathBuf {
        self.0.join("answers.jsonl")
    }

    /// Promises to go on with the experiment when people are done, for as long as the result lives.
    /// One process at a time can.
    pub fn promise_to_go_on(&self) -> Result<FolderLock, Error> {
        let busy = "another process waits for people, and goes on by itself when they are done";
        Ok(FolderLock::named(&self.0, WAITING, busy)?)
    }

    /// Whether another process promised to go on.
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

    /// The model of a round. Round 0 belongs to all strategies.
    pub fn model(&self, seed: u64, strategy: Option<&Arm>, round: usize) -> PathBuf {
        self.lane(seed, strategy.filter(|_| round > 0)).join(format!("round-{round}"))
    }

    /// The picks of a strategy for a round, from 1.
    pub fn picks(&self, seed: u64, strategy: &Arm, round: usize) -> PathBuf {
        self.lane(seed, Some(strategy)).join(format!("picks-{round}.jsonl"))
    }

    /// The answers of people to the picks of a round when it was closed.
    pub fn closed(&self, seed: u64, strategy: &Arm, round: usize) -> PathBuf {
        self.lane(seed, Some(strategy)).join(format!("answers-{round}.jsonl"))
    }

    /// The features of the captions that people wrote for a round, for models that take them.
    pub fn captions(&self, seed: u64, strategy: &Arm, round: usize) -> PathBuf {
        self.lane(seed, Some(strategy)).join(format!("captions-{round}.npy"))
    }

    fn lane(&self, seed: u64, strategy: Option<&Arm>) -> PathBuf {
        let seed = self.0.join(format!("seed-{seed}"));
        strategy.map_or_else(|| seed.clone(), |strategy| seed.join(strategy.to_string()))
    }
}

/// The error for a folder that holds no experiment.
pub(crate) fn no_experiment(path: &Path) -> Error {
    if path.join(MODEL).exists() {
        return Error::file(path, OF_A_MODEL);
    }
    Error::file(path, format!("not an experiment: there is no {MANIFEST} in it"))
}

/// Reads the manifest of an experiment.
pub(crate) fn read_manifest(path: &Path) -> Result<ExperimentManifest, Error> {
    // The version is looked at first: a newer format may have fields that we do not know.
    #[derive(serde::Deserialize)]
    struct Version {
        nextpair_scenario: Option<u32>,
    }
    let text = ordinary::read(path)?;
    let wrong = |e: serde_json::Error| Error::file(path, e.to_string());
    match serde_json::from_slice::<Version>(&text).map_err(wrong)?.nextpair_scenario {
        Some(VERSION) => serde_json::from_slice(&text).map_err(wrong),
        Some(other) => {
            Err(Error::file(path, format!("format {other}; this version reads {VERSION}")))
        }
        None => Err(Error::file(path, OF_A_MODEL)),
    }
}
