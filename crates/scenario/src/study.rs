//! Experiments opened for reading, finished or not.

use std::path::Path;
use std::sync::Arc;

use nextpair_data::dataset::Dataset;
use nextpair_data::text::Vocabulary;
use nextpair_models::Corpus;

use crate::about::Subject;
use crate::folder::{Journal, no_experiment, read_manifest};
use crate::plan::{Plan, text_of};
use crate::run::corpus_of;
use crate::{Arm, Error, Experiment, ExperimentFolder, ExperimentManifest, Round, RoundRanks};

/// An experiment opened for reading: its settings and its results so far.
#[derive(Clone, Debug)]
pub struct Study {
    /// The folder of the experiment.
    pub folder: ExperimentFolder,
    /// The settings.
    pub experiment: Experiment,
    /// The manifest.
    pub manifest: ExperimentManifest,
    /// The finished rounds, by seed, round and strategy, in the order of the experiment.
    pub rounds: Vec<Round>,
    /// What the queries that count are about, if not all do.
    pub subject: Option<Arc<Subject>>,
}

impl Study {
    /// Reads an experiment. It may still be running.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let folder = ExperimentFolder::new(path);
        if !folder.manifest().exists() {
            return Err(no_experiment(path));
        }
        let manifest = read_manifest(&folder.manifest())?;
        let experiment = Experiment::read_resolved(&folder.experiment())?;
        let mut rounds = Journal::read(&folder.rounds())?.rounds;
        let place = |strategy: &Option<Arm>| {
            let at = |arm: &Arm| experiment.strategies.iter().position(|other| other == arm);
            strategy.as_ref().and_then(at)
        };
        rounds.sort_by_key(|round| (round.seed, round.round, place(&round.strategy)));
        Ok(Study { folder, experiment, manifest, rounds, subject: None })
    }

    /// Leaves out all seeds but these.
    pub fn keep_seeds(&mut self, seeds: &[u64]) {
        self.experiment.seeds.retain(|seed| seeds.contains(seed));
        self.rounds.retain(|round| seeds.contains(&round.seed));
    }

    /// Leaves out all rounds after the first ones.
    pub fn keep_rounds(&mut self, rounds: usize) {
        self.experiment.rounds = self.experiment.rounds.min(rounds);
        self.rounds.retain(|round| round.round <= rounds);
    }

    /// Returns the finished rounds of a strategy and a seed, beginning with the shared round 0.
    pub fn lane(&self, seed: u64, strategy: &Arm) -> Vec<&Round> {
        let of_lane = |round: &&Round| {
            round.seed == seed && round.strategy.as_ref().is_none_or(|other| other == strategy)
        };
        let mut rounds: Vec<&Round> = self.rounds.iter().filter(of_lane).collect();
        rounds.sort_by_key(|round| round.round);
        rounds
    }

    /// Returns the ranks of all test queries that count after a round. `None` if
    /// the file is gone.
    pub fn ranks(&self, round: &Round) -> Result<Option<RoundRanks>, Error> {
        let path = self.folder.ranks(round.seed, round.strategy.as_ref(), round.round);
        if !path.exists() {
            return Ok(None);
        }
        let ranks = RoundRanks::read(&path, &round.ranks)?;
        Ok(Some(match &self.subject {
            Some(subject) => subject.of(&ranks),
            None => ranks,
        }))
    }

    /// Returns a dataset as inputs of the models of a seed. Captions without features are not in
    /// its pool.
    pub fn corpus(&self, seed: u64, dataset: Dataset) -> Result<Corpus, Error> {
        let own = self.experiment.has_words_by_seed();
        let path = if own { self.folder.seed_vocabulary(seed) } else { self.folder.vocabulary() };
        let words =
            if self.experiment.model.reads_words() { Some(Vocabulary::read(&path)?) } else { None };
        corpus_of(&self.experiment, dataset, words.as_ref())
    }

    /// Returns the pool of a seed while `paired` items are paired, in the order of the dataset.
    pub fn pool(&self, corpus: &Corpus, seed: u64, paired: &[usize]) -> Result<Vec<usize>, Error> {
        Ok(Plan::new(&self.experiment, corpus)?.pool(seed, paired))
    }

    /// Returns the caption that represents an item in a pool of texts.
    pub fn text_of(&self, corpus: &Corpus, item: usize, seed: u64) -> Option<usize> {
        text_of(corpus, item, self.experiment.training.captions, seed)
    }
}
