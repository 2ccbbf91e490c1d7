//! Training data of a model: features, vocabulary and pairs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::data::dataset::{Dataset, TRAIN};
use crate::data::text::{DEFAULT_MIN_COUNT, SplitWords, Vocabulary, WordCounts};
use crate::data::{Progress, Side, read_ids};
use crate::models::{Config, Corpus, ModelFolder, Pair, Training};
use crate::scenario::VocabularyOf;
use anyhow::{Result, bail, ensure};

use crate::program::unused;

#[derive(clap::Args)]
#[group(id = "data-settings")]
#[command(next_help_heading = "Data")]
pub(super) struct DataArgs {
    /// The image features to use [default: the last that were added]
    #[arg(long, value_name = "NAME")]
    features: Option<String>,
    /// Heads: the text features to use [default: the last that were added]
    #[arg(long, value_name = "NAME")]
    text_features: Option<String>,
    /// The words to know: a file as `nextpair vocab` writes it, or paired for those of the captions
    /// that are learned from [default: those of train and dev]
    #[arg(long, value_name = "FILE|paired")]
    vocabulary: Option<PathBuf>,
    /// A word that is not from a file was seen this often [default: 4]
    #[arg(long, value_name = "N")]
    min_count: Option<u64>,
    /// Only these items count as paired: a file with one id a line
    #[arg(long, value_name = "FILE")]
    paired: Option<PathBuf>,
    /// Only this share of the training items counts as paired, drawn by the seed
    #[arg(long, value_name = "S", conflicts_with = "paired")]
    share: Option<f64>,
}

/// A dataset as inputs of a model, and the training pairs.
pub(super) struct Source {
    pub(super) corpus: Corpus,
    pub(super) vocabulary: Option<Vocabulary>,
    /// The names of the image features and of the text features.
    pub(super) features: (String, Option<String>),
    pub(super) pairs: Vec<Pair>,
}

impl DataArgs {
    /// Opens a dataset for a model. Words that are `known` take the place of its own.
    pub(super) fn open(
        &self,
        dataset: Dataset,
        config: &Config,
        training: &Training,
        known: Option<&Vocabulary>,
        progress: &dyn Progress,
    ) -> Result<Source> {
        let images = self.features.as_deref();
        let image_name = dataset.features(Side::Image, images)?.0.name.clone();
        let words = self.vocabulary.clone().map(VocabularyOf::from);
        if matches!(words, Some(VocabularyOf::File(_))) && self.min_count.is_some() {
            bail!("--min-count: the words are those of the file that --vocabulary names");
        }
        let (mut corpus, mut vocabulary, text_name) = if config.reads_words() {
            if self.text_features.is_some() {
                bail!("--text-features: {} reads words", config.name());
            }
            let vocabulary = match known {
                Some(known) => known.clone(),
                None => self.vocabulary(&dataset, words.as_ref(), progress)?,
            };
            (Corpus::of_words(dataset, images, &vocabulary)?, Some(vocabulary), None)
        } else {
            if self.vocabulary.is_some() || self.min_count.is_some() {
                bail!("--vocabulary, --min-count: {} takes text features", config.name());
            }
            let texts = self.text_features.as_deref();
            let name = dataset.features(Side::Text, texts)?.0.name.clone();
            (Corpus::of_vectors(dataset, images, texts)?, None, Some(name))
        };
        let items = self.paired_items(&corpus, training.seed)?;
        let pairs = corpus.pairs(&items, training.captions, training.seed);
        let asked_for = match self.paired {
            Some(_) => &items,
            // A share is drawn from what has features.
            None => &corpus.training_items(),
        };
        unused::warn(&corpus.unused(asked_for), corpus.dataset().folder());
        if pairs.len() < 2 {
            bail!(
                "{} pairs to learn from, of {} items that may be trained on; at least 2 are \
                 needed: items with image features and captions",
                pairs.len(),
                items.len()
            );
        }
        if words == Some(VocabularyOf::Paired) {
            let known = Vocabulary::from_counts(&corpus.words_of(&pairs), self.min_count());
            corpus = corpus.with_words(&known);
            vocabulary = Some(known);
        }
        Ok(Source { corpus, vocabulary, features: (image_name, text_name), pairs })
    }

