//! People's answers put back into the dataset that they are about.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::error::Error as StdError;
use std::path::{Path, PathBuf};

use super::enlarged::{Enlargement, New};
use super::{
    DEV, Dataset, Draft, DrawnSplits, FeatureSet, FeatureSource, NewImages, NewRows, Per,
    PlacedAnswers, TEST,
};
use crate::queue::{Answer, AnswerContent, act, standing};
use crate::{Error, Progress, Side};

/// Answers that were read and checked against a dataset, to be written as the enlarged one.
pub struct Addition<'a> {
    dataset: &'a Dataset,
    answers: Vec<Answer>,
    images: NewImages,
    added: Enlargement,
    /// Number of answers that the dataset has already.
    known: usize,
    /// Number of items that were not paired before.
    paired: usize,
}

/// The result of an addition: the enlarged dataset, and counts.
#[derive(Debug)]
pub struct AdditionSummary {
    /// The enlarged dataset.
    pub dataset: Dataset,
    /// Captions that items have now and did not have before.
    pub captions: usize,
    /// Images that people brought for texts, each an item now.
    pub images: usize,
    /// Items that were not paired before: images without a caption, texts without an image.
    pub paired: usize,
    /// Those of them that were drawn for the splits dev and test.
    pub drawn: [usize; 2],
    /// Answers that the dataset had already.
    pub known: usize,
    /// Items that these answers refuse and do not pair, by reason.
    pub refused: BTreeMap<String, usize>,
    /// Items that these answers skip without a reason, and neither refuse nor pair.
    pub skipped: usize,
    /// What became of every set of text features.
    pub features: Vec<EncodedSet>,
}

/// The features of new captions in one set of text features.
#[derive(Debug)]
pub struct EncodedSet {
    /// The name of the set.
    pub name: String,
    /// New captions that got features.
    pub encoded: usize,
    /// New captions that got none.
    pub missing: usize,
    /// Why no caption could be encoded, if none could.
    pub why: Option<Box<dyn StdError + Send + Sync>>,
}

impl<'a> Addition<'a> {
    /// Reads answers about items of a pool, in every form that [`PlacedAnswers::read`] reads, with
    /// images that people brought from `folders` and beside the answers. If one answer is wrong, all
    /// are refused; the error names the file and the place.
    pub fn read(
        dataset: &'a Dataset,
        paths: &[PathBuf],
        pool: Side,
        folders: &[PathBuf],
    ) -> Result<Self, Error> {
        Addition::of(dataset, &PlacedAnswers::read(dataset, paths, pool, folders)?)
    }

    /// Checks answers that were read. The error names the file and the place.
    pub fn of(dataset: &'a Dataset, said: &PlacedAnswers) -> Result<Self, Error> {
        let (answers, images) = (said.answers.clone(), said.images.clone());
        Addition::new(dataset, answers, images).map_err(|error| match error {
            Error::Row { row, what, .. } => said.error(row, what),
            other => other,
        })
    }

    /// Checks answers, and the new images that they name. [`Error::Row`] names the first that is
    /// wrong.
    pub fn new(
        dataset: &'a Dataset,
        answers: Vec<Answer>,
        images: NewImages,
    ) -> Result<Self, Error> {
        dataset.check_answers(&answers, &images)?;
        let before = dataset.answers()?;
        let seen: HashSet<Answer> = before.iter().map(act).collect();
        let known = answers.iter().filter(|answer| seen.contains(&act(answer))).count();
        let answers = standing(answers);
        let added = dataset.added(&answers, &images)?;
        let paired = newly_paired(dataset, &before, &answers);
        Ok(Addition { dataset, answers, images, added, known, paired })
    }

    /// Moves shares of the items that get their first caption to dev and test, drawn by their ids.
    pub fn with_splits(mut self, splits: DrawnSplits) -> Self {
        self.added.splits = splits;
        self
    }

    /// Writes the enlarged dataset `out`, a new folder, whole or not at all. New captions and images
    /// get features from `source`; captions that cannot be encoded are added without. An `out` that an earlier call
    /// finished is left as it is: its process may have been killed before it could say so.
    ///
    /// # Errors
    /// For one, if there are new images and none of the dataset's image features can be made.
    pub fn write(
        self,
        out: &Path,
        source: &dyn FeatureSource,
        progress: &dyn Progress,
    ) -> Result<AdditionSummary, Error> {
        self.dataset.check_place(out)?;
        let draft = match Draft::open(out) {
            Ok(draft) => draft,
            Err(error) => {
                let finished = self.finished(out)?.ok_or(error)?;
                return Ok(self.report(finished.0, finished.1));
            }
        };
        let images = self.images.clone().encoded(self.dataset, source, progress);
        let images = images.map_err(|why| {
            let what = format!("images that people brought get no features: {why}");
            Error::format(&self.dataset.folder, what)
        })?;
        let (mut captions, mut features) = (Vec::new(), Vec::new());
        for set in &self.dataset.manifest.features {
            if (set.side, set.per) == (Side::Text, Per::Caption) {
                let (rows, encoded) = self.encode(set, source, progress)?;
                captions.extend(rows);
                features.push(encoded);
            }
        }
        let new = New { captions: &captions, images: &images.features };
        self.dataset.enlarge(draft, &self.added, &self.answers, &new)?;
        Ok(self.report(Dataset::open(out)?, features))
    }

