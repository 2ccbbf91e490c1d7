//! Features of what people bring: new captions, for models on text features, and new images.
//!
//! The captions and images of a batch are encoded once, when the batch is closed. Their features
//! are stored beside the answers, so that a resumed experiment trains on the same numbers even if
//! the encoder has changed or is gone.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use nextpair_data::dataset::{
    Dataset, FeatureSet, FeatureSource, Features, NewImages, NewRows, UPLOAD,
};
use nextpair_data::queue::{Answer, AnswerContent};
use nextpair_data::{AtomicFile, Matrix, Progress, Side, npy};

use super::Scenario;
use super::learn::Place;
use crate::{Annotator, Batch, Error, Experiment};

/// An error of a source of features.
type Why = Box<dyn std::error::Error + Send + Sync>;

/// Captions or images of a batch that need features.
enum Unencoded<'a> {
    Captions(Vec<&'a str>),
    /// Ids and files.
    Images(Vec<(&'a str, PathBuf)>),
}

impl Unencoded<'_> {
    /// Returns the names of the rows.
    fn names(&self) -> Vec<&str> {
        match self {
            Unencoded::Captions(texts) => texts.clone(),
            Unencoded::Images(images) => images.iter().map(|(id, _)| *id).collect(),
        }
    }

    fn rows(
        &self,
        source: &dyn FeatureSource,
        (dataset, set): (&Dataset, &FeatureSet),
        progress: &dyn Progress,
    ) -> Result<Matrix, Why> {
        match self {
            Unencoded::Captions(texts) => source.text_rows(dataset, set, texts, progress),
            Unencoded::Images(images) => {
                let files: Vec<&Path> = images.iter().map(|(_, file)| file.as_path()).collect();
                source.image_rows(dataset, set, &files, progress)
            }
        }
    }

    /// Returns the fingerprint of their features in the record of a batch.
    fn written_down<'b>(&self, batch: &'b Batch) -> Option<&'b str> {
        match self {
            Unencoded::Captions(_) => batch.captions.as_deref(),
            Unencoded::Images(_) => batch.images.as_deref(),
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Unencoded::Captions(_) => "captions",
            Unencoded::Images(_) => "images",
        }
    }
}

impl Experiment {
    /// Returns whether annotators write captions that need encoding.
    pub(super) fn encodes_captions(&self) -> bool {
        self.annotator == Annotator::Human && self.pool == Side::Image && !self.model.reads_words()
    }

    /// Returns the error for captions or images that cannot get the features of a set.
    pub(crate) fn no_features(&self, set: &FeatureSet, why: Why) -> Error {
        let set_name = set.name.clone();
        match set.side {
            Side::Image => Error::ImageFeatures { set: set_name, why },
            Side::Text => {
                let model = self.model.name().to_string();
                Error::TextFeatures { model, set: set_name, why }
            }
        }
    }
}

impl Scenario {
    /// Checks that new captions can be encoded, before any training and before people are asked.
    /// New images are checked when they come: texts can do without them.
    pub(super) fn check_caption_source(&self) -> Result<(), Error> {
        if !self.experiment.encodes_captions() {
            return Ok(());
        }
        let Some((set, _)) = self.corpus.text_features() else { return Ok(()) };
        let checked = self.source()?.check(self.corpus.dataset(), set);
        checked.map_err(|why| self.experiment.no_features(set, why))
    }

    /// Encodes the captions of a closed batch like those of the dataset and adds them to `known`.
    /// Returns the fingerprint of their features, if there are any.
    pub(super) fn encode_captions(
        &self,
        place: Place<'_>,
        path: &Path,
        said: &[Answer],
        known: &mut Option<NewRows>,
        progress: &dyn Progress,
    ) -> Result<Option<String>, Error> {
        let Some(of) = self.corpus.text_features() else { return Ok(None) };
        let texts = new_texts(said, known.as_ref());
        if texts.is_empty() || !self.experiment.encodes_captions() {
            return Ok(None);
        }
        let (rows, print) = self.encode(place, path, of, &Unencoded::Captions(texts), progress)?;
        *known = Some(joined(known.take(), rows));
        Ok(Some(print))
    }

