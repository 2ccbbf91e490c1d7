//! Experiments tested on the queries about a subject alone, from the ranks that they stored.

use std::collections::{BTreeSet, HashSet};

use nextpair_data::dataset::Dataset;
use nextpair_data::text::tokenize;
use nextpair_models::{Evaluation, QueryRanks};

use crate::{Error, RoundRanks, Study};

/// The test queries about a subject: captions that have one of its words, and images that have such a
/// caption.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The words, in alphabetical order.
    words: Vec<String>,
    /// Whether a caption of the dataset has one of the words.
    has_word: Vec<bool>,
    /// The captions of an item that models could read, by item.
    captions: Vec<Vec<usize>>,
}

impl Study {
    /// Returns the experiment as if it had been tested on the queries with one of these words alone.
    /// `dataset` is that of the experiment. The items that are searched stay the same.
    pub fn about(&self, words: &[String], dataset: Dataset) -> Result<Self, Error> {
        let wrong = |what: String| Error::setting("words", what);
        let words: BTreeSet<String> = words.iter().map(|word| word.to_lowercase()).collect();
        if let Some(word) = words.iter().find(|word| tokenize(word).len() != 1) {
            return Err(wrong(format!("{word:?} is not one word")));
        }
        let [1, ..] = self.experiment.evaluation.folds[..] else {
            let what = "the first test is in parts; only a test of all images at once can be told \
                        apart by words";
            return Err(wrong(what.to_owned()));
        };
        let mut study = self.clone();
        study.subject = Some(Subject::new(words, self, dataset)?.into());
        for at in 0..study.rounds.len() {
            let round = &study.rounds[at];
            let Some(ranks) = study.ranks(round)? else {
                let what = "the file with the ranks of the queries of a round is gone";
                return Err(Error::file(study.folder.path(), what));
            };
            let test = ranks.evaluation().ok_or_else(|| {
                let words = study.words().join(", ");
                wrong(format!("not one test caption has any of the words {words}"))
            })?;
            study.rounds[at].test = vec![test];
        }
        study.experiment.evaluation.folds = vec![1];
        Ok(study)
    }

    /// Returns the words that a query needs for it to count; empty if all queries count.
    pub fn words(&self) -> &[String] {
        self.subject.as_ref().map_or(&[], |subject| &subject.words)
    }
}

impl Subject {
    fn new(words: BTreeSet<String>, study: &Study, dataset: Dataset) -> Result<Self, Error> {
        let known: HashSet<String> = words.iter().flat_map(|word| tokenize(word)).collect();
        let captions = dataset.items().iter().flat_map(|item| item.captions);
        let has_word = captions.map(|text| tokenize(&text).iter().any(|word| known.contains(word)));
        let has_word = has_word.collect();
        let seed = study.experiment.seeds.first().copied().unwrap_or(0);
        let corpus = study.corpus(seed, dataset)?;
        let items = 0..corpus.dataset().items().len();
        let captions = items.map(|item| corpus.captions_of(item).collect()).collect();
        Ok(Subject { words: words.into_iter().collect(), has_word, captions })
    }

    /// Leaves of the ranks those of queries about the subject.
    pub(crate) fn of(&self, ranks: &RoundRanks) -> RoundRanks {
        let captions_of =
            |item: u32| self.captions.get(item as usize).map_or(&[][..], Vec::as_slice);
        let has_word = |&caption: &usize| self.has_word[caption];
        let images = ranks.images().iter().map(|&item| captions_of(item).iter().any(has_word));
        // The captions of an image follow each other, in the order of the dataset.
        let mut last = (None, 0);
        let captions = ranks.captions().iter().map(|&item| {
            last = if last.0 == Some(item) { (last.0, last.1 + 1) } else { (Some(item), 0) };
            captions_of(item).get(last.1).is_some_and(has_word)
        });
        ranks.only(&images.chain(captions).collect::<Vec<_>>())
    }
}

impl RoundRanks {
    /// Returns recall by the first test; `None` without queries.
    fn evaluation(&self) -> Option<Evaluation> {
        let (text, image) = self.of_test(0)?;
        let from_0 = |ranks: &[u32]| ranks.iter().map(|rank| rank - 1).collect();
        let ranks = QueryRanks { text: from_0(text), image: from_0(image) };
        (!text.is_empty()).then(|| Evaluation::of(&ranks))
    }
}
