//! Features of new captions, for models on text features.
//!
//! The captions of a batch are encoded once, when the batch is closed. Their features are stored
//! beside the answers, so that a resumed experiment trains on the same numbers even if the encoder
//! has changed.

use std::collections::HashSet;
use std::path::Path;

use nextpair_data::dataset::{NewCaptions, TextSource};
use nextpair_data::queue::{Answer, Said};
use nextpair_data::{AtomicFile, Matrix, Progress, Side, npy};

use super::Scenario;
use super::learn::Place;
use crate::{Annotator, Error, Experiment};

impl Experiment {
    /// Returns whether annotators write captions that need encoding.
    pub(super) fn encodes_captions(&self) -> bool {
        self.annotator == Annotator::Human && self.pool == Side::Image && !self.model.reads_words()
    }
}

impl Scenario {
    /// Checks that new captions can be encoded, before any training and before people are asked.
    pub(super) fn check_text_source(&self) -> Result<(), Error> {
        if !self.experiment.encodes_captions() {
            return Ok(());
        }
        let Some((set, _)) = self.corpus.text_features() else { return Ok(()) };
        let checked = self.text_source()?.check(self.corpus.dataset(), set);
        checked.map_err(|why| self.no_features(&set.name, why))
    }

    /// Encodes the captions of a closed batch like those of the dataset and adds them to `known`.
    /// Returns the fingerprint of their features, if there are any.
    pub(super) fn encode_captions(
        &self,
        place: Place<'_>,
        path: &Path,
        said: &[Answer],
        known: &mut Option<NewCaptions>,
        progress: &dyn Progress,
    ) -> Result<Option<String>, Error> {
        let Some((set, features)) = self.corpus.text_features() else { return Ok(None) };
        let texts = new_texts(said, known.as_ref());
        if texts.is_empty() || !self.experiment.encodes_captions() {
            return Ok(None);
        }
        let fits = |matrix: &Matrix| features.fits(matrix, texts.len());
        if !path.exists() {
            let rows = self.text_source()?.rows(self.corpus.dataset(), set, &texts, progress);
            let rows = rows.map_err(|why| self.no_features(&set.name, why))?;
            if !fits(&rows) {
                let what = "the encoder makes other rows than the dataset has";
                return Err(self.no_features(&set.name, what.into()));
            }
            let mut file = AtomicFile::create(path)?;
            npy::write_matrix(&mut file, &rows).map_err(|e| Error::io(path, e))?;
            file.commit()?;
        }
        let print = self.check_kept(place, path, |batch| batch.captions.as_deref())?;
        let matrix = npy::open(path)?;
        if !fits(&matrix) {
            let what = "not the features of the captions in the answers beside it; delete it to have \
                        them encoded again";
            return Err(Error::file(path, what));
        }
        *known = Some(NewCaptions::joined(known.take(), &set.name, &texts, matrix));
        Ok(Some(print))
    }

    fn text_source(&self) -> Result<&dyn TextSource, Error> {
        self.options.text_source.as_deref().ok_or_else(|| {
            let what = format!(
                "{} takes text features, and nobody is there who gives them to new captions; hand in \
                 a source of them, or take a model that reads",
                self.experiment.model.name()
            );
            Error::setting("annotator", what)
        })
    }

    fn no_features(&self, set: &str, why: Box<dyn std::error::Error + Send + Sync>) -> Error {
        let (model, set) = (self.experiment.model.name().to_string(), set.to_owned());
        Error::TextFeatures { model, set, why }
    }
}

/// Returns the captions that are not known yet, without duplicates and in order.
fn new_texts<'a>(said: &'a [Answer], known: Option<&NewCaptions>) -> Vec<&'a str> {
    let mut texts: Vec<&str> = Vec::new();
    let mut seen = HashSet::new();
    for answer in said {
        if let Said::Caption(text) = &answer.said
            && known.is_none_or(|known| !known.rows.contains_key(text))
            && seen.insert(text.as_str())
        {
            texts.push(text);
        }
    }
    texts
}

#[cfg(test)]
mod tests;
