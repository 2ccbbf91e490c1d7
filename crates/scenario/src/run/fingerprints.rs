//! Fingerprints of files that must not change while an experiment runs.

use std::path::Path;

use nextpair_data::dataset::Dataset;
use nextpair_data::{fingerprint, fingerprint_of};
use nextpair_models::Corpus;

use crate::{Error, Experiment};

/// Number of feature rows to sample.
const SAMPLED: usize = 64;

pub(super) fn settings_fingerprint(experiment: &Experiment) -> Result<String, Error> {
    Ok(fingerprint(experiment.fixed()?.to_string().as_bytes()))
}

pub(super) fn items_fingerprint(dataset: &Dataset) -> Result<String, Error> {
    file_fingerprint(&dataset.folder().join("items.jsonl"))
}

pub(super) fn file_fingerprint(path: &Path) -> Result<String, Error> {
    Ok(fingerprint_of(path)?)
}

/// Returns the fingerprint of shapes and a sample of rows: the files may be too large to read.
pub(super) fn features_fingerprint(corpus: &Corpus) -> String {
    let mut bytes = Vec::new();
    let texts = corpus.text_features().map(|(_, features)| features);
    for features in [Some(corpus.image_features().1), texts].into_iter().flatten() {
        let matrix = features.matrix();
        let shape = [matrix.rows(), matrix.locals(), matrix.dim()];
        shape.iter().for_each(|&size| bytes.extend((size as u64).to_le_bytes()));
        for row in (0..matrix.rows()).step_by(matrix.rows().div_ceil(SAMPLED).max(1)) {
            bytes.extend_from_slice(matrix.row_bytes(row));
        }
    }
    fingerprint(&bytes)
}
