//! The folder of a run.
//!
//! ```text
//! RUN/
//!   experiment.toml        what was asked for, resolved: can be run again as it is
//!   run.json               version, machine, fingerprints of the dataset
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

use nextpair_data::dataset::Dataset;
use nextpair_data::text::Vocabulary;
use nextpair_data::{FolderLock, ordinary};
use nextpair_models::Corpus;

use crate::plan::{Plan, text_of};
use crate::run::corpus_of;
use crate::{Arm, Error, Experiment, Head, Round, VocabularyOf};
pub(crate) use journal::{Journal, Record};

/// The lock of whoever goes on when people are done.
const WAITING: &str = ".waiting";

/// The version of the format.
pub(crate) const VERSION: u32 = 1;

/// The places of a run's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder of this name. Nothing is looked at.
    pub fn new(path: &Path) -> Self {
        Folder(path.to_path_buf())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The resolved experiment.
    pub fn experiment(&self) -> PathBuf {
        self.0.join("experiment.toml")
    }

    /// The head of the run.
    pub fn head(&self) -> PathBuf {
        self.0.join("run.json")
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

    /// What is waiting for people.
    pub fn queue(&self) -> PathBuf {
        self.0.join("queue.jsonl")
    }

    /// What people said.
    pub fn answers(&self) -> PathBuf {
        self.0.join("answers.jsonl")
    }

    /// Promises to go on with the run when people are done, for as long as the result lives. One
    /// process at a time can.
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

    /// What a strategy picked for a round, from 1.
    pub fn picks(&self, seed: u64, strategy: &Arm, round: usize) -> PathBuf {
        self.lane(seed, Some(strategy)).join(format!("picks-{round}.jsonl"))
    }

    /// What people said about the picks of a round when it was closed.
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

/// A run to look at: what was asked for, and what is known so far.
#[derive(Clone, Debug)]
pub struct Study {
    /// Where it lies.
    pub folder: Folder,
    /// What was asked for.
    pub experiment: Experiment,
    /// Where and with what it ran.
    pub head: Head,
    /// The finished rounds, by seed, round and strategy, in the order of the experiment.
    pub rounds: Vec<Round>,
}

impl Study {
    /// Reads a run. It may still be running.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let folder = Folder::new(path);
        if !folder.head().exists() {
            return Err(Error::file(
                path,
                "not a run of an experiment: there is no run.json in it",
            ));
        }
        let head = read_head(&folder.head())?;
        let experiment = Experiment::read_resolved(&folder.experiment())?;
        let mut rounds = Journal::read(&folder.rounds())?.rounds;
        let place = |strategy: &Option<Arm>| {
            let at = |arm: &Arm| experiment.strategies.iter().position(|other| other == arm);
            strategy.as_ref().and_then(at)
        };
        rounds.sort_by_key(|round| (round.seed, round.round, place(&round.strategy)));
        Ok(Study { folder, experiment, head, rounds })
    }

    /// The rounds of a strategy and a seed, from the shared round 0 on, as far as they are known.
    pub fn lane(&self, seed: u64, strategy: &Arm) -> Vec<&Round> {
        let of_lane = |round: &&Round| {
            round.seed == seed && round.strategy.as_ref().is_none_or(|other| other == strategy)
        };
        let mut rounds: Vec<&Round> = self.rounds.iter().filter(of_lane).collect();
        rounds.sort_by_key(|round| round.round);
        rounds
    }

    /// A dataset as the models of a seed took it: captions without features are not in its pool.
    pub fn corpus(&self, seed: u64, dataset: Dataset) -> Result<Corpus, Error> {
        let own = self.experiment.vocabulary == Some(VocabularyOf::Paired);
        let path = if own { self.folder.seed_vocabulary(seed) } else { self.folder.vocabulary() };
        let words = match self.experiment.model.reads_words() {
            true => Some(Vocabulary::read(&path)?),
            false => None,
        };
        corpus_of(&self.experiment, dataset, words.as_ref())
    }

    /// The items that are unpaired while those of `paired` are not, in the order of the dataset.
    pub fn pool(&self, corpus: &Corpus, paired: &[usize]) -> Result<Vec<usize>, Error> {
        Ok(Plan::new(&self.experiment, corpus)?.pool(paired))
    }

    /// The caption that stands for an item in a pool of texts.
    pub fn text_of(&self, corpus: &Corpus, item: usize, seed: u64) -> Option<usize> {
        text_of(corpus, item, self.experiment.training.captions, seed)
    }
}

pub(crate) fn read_head(path: &Path) -> Result<Head, Error> {
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
        None => Err(Error::file(path, "the folder of a training, not of an experiment")),
    }
}