    /// Encodes the new images of a closed batch like those of the dataset and adds them to `known`.
    /// Returns the fingerprint of their features, if there are any.
    pub(super) fn encode_images(
        &self,
        place: Place<'_>,
        path: &Path,
        said: &[Answer],
        known: &mut NewImages,
        progress: &dyn Progress,
    ) -> Result<Option<String>, Error> {
        let ids = self.new_images(said, known);
        if ids.is_empty() {
            return Ok(None);
        }
        let kept = self.folder.images();
        let file = |id: &str| kept.join(id.strip_prefix(UPLOAD).unwrap_or(id));
        let images: Vec<(&str, PathBuf)> = ids.iter().map(|id| (*id, file(id))).collect();
        let of = self.corpus.image_features();
        let new = Unencoded::Images(images.clone());
        let (rows, print) = self.encode(place, path, of, &new, progress)?;
        known.files.extend(images.into_iter().map(|(id, file)| (id.to_owned(), file)));
        known.features = vec![joined(known.features.pop(), rows)];
        Ok(Some(print))
    }

    /// Returns the ids of images that neither the dataset nor earlier batches have, in order.
    fn new_images<'a>(&self, said: &'a [Answer], known: &NewImages) -> Vec<&'a str> {
        let named = |answer: &'a Answer| match &answer.said {
            AnswerContent::Image(id) if id.starts_with(UPLOAD) => Some(id.as_str()),
            _ => None,
        };
        let named: Vec<&str> = said.iter().filter_map(named).collect();
        // Most batches have none, and a look at all items takes its time.
        if named.is_empty() {
            return named;
        }
        let own = self.corpus.dataset().items().find(named.iter().copied());
        let mut seen = HashSet::new();
        let is_new = |id: &&str| !own.contains_key(id) && !known.files.contains_key(*id);
        named.into_iter().filter(is_new).filter(|id| seen.insert(*id)).collect()
    }

    /// Returns the features of what a closed batch brought, from the file beside its answers, and
    /// their fingerprint. Makes the file if it is not there.
    fn encode(
        &self,
        place: Place<'_>,
        path: &Path,
        (set, features): (&FeatureSet, &Features),
        new: &Unencoded<'_>,
        progress: &dyn Progress,
    ) -> Result<(NewRows, String), Error> {
        let names = new.names();
        let fits = |matrix: &Matrix| {
            let shape = |matrix: &Matrix| (matrix.locals(), matrix.dim(), matrix.dtype());
            matrix.rows() == names.len() && shape(matrix) == shape(features.matrix())
        };
        if !path.exists() {
            let of = (self.corpus.dataset(), set);
            let rows = new.rows(self.source()?, of, progress);
            let rows = rows.map_err(|why| self.experiment.no_features(set, why))?;
            if !fits(&rows) {
                let what = "the encoder makes other rows than the dataset has";
                return Err(self.experiment.no_features(set, what.into()));
            }
            let mut file = AtomicFile::create(path)?;
            npy::write_matrix(&mut file, &rows).map_err(|e| Error::io(path, e))?;
            file.commit()?;
        }
        let print = self.check_kept(place, path, |batch| new.written_down(batch))?;
        let matrix = npy::open(path)?;
        if !fits(&matrix) {
            let what = format!(
                "not the features of the {} in the answers beside it; delete it to have them \
                 encoded again",
                new.word()
            );
            return Err(Error::file(path, what));
        }
        Ok((NewRows::new(&set.name, &names, matrix), print))
    }

    fn source(&self) -> Result<&dyn FeatureSource, Error> {
        self.options.source.as_deref().ok_or_else(|| {
            let what = format!(
                "{} takes features, and nobody is there who gives them to what people bring; hand \
                 in a source of them",
                self.experiment.model.name()
            );
            Error::setting("annotator", what)
        })
    }
}

/// Returns the captions that are not known yet, without duplicates and in order.
fn new_texts<'a>(said: &'a [Answer], known: Option<&NewRows>) -> Vec<&'a str> {
    let mut texts: Vec<&str> = Vec::new();
    let mut seen = HashSet::new();
    for answer in said {
        if let AnswerContent::Caption(text) = &answer.said
            && known.is_none_or(|known| !known.rows.contains_key(text))
            && seen.insert(text.as_str())
        {
            texts.push(text);
        }
    }
    texts
}

/// Joins the rows of earlier batches with those of a batch.
fn joined(earlier: Option<NewRows>, rows: NewRows) -> NewRows {
    match earlier {
        Some(earlier) => earlier.followed_by(rows),
        None => rows,
    }
}

#[cfg(test)]
mod tests;
