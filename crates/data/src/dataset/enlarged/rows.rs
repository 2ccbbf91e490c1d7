//! Feature sets of enlarged datasets.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::{Dataset, FeatureSet, Features, NewRows, Per};
use super::{AddedCaption, Enlargement, write_file};
use crate::{Error, Side, npy};

impl Dataset {
    /// The feature sets of the dataset in `old`, for the manifest of the dataset in `folder`.
    pub(super) fn feature_sets(
        &self,
        old: &Path,
        folder: &Path,
        added: &Enlargement,
        new: &New<'_>,
    ) -> Result<Vec<FeatureSet>, Error> {
        let mut sets = Vec::new();
        for (number, set) in self.manifest.features.iter().enumerate() {
            let mut larger = set.seen_from_elsewhere(old);
            if set.per == Per::Item && added.images.is_empty() {
                sets.push(larger);
                continue;
            }
            let of_set = new.rows_of(set);
            let features = self.open_features(set)?;
            if of_set.is_some_and(|new| !new.fits(features.matrix())) {
                let what =
                    format!("new {} features are of another shape than {}", set.side, set.name);
                return Err(Error::format(&self.folder, what));
            }
            let rows = match set.per {
                Per::Item => self.item_rows(&features, added, of_set),
                Per::Caption => self.caption_rows(&features, added, of_set),
            };
            let own = folder.join("features");
            fs::create_dir_all(&own).map_err(|e| Error::io(&own, e))?;
            // Not named after the set, whose name may contain any character.
            if let Some(NewRows { matrix, .. }) = of_set {
                let own = PathBuf::from(format!("features/{number}.new.npy"));
                write_file(&folder.join(&own), |file| npy::write_matrix(file, matrix))?;
                larger.files.push(own);
            }
            let own = PathBuf::from(format!("features/{number}.rows.npy"));
            write_file(&folder.join(&own), |file| npy::write_i64(file, &rows))?;
            larger.list_rows_in(own);
            sets.push(larger);
        }
        Ok(sets)
    }

    /// The row of every item of the enlarged dataset, -1 for none.
    fn item_rows(
        &self,
        features: &Features,
        added: &Enlargement,
        new: Option<&NewRows>,
    ) -> Vec<i64> {
        let old = (0..self.items.len()).map(|item| features.row(item).map_or(-1, |r| r as i64));
        old.chain(added.images.iter().map(|(id, _)| new_row(features, new, id))).collect()
    }

    /// The row of every caption of the enlarged dataset, -1 for none.
    fn caption_rows(
        &self,
        features: &Features,
        added: &Enlargement,
        new: Option<&NewRows>,
    ) -> Vec<i64> {
        let row = |caption: usize| features.row(caption).map_or(-1, |row| row as i64);
        let added_row = |added: &AddedCaption| {
            added.copy_of.map_or_else(|| new_row(features, new, &added.text), row)
        };
        let mut rows = Vec::new();
        for index in 0..self.items.len() + added.images.len() {
            if index < self.items.len() {
                rows.extend(self.items.captions_of(index).map(row));
            }
            let added = added.captions.get(&index).into_iter().flatten();
            rows.extend(added.map(added_row));
        }
        rows
    }
}

/// Features of what is new.
pub(in super::super) struct New<'a> {
    pub(in super::super) captions: &'a [NewRows],
    pub(in super::super) images: &'a [NewRows],
}

impl<'a> New<'a> {
    /// The new rows of a feature set.
    fn rows_of(&self, set: &FeatureSet) -> Option<&'a NewRows> {
        let rows = match (set.side, set.per) {
            (Side::Text, Per::Caption) => self.captions,
            (Side::Image, Per::Item) => self.images,
            _ => &[],
        };
        rows.iter().find(|new| new.set == set.name)
    }
}

/// The row of a new caption or item, -1 for none. New rows follow the old ones.
fn new_row(features: &Features, new: Option<&NewRows>, name: &str) -> i64 {
    let row = new.and_then(|new| new.rows.get(name));
    row.map_or(-1, |row| (features.matrix().rows() + row) as i64)
}
