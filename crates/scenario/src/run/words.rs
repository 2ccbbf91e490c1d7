//! The vocabulary of models: one for the experiment, or one per seed from its initial pairs.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use nextpair_data::text::Vocabulary;
use nextpair_models::Corpus;

use super::Scenario;
use crate::{Error, Experiment, VocabularyOf};

/// The dataset as inputs of models, and their vocabulary if they read words.
pub(super) struct Reading<'a> {
    pub(super) corpus: &'a Corpus,
    pub(super) vocabulary: Option<&'a Vocabulary>,
}

/// The vocabularies of seeds, for experiments with one per seed.
pub(super) struct SeedWords(BTreeMap<u64, Own>);

#[derive(Default)]
struct Own {
    /// Held while the words are counted.
    making: Mutex<()>,
    made: OnceLock<(Corpus, Vocabulary)>,
}

impl SeedWords {
    /// Returns no vocabularies, unless the experiment has one per seed.
    pub(super) fn of(experiment: &Experiment) -> Self {
        let seeds = experiment.seeds.iter().filter(|_| experiment.has_words_of_start());
        SeedWords(seeds.map(|&seed| (seed, Own::default())).collect())
    }
}

impl Experiment {
    /// Returns whether the vocabulary is that of the initial pairs.
    pub(super) fn has_words_of_start(&self) -> bool {
        self.model.reads_words() && self.vocabulary == Some(VocabularyOf::Paired)
    }
}

impl Scenario {
    /// Returns the dataset as inputs of the models of a seed.
    pub(super) fn reading(&self, seed: u64) -> Result<Reading<'_>, Error> {
        let Some(own) = self.seed_words.0.get(&seed) else {
            return Ok(Reading { corpus: &self.corpus, vocabulary: self.vocabulary.as_ref() });
        };
        let _alone = own.making.lock().unwrap_or_else(PoisonError::into_inner);
        let made = match own.made.get() {
            Some(made) => made,
            None => {
                let made = self.words_of_start(seed)?;
                own.made.get_or_init(|| made)
            }
        };
        Ok(Reading { corpus: &made.0, vocabulary: Some(&made.1) })
    }

    /// Counts the words of the initial pairs. They follow from the seed. The file is for people,
    /// and must match.
    fn words_of_start(&self, seed: u64) -> Result<(Corpus, Vocabulary), Error> {
        let counts = self.corpus.words_of(&self.start(seed).pairs);
        let vocabulary = Vocabulary::from_counts(&counts, self.experiment.min_count);
        if vocabulary.words().len() == self.corpus.inputs().text {
            let what = format!(
                "no word is in the captions that are paired from the start {} times (min_count)",
                self.experiment.min_count
            );
            return Err(Error::setting("vocabulary", what));
        }
        let path = self.folder.seed_vocabulary(seed);
        match path.exists() {
            true if Vocabulary::read(&path)? != vocabulary => {
                let what = "not the words that are paired from the start; delete it to have it \
                            written again";
                return Err(Error::file(&path, what));
            }
            true => {}
            false => {
                if let Some(folder) = path.parent() {
                    std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
                }
                vocabulary.write(&path)?;
            }
        }
        Ok((self.corpus.with_words(&vocabulary), vocabulary))
    }
}
