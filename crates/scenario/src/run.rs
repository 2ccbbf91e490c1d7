//! An experiment: what is done in which order, and what is written down.

mod captions;
mod choose;
mod clock;
mod create;
mod fingerprints;
mod lane;
mod learn;
mod people;
mod schedule;
mod strategies;
mod words;

use std::sync::{Mutex, MutexGuard, PoisonError};

use nextpair_data::text::Vocabulary;
use nextpair_data::{FolderLock, Progress};
use nextpair_models::{Corpus, Origin};

use crate::folder::Journal;
use crate::plan::Plan;
use crate::{
    Annotator, Experiment, ExperimentFolder, ExperimentManifest, ItemVectors, Options, Round,
};
pub(crate) use create::corpus_of;
pub use people::Waiting;
use words::SeedWords;

/// An opened experiment that this process may write to.
pub struct Scenario {
    folder: ExperimentFolder,
    experiment: Experiment,
    options: Options,
    manifest: ExperimentManifest,
    corpus: Corpus,
    /// The words of all seeds, for models that read.
    vocabulary: Option<Vocabulary>,
    seed_words: SeedWords,
    plan: Plan,
    /// Shared by the lanes.
    vectors: ItemVectors,
    /// The items of the test.
    test: Vec<usize>,
    done: Mutex<Done>,
    /// Held while the model of a round 0, which several strategies may want, is opened or trained.
    shared: Mutex<()>,
    /// Who was let in besides the version and the unit that the experiment was begun with.
    continued_by: Vec<Origin>,
    note: Option<String>,
    _lock: FolderLock,
}

/// The finished rounds, in memory and on disk.
struct Done {
    rounds: Vec<Round>,
    journal: Journal,
}

/// Told what an experiment does.
pub trait Observer: Progress {
    /// A round is finished. `rounds` are all that are.
    fn finished(&self, round: &Round, rounds: &[Round]);
}

impl Observer for () {
    fn finished(&self, _: &Round, _: &[Round]) {}
}

impl Scenario {
    /// Where it lies.
    pub fn folder(&self) -> &ExperimentFolder {
        &self.folder
    }

    /// The settings.
    pub fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    /// Where and with what it was made.
    pub fn manifest(&self) -> &ExperimentManifest {
        &self.manifest
    }

    /// A note for whoever goes on with the experiment: who has worked on it.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// The dataset as the model takes it.
    pub fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// How many items are paired in a round.
    pub fn paired(&self, round: usize) -> usize {
        self.plan.size(round)
    }

    /// Images of dev by which the best of the last epochs is chosen. Without any, the weights of
    /// the last epoch are kept.
    pub fn validation_images(&self) -> usize {
        let training = &self.experiment.training;
        match training.validate_last {
            0 => 0,
            _ => self.corpus.dev_items(training.validate_images).len(),
        }
    }

    /// Human annotators: items that are neither learned from nor asked about, because they have
    /// both halves but no split, and the training items are those of the split `train`.
    pub fn left_out(&self) -> usize {
        self.plan.left_out().len()
    }

    /// Human annotators: items of the first pool that have both halves, which `initial` counts as
    /// unpaired.
    pub fn asked_again(&self) -> usize {
        match self.experiment.annotator {
            Annotator::Human => self.plan.unpaired_whole(),
            _ => 0,
        }
    }

    /// The rounds that are finished, in the order in which they were.
    pub fn rounds(&self) -> Vec<Round> {
        self.done().rounds.clone()
    }

    fn done(&self) -> MutexGuard<'_, Done> {
        // Whoever panicked while holding it had not begun to change it.
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
