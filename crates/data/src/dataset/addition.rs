//! People's answers put back into the dataset that they are about.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::error::Error as StdError;
use std::path::{Path, PathBuf};

use super::enlarged::AddedCaptions;
use super::{Dataset, Draft, FeatureSet, NewCaptions, Per, TextSource};
use crate::queue::{Answer, Place, Said, act, read_placed_answers, refused, standing};
use crate::{Error, Progress, Side};

/// The images that people bring for texts have such names in their answers.
const BROUGHT: [&str; 2] = ["upload:", "folder:"];

/// Answers that were read and checked against a dataset, to be written as the enlarged one.
pub struct Addition<'a> {
    dataset: &'a Dataset,
    answers: Vec<Answer>,
    captions: AddedCaptions,
    /// Number of answers that the dataset has already.
    known: usize,
    /// Number of items that were not paired before.
    paired: usize,
}

/// What an addition made.
#[derive(Debug)]
pub struct Added {
    /// The enlarged dataset.
    pub dataset: Dataset,
    /// Captions that items have now and did not have before.
    pub captions: usize,
    /// Items that were not paired before: images without a caption, texts without an image.
    pub paired: usize,
    /// Answers that the dataset had already.
    pub known: usize,
    /// Items that people refused in these answers and nobody paired, by reason.
    pub refused: BTreeMap<String, usize>,
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
    /// Reads answers about items of a pool, in every form that [`read_placed_answers`] reads. If one
    /// answer is wrong, all are refused; the error names the file and the place.
    pub fn read(dataset: &'a Dataset, paths: &[PathBuf], pool: Side) -> Result<Self, Error> {
        let (mut places, mut answers) = (Vec::new(), Vec::new());
        for path in paths {
            for (place, answer) in read_placed_answers(path, pool, dataset)? {
                places.push((path, place));
                answers.push(answer);
            }
        }
        Addition::new(dataset, answers).map_err(|error| match error {
            Error::Row { row, what, .. } => {
                let (path, place): (&PathBuf, Place) = places[row];
                place.error(path, what)
            }
            other => other,
        })
    }

    /// Checks answers. [`Error::Row`] names the first that is wrong.
    pub fn new(dataset: &'a Dataset, answers: Vec<Answer>) -> Result<Self, Error> {
        refuse_brought_images(dataset, &answers)?;
        dataset.check_answers(&answers)?;
        let before = dataset.answers()?;
        let seen: HashSet<Answer> = before.iter().map(act).collect();
        let known = answers.iter().filter(|answer| seen.contains(&act(answer))).count();
        let answers = standing(answers);
        let captions = dataset.added(&answers)?;
        let paired = newly_paired(dataset, &before, &answers);
        Ok(Addition { dataset, answers, captions, known, paired })
    }

    /// Writes the enlarged dataset `out`, a new folder, whole or not at all. New captions get
    /// features from `texts`; captions that cannot be encoded are added without.
    pub fn write(
        self,
        out: &Path,
        texts: &dyn TextSource,
        progress: &dyn Progress,
    ) -> Result<Added, Error> {
        self.dataset.check_place(out)?;
        let draft = Draft::open(out)?;
        let (mut new, mut features) = (Vec::new(), Vec::new());
        for set in &self.dataset.manifest.features {
            if (set.side, set.per) == (Side::Text, Per::Caption) {
                let (captions, encoded) = self.encode(set, texts, progress)?;
                new.extend(captions);
                features.push(encoded);
            }
        }
        self.dataset.enlarge(draft, &self.captions, &self.answers, &new)?;
        Ok(Added {
            dataset: Dataset::open(out)?,
            captions: self.captions.values().map(Vec::len).sum(),
            paired: self.paired,
            known: self.known,
            refused: self.refused(),
            features,
        })
    }

    /// Encodes the captions that people wrote for one set of features.
    fn encode(
        &self,
        set: &FeatureSet,
        source: &dyn TextSource,
        progress: &dyn Progress,
    ) -> Result<(Option<NewCaptions>, EncodedSet), Error> {
        let written = self.captions.values().flatten().filter(|added| added.copy_of.is_none());
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
        let rows = rows.and_then(|()| source.rows(self.dataset, set, &texts, progress));
        Ok(match rows {
            Ok(rows) if features.fits(&rows, texts.len()) => {
                let new = NewCaptions::joined(None, &set.name, &texts, rows);
                let encoded = new.rows.len();
                (Some(new), told(encoded, None))
            }
            Ok(_) => {
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

    /// The reasons why people refused items in these answers, with the number of items.
    fn refused(&self) -> BTreeMap<String, usize> {
        let ids: HashSet<String> = refused(self.answers.clone()).into_iter().collect();
        let (mut counted, mut reasons) = (HashSet::new(), BTreeMap::new());
        for answer in &self.answers {
            if let Said::Skip(reason) = &answer.said
                && ids.contains(&answer.id)
                && counted.insert(&answer.id)
            {
                *reasons.entry(reason.clone()).or_default() += 1;
            }
        }
        reasons
    }
}

/// Refuses images that people brought for texts: they are not in the dataset, and have no features.
fn refuse_brought_images(dataset: &Dataset, answers: &[Answer]) -> Result<(), Error> {
    let brought = |answer: &Answer| match &answer.said {
        Said::Image(image) if BROUGHT.iter().any(|prefix| image.starts_with(prefix)) => {
            Some(image.clone())
        }
        _ => None,
    };
    let named: Vec<(usize, String)> =
        answers.iter().enumerate().filter_map(|(row, a)| Some((row, brought(a)?))).collect();
    let known = dataset.items.find(named.iter().map(|(_, image)| image.as_str()));
    match named.iter().find(|(_, image)| !known.contains_key(image.as_str())) {
        Some((row, image)) => {
            let what = format!(
                "the image {image:?} was brought by people and is not in the dataset; import it with \
                 the others, and answer with the id of its item"
            );
            Err(Error::row(&dataset.folder, *row, what))
        }
        None => Ok(()),
    }
}

/// Returns the number of items that these answers pair and that were not paired before.
fn newly_paired(dataset: &Dataset, before: &[Answer], answers: &[Answer]) -> usize {
    let images = |answers: &[Answer]| -> HashSet<String> {
        let paired = answers.iter().filter(|answer| matches!(answer.said, Said::Image(_)));
        paired.map(|answer| answer.id.clone()).collect()
    };
    let texts = images(answers).difference(&images(before)).count();
    let captioned = answers.iter().filter(|answer| matches!(answer.said, Said::Caption(_)));
    let captioned = dataset.items.find(captioned.map(|answer| answer.id.as_str()));
    let is_new = |item: &&usize| dataset.items.captions_of(**item).is_empty();
    texts + captioned.values().filter(is_new).count()
}

#[cfg(test)]
mod tests;