    fn report(&self, dataset: Dataset, features: Vec<EncodedSet>) -> AdditionSummary {
        let (refused, skipped) = self.refused();
        AdditionSummary {
            dataset,
            captions: self.added.captions().count(),
            images: self.added.images.len(),
            paired: self.paired,
            drawn: [DEV, TEST].map(|split| {
                let splits = self.dataset.drawn(&self.added).into_values().flatten();
                splits.filter(|drawn| drawn == split).count()
            }),
            known: self.known,
            refused,
            skipped,
            features,
        }
    }

    /// Whether the items that got their first captions are in the splits that they are drawn for.
    fn has_splits(&self, found: &Dataset) -> bool {
        let drawn = self.dataset.drawn(&self.added);
        drawn.iter().all(|(&index, split)| found.items.split_of(index) == split.as_deref())
    }

    /// Opens `out` if it is exactly this dataset with these answers. Features may have been added to it since.
    fn finished(&self, out: &Path) -> Result<Option<(Dataset, Vec<EncodedSet>)>, Error> {
        let Ok(found) = Dataset::open(out) else { return Ok(None) };
        let expected = self.dataset.enlarged_manifest(&self.added, found.manifest.features.clone());
        if expected? != found.manifest
            || found.answers()? != self.dataset.answers_with(&self.answers)?
            || !self.has_splits(&found)
        {
            return Ok(None);
        }
        let without_row = |dataset: &Dataset, name: &str| -> Result<usize, Error> {
            let (_, features) = dataset.features(Side::Text, Some(name))?;
            let captions = 0..dataset.manifest.captions;
            Ok(captions.filter(|&caption| features.row(caption).is_none()).count())
        };
        let written = self.added.captions().filter(|added| added.copy_of.is_none()).count();
        let mut features = Vec::new();
        for set in &self.dataset.manifest.features {
            if (set.side, set.per) == (Side::Text, Per::Caption) {
                let name = set.name.clone();
                let before = without_row(self.dataset, &name)?;
                let missing = without_row(&found, &name)?.saturating_sub(before);
                let encoded = written.saturating_sub(missing);
                features.push(EncodedSet { name, encoded, missing, why: None });
            }
        }
        Ok(Some((found, features)))
    }

    /// Encodes the captions that people wrote for one set of features.
    fn encode(
        &self,
        set: &FeatureSet,
        source: &dyn FeatureSource,
        progress: &dyn Progress,
    ) -> Result<(Option<NewRows>, EncodedSet), Error> {
        let written = self.added.captions().filter(|added| added.copy_of.is_none());
        let texts: BTreeSet<&str> = written.map(|added| added.text.as_str()).collect();
        let texts: Vec<&str> = texts.into_iter().collect();
        let told = |encoded: usize, why| {
            let missing = texts.len() - encoded;
            EncodedSet { name: set.name.clone(), encoded, missing, why }
        };
        if texts.is_empty() {
            return Ok((None, told(0, None)));
        }
        let features = self.dataset.open_features(set)?;
        let rows = source.check(self.dataset, set);
        let rows = rows.and_then(|()| source.text_rows(self.dataset, set, &texts, progress));
        let fitting = rows.map(|rows| {
            let whole = rows.rows() == texts.len();
            let new = whole.then(|| NewRows::new(&set.name, &texts, rows));
            new.filter(|new| new.fits(features.matrix()))
        });
        Ok(match fitting {
            Ok(Some(new)) => {
                let encoded = new.rows.len();
                (Some(new), told(encoded, None))
            }
            Ok(None) => {
                let what = format!(
                    "the encoder makes other rows than the text features {} have; make them anew \
                     with `nextpair embed`",
                    set.name
                );
                (None, told(0, Some(what.into())))
            }
            Err(why) => (None, told(0, Some(why))),
        })
    }

    /// The reasons why people refused items in these answers, with the number of items, and the number of those that
    /// were skipped without a reason.
    fn refused(&self) -> (BTreeMap<String, usize>, usize) {
        let (skips, halves): (Vec<_>, Vec<_>) =
            self.answers.iter().partition(|answer| matches!(answer.said, AnswerContent::Skip(_)));
        let mut known: HashSet<&str> = halves.iter().map(|answer| answer.id.as_str()).collect();
        let mut reasons = BTreeMap::new();
        for answer in &skips {
            if let Some(reason) = answer.refusal()
                && known.insert(&answer.id)
            {
                *reasons.entry(reason.to_owned()).or_default() += 1;
            }
        }
        (reasons, skips.iter().filter(|answer| known.insert(&answer.id)).count())
    }
}

/// Returns the number of items that these answers pair and that were not paired before.
fn newly_paired(dataset: &Dataset, before: &[Answer], answers: &[Answer]) -> usize {
    let images = |answers: &[Answer]| -> HashSet<String> {
        let paired = answers.iter().filter(|answer| matches!(answer.said, AnswerContent::Image(_)));
        paired.map(|answer| answer.id.clone()).collect()
    };
    let texts = images(answers).difference(&images(before)).count();
    let captioned =
        answers.iter().filter(|answer| matches!(answer.said, AnswerContent::Caption(_)));
    let captioned = dataset.items.find(captioned.map(|answer| answer.id.as_str()));
    let is_new = |item: &&usize| dataset.items.captions_of(**item).is_empty();
    texts + captioned.values().filter(is_new).count()
}

#[cfg(test)]
mod tests;