    /// Names the first setting that was given and is not that of a model in training.
    pub(super) fn difference(
        &self,
        run: &ModelFolder,
        corpus: &Corpus,
        pairs: &[Pair],
        progress: &dyn Progress,
    ) -> Result<Option<String>> {
        let (spec, seed) = (run.spec(), run.spec().training.seed);
        if let Some(name) = self.features.as_ref().filter(|name| **name != spec.image_features) {
            return Ok(Some(format!("features is {name} and not {}", spec.image_features)));
        }
        if self.text_features.is_some() && self.text_features != spec.text_features {
            let of = |name: &Option<String>| name.clone().unwrap_or_else(|| "not set".to_owned());
            let (is, was) = (of(&self.text_features), of(&spec.text_features));
            return Ok(Some(format!("text-features is {is} and not {was}")));
        }
        if self.share.is_some() || self.paired.is_some() {
            let items = self.paired_items(corpus, seed)?;
            if corpus.pairs(&items, spec.training.captions, seed) != pairs {
                let flag = if self.share.is_some() { "share" } else { "paired" };
                return Ok(Some(format!("{flag} makes other pairs")));
            }
        }
        if self.vocabulary.is_some() || self.min_count.is_some() {
            let words = self.vocabulary.clone().map(VocabularyOf::from);
            let known = match words {
                Some(VocabularyOf::Paired) => {
                    Vocabulary::from_counts(&corpus.words_of(pairs), self.min_count())
                }
                words => self.vocabulary(corpus.dataset(), words.as_ref(), progress)?,
            };
            if run.vocabulary().map(Vocabulary::words) != Some(known.words()) {
                let flag = if self.vocabulary.is_some() { "vocabulary" } else { "min-count" };
                return Ok(Some(format!("{flag} makes other words")));
            }
        }
        Ok(None)
    }

    fn min_count(&self) -> u64 {
        self.min_count.unwrap_or(DEFAULT_MIN_COUNT)
    }

    /// Returns the words that are known before the pairs are.
    fn vocabulary(
        &self,
        dataset: &Dataset,
        words: Option<&VocabularyOf>,
        progress: &dyn Progress,
    ) -> Result<Vocabulary> {
        let counts = match words {
            Some(VocabularyOf::File(path)) => return Ok(Vocabulary::read(path)?),
            Some(VocabularyOf::Paired) => WordCounts::default(),
            None => SplitWords::count(dataset.items(), progress).of_train_and_dev(),
        };
        Ok(Vocabulary::from_counts(&counts, self.min_count()))
    }

    /// Returns the items that count as paired: all of train, or the share or the file the user
    /// gave.
    fn paired_items(&self, corpus: &Corpus, seed: u64) -> Result<Vec<usize>> {
        let items = corpus.training_items();
        if let Some(share) = self.share {
            ensure!(share > 0.0 && share <= 1.0, "--share {share} is not above 0 and at most 1");
            return Ok(corpus.drawn_share(&items, share, seed));
        }
        match &self.paired {
            Some(path) => named_items(corpus, &items, path),
            None => Ok(items),
        }
    }
}

/// Returns the items that a file names, in the order of the dataset.
fn named_items(corpus: &Corpus, training: &[usize], path: &Path) -> Result<Vec<usize>> {
    let all = corpus.dataset().items();
    let by_id: HashMap<String, usize> =
        training.iter().map(|&item| (all.get(item).id, item)).collect();
    let mut items = Vec::new();
    for (at, id) in read_ids(path)?.iter().enumerate() {
        let Some(&item) = by_id.get(id) else {
            let what = if all.iter().any(|item| item.id == *id) {
                format!("item {id} is not of the split {TRAIN}")
            } else {
                format!("the dataset has no item {id}")
            };
            let (path, line) = (path.to_path_buf(), at + 1);
            return Err(crate::data::Error::Line { path, line, what }.into());
        };
        items.push(item);
    }
    items.sort_unstable();
    Ok(items)
}
