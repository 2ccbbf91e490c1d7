//! Experiments that run: training, selection and annotation by round, with records of each step.

mod choose;
mod clock;
mod create;
mod encoded;
mod ensembles;
mod fingerprints;
mod lane;
mod learn;
mod logs;
mod people;
mod queries;
mod rounds;
mod schedule;
mod strategies;
mod words;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use nextpair_data::text::Vocabulary;
use nextpair_data::{FolderLock, Progress};
use nextpair_models::{Corpus, Origin, Plateau, Unused};

use crate::folder::Journal;
use crate::plan::Plan;
use crate::{
    Annotator, Experiment, ExperimentFolder, ExperimentManifest, ItemVectors, Options, Queries,
    Round,
};
pub(crate) use create::{corpus_of, no_words, unused};
pub use people::Waiting;
use words::OwnReadings;

/// An open experiment, locked for writing by this process.
pub struct Scenario {
    folder: ExperimentFolder,
    experiment: Experiment,
    options: Options,
    manifest: ExperimentManifest,
    corpus: Corpus,
    /// The vocabulary of all seeds, for models that read words, unless every seed has its own.
    vocabulary: Option<Vocabulary>,
    /// The readings of seeds with words or splits of their own.
    own: OwnReadings,
    plan: Plan,
    /// What people search for, if strategies ask for it.
    queries: Option<Queries>,
    /// Item vectors, shared by the lanes.
    vectors: ItemVectors,
    done: Mutex<Done>,
    /// Held while logs for other tools are written: when those of unfinished rounds were last.
    logs: Mutex<Option<Instant>>,
    /// The accepted versions and vector units besides those of the manifest.
    continued_by: Vec<Origin>,
    note: Option<String>,
    _lock: FolderLock,
}

/// The finished rounds, in memory and on disk.
struct Done {
    rounds: Vec<Round>,
    journal: Journal,
}

/// Receives the progress of an experiment.
pub trait Observer: Progress {
    /// Called when a round is finished. `rounds` holds all finished rounds.
    fn finished(&self, round: &Round, rounds: &[Round]);

    /// Called when the training of a round has learned nothing; `why` says how that is known and
    /// what to do.
    fn learned_nothing(&self, _round: &Round, _why: &Plateau) {}

    /// Called when the training of a round should have gone on: this share of the fall of its loss
    /// came in the last quarter of its epochs.
    fn cut_short(&self, _round: &Round, _share: f64) {}
}

impl Observer for () {
    fn finished(&self, _: &Round, _: &[Round]) {}
}

impl Scenario {
    /// Returns the folder of the experiment.
    pub fn folder(&self) -> &ExperimentFolder {
        &self.folder
    }

    /// Returns the settings.
    pub fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &ExperimentManifest {
        &self.manifest
    }

    /// Returns a note for the user if other versions or vector units have worked on the experiment.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Returns the dataset as inputs of the model.
    pub fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// Returns the captions that are not learned from in any round, because features are missing.
    pub fn unused(&self) -> Vec<Unused> {
        unused(&self.experiment, &self.corpus)
    }

    /// Returns the number of paired items in a round.
    pub fn paired(&self, round: usize) -> usize {
        self.plan.size(round)
    }

    /// Returns the number of dev images that choose the best of the last epochs. Without any, the
    /// weights of the last epoch are kept. A mean of epochs is evaluated on them, not chosen.
    pub fn validation_images(&self) -> usize {
        let training = &self.experiment.training;
        match training.validate_last {
            0 => 0,
            _ => self.corpus.dev_items(training.validate_images).len(),
        }
    }

    /// Human annotators: returns the number of items that are neither trained on nor asked about,
    /// because they have both halves but no split in a dataset with a split `train`.
    pub fn left_out(&self) -> usize {
        self.plan.left_out().len()
    }

    /// Human annotators: returns the number of items in the first pool that have both halves,
    /// because `initial` counts them as unpaired.
    pub fn asked_again(&self) -> usize {
        match self.experiment.annotator {
            Annotator::Human => self.plan.unpaired_whole(),
            _ => 0,
        }
    }

    /// Returns the finished rounds, in order of completion.
    pub fn rounds(&self) -> Vec<Round> {
        self.done().rounds.clone()
    }

    fn done(&self) -> MutexGuard<'_, Done> {
        // A thread that panicked with the lock had not begun to change the rounds.
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
