//! What models read: one vocabulary for the experiment, or one per seed; the splits of the dataset, or
//! those of the seed.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use nextpair_data::text::{Vocabulary, WordCounts};
use nextpair_models::{Corpus, Pair};

use super::Scenario;
use crate::{Error, Experiment, Splits, VocabularyOf};

/// The dataset as inputs of models, and their vocabulary if they read words.
pub(super) struct Reading<'a> {
    pub(super) corpus: &'a Corpus,
    pub(super) vocabulary: Option<&'a Vocabulary>,
}

/// The readings of seeds, for experiments with words or splits by seed.
pub(super) struct OwnReadings(BTreeMap<u64, Own>);

#[derive(Default)]
struct Own {
    /// Held while the words are counted.
    making: Mutex<()>,
    made: OnceLock<(Corpus, Option<Vocabulary>)>,
}

impl OwnReadings {
    /// Returns no readings, unless the experiment has words or splits by seed.
    pub(super) fn of(experiment: &Experiment) -> Self {
        let own = experiment.has_words_by_seed() || experiment.splits == Splits::Redraw;
        let seeds = experiment.seeds.iter().filter(|_| own);
        OwnReadings(seeds.map(|&seed| (seed, Own::default())).collect())
    }
}

impl Experiment {
    /// Returns whether every seed has a vocabulary of its own: that of its initial pairs, or, where splits
    /// are redrawn, that of its own train and dev. The words of train and dev of the dataset would
    /// include those of captions that a seed is tested on.
    pub(crate) fn has_words_by_seed(&self) -> bool {
        let by_seed = match &self.vocabulary {
            Some(VocabularyOf::Paired) => true,
            Some(VocabularyOf::File(_)) => false,
            None => self.splits == Splits::Redraw,
        };
        self.model.reads_words() && by_seed
    }
}

impl Scenario {
    /// Returns the dataset as inputs of the models of a seed.
    pub(super) fn reading(&self, seed: u64) -> Result<Reading<'_>, Error> {
        let Some(own) = self.own.0.get(&seed) else {
            return Ok(Reading { corpus: &self.corpus, vocabulary: self.vocabulary.as_ref() });
        };
        let _alone = own.making.lock().unwrap_or_else(PoisonError::into_inner);
        let (corpus, words) = match own.made.get() {
            Some(made) => made,
            None => {
                let made = self.own_reading(seed)?;
                own.made.get_or_init(|| made)
            }
        };
        Ok(Reading { corpus, vocabulary: words.as_ref().or(self.vocabulary.as_ref()) })
    }

    fn own_reading(&self, seed: u64) -> Result<(Corpus, Option<Vocabulary>), Error> {
        let splits = self.plan.own_dev(seed);
        let words = match (&self.experiment.vocabulary, &splits) {
            _ if !self.experiment.has_words_by_seed() => None,
            (Some(_), _) | (None, None) => {
                let counts = self.corpus.words_of(&self.first_pairs(seed));
                Some(self.own_words(seed, &counts, "are paired from the start")?)
            }
            (None, Some((_, read))) => {
                let pairs = |&item: &usize| {
                    self.corpus.captions_of(item).map(move |caption| Pair { item, caption })
                };
                let pairs: Vec<Pair> = read.iter().flat_map(pairs).collect();
                let counts = self.corpus.words_of(&pairs);
                Some(self.own_words(seed, &counts, "this seed drew for train and dev")?)
            }
        };
        let corpus = match &words {
            Some(words) => self.corpus.with_words(words),
            None => self.corpus.clone(),
        };
        let corpus = match splits {
            Some((dev, _)) => corpus.with_dev(dev),
            None => corpus,
        };
        Ok((corpus, words))
    }

    /// Makes the vocabulary of a seed. It follows from the seed. The file is for people, and must match.
    fn own_words(&self, seed: u64, counts: &WordCounts, which: &str) -> Result<Vocabulary, Error> {
        let vocabulary = Vocabulary::from_counts(counts, self.experiment.min_count);
        if vocabulary.words().len() == self.corpus.inputs().text {
            let what = format!(
                "no word is in the captions that {which} {} times (min_count)",
                self.experiment.min_count
            );
            return Err(Error::setting("vocabulary", what));
        }
        let path = self.folder.seed_vocabulary(seed);
        match path.exists() {
            true if Vocabulary::read(&path)? != vocabulary => {
                let what = format!(
                    "not the words of the captions that {which}; delete it to have it written again"
                );
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
        Ok(vocabulary)
    }
}
