//! Datasets with items added to those of another one.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use half::f16;
use rayon::prelude::*;

use super::enlarged::{write_file, write_line};
use super::{Dataset, Draft, FeatureSet, ITEMS, Item, Manifest, Per};
use crate::{Dtype, Error, Matrix, Progress, Side, npy};

/// Rows that are made together.
const TOGETHER: usize = 64;

/// The file of the added image features.
const ADDED: &str = "features/added.npy";

/// An item to add to a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedItem {
    /// The item.
    pub item: Item,
    /// The caption of the old dataset that each caption repeats. It lends its features.
    pub captions_of: Vec<usize>,
}

/// Image features of added items.
pub struct AddedImages<'a> {
    /// The image features of the old dataset that the added ones follow. Other image features are
    /// left out of the new dataset.
    pub set: &'a str,
    /// Writes the features of an added item, by its place among the added ones: regions by numbers.
    pub row: &'a (dyn Fn(usize, &mut [f64]) + Sync),
}

impl Dataset {
    /// Writes the dataset `out`: this one, followed by `added`. Images and feature files stay where
    /// they are. `about` is the name and the text of a file that says how `out` was made; `out` may
    /// replace an earlier dataset with a file of this name. The same additions make the same bytes.
    pub fn extended(
        &self,
        out: &Path,
        (mark, text): (&'static str, &str),
        added: &[AddedItem],
        images: &AddedImages<'_>,
        progress: &dyn Progress,
    ) -> Result<Dataset, Error> {
        let old = self.folder.canonicalize().map_err(|e| Error::io(&self.folder, e))?;
        let taken = self.items.find(added.iter().map(|added| added.item.id.as_str()));
        if let Some(id) =
            added.iter().map(|added| &added.item.id).find(|id| taken.contains_key(id.as_str()))
        {
            let what = format!("there is an item {id} already, and another one was to be added");
            return Err(Error::format(&self.folder, what));
        }
        let marks = [mark];
        let draft = Draft::replacing(out, &marks)?;
        draft.clear()?;
        let features = draft.folder().join("features");
        fs::create_dir(&features).map_err(|e| Error::io(&features, e))?;
        let captions: usize = added.iter().map(|added| added.item.captions.len()).sum();
        let manifest = Manifest {
            source: format!("{}, and {} items added", self.manifest.source, added.len()),
            items: self.manifest.items + added.len(),
            captions: self.manifest.captions + captions,
            images: self.manifest.images.as_ref().map(|images| old.join(images)),
            brought: self.manifest.brought.iter().map(|folder| old.join(folder)).collect(),
            features: self.extended_features(&old, draft.folder(), added, images, progress)?,
            ..self.manifest.clone()
        };
        write_file(&draft.folder().join(ITEMS), |file| {
            (0..self.items.len()).try_for_each(|index| file.write_all(self.items.line(index)))?;
            added.iter().try_for_each(|added| write_line(file, &added.item))
        })?;
        write_file(&draft.folder().join(mark), |file| file.write_all(text.as_bytes()))?;
        draft.finish(&manifest)?;
        Dataset::open(out)
    }

    /// The feature sets of the dataset in `old`, for the manifest of the dataset in `new`.
    fn extended_features(
        &self,
        old: &Path,
        new: &Path,
        added: &[AddedItem],
        images: &AddedImages<'_>,
        progress: &dyn Progress,
    ) -> Result<Vec<FeatureSet>, Error> {
        let mut sets = Vec::new();
        for (number, set) in self.manifest.features.iter().enumerate() {
            let features = self.open_features(set)?;
            let row = |index: usize| features.row(index).map_or(-1, |row| row as i64);
            let mut larger = set.seen_from_elsewhere(old);
            let mut rows: Vec<i64>;
            match (set.side, set.per) {
                (Side::Image, Per::Item) if set.name == images.set => {
                    let first = features.matrix().rows();
                    rows = (0..self.items.len()).map(row).collect();
                    rows.extend((0..added.len()).map(|at| (first + at) as i64));
                    if !added.is_empty() {
                        let path = new.join(ADDED);
                        write_rows(&path, features.matrix(), added.len(), images.row, progress)?;
                        larger.files.push(ADDED.into());
                    }
                }
                (Side::Text, Per::Caption) => {
                    rows = (0..self.items.captions()).map(row).collect();
                    rows.extend(
                        added.iter().flat_map(|added| &added.captions_of).map(|&of| row(of)),
                    );
                }
                _ => continue,
            }
            let own = PathBuf::from(format!("features/{number}.rows.npy"));
            write_file(&new.join(&own), |file| npy::write_i64(file, &rows))?;
            larger.list_rows_in(own);
            sets.push(larger);
        }
        Ok(sets)
    }
}

/// Writes rows of the shape and type of `like`.
fn write_rows(
    path: &Path,
    like: &Matrix,
    count: usize,
    row: &(dyn Fn(usize, &mut [f64]) + Sync),
    progress: &dyn Progress,
) -> Result<(), Error> {
    let (locals, dim, dtype) = (like.locals(), like.dim(), like.dtype().in_npy());
    progress.start("features", count as u64);
    write_file(path, |file| {
        file.write_all(&npy::header_of(count, locals, dim, dtype))?;
        for first in (0..count).step_by(TOGETHER) {
            let made: Vec<Vec<u8>> = (first..count.min(first + TOGETHER))
                .into_par_iter()
                .map(|at| {
                    let mut numbers = vec![0.0; locals * dim];
                    row(at, &mut numbers);
                    stored(&numbers, dtype)
                })
                .collect();
            made.iter().try_for_each(|bytes| file.write_all(bytes))?;
            progress.advance(made.len() as u64);
        }
        io::Result::Ok(())
    })
}

/// Returns numbers in their storage type.
fn stored(numbers: &[f64], dtype: Dtype) -> Vec<u8> {
    let numbers = numbers.iter();
    match dtype {
        Dtype::F16 => numbers.flat_map(|&value| f16::from_f64(value).to_le_bytes()).collect(),
        Dtype::F32 | Dtype::Bf16 => {
            numbers.flat_map(|&value| (value as f32).to_le_bytes()).collect()
        }
        Dtype::F64 => numbers.flat_map(|&value| value.to_le_bytes()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn added_items_follow_and_captions_keep_their_features() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("old");
        std::fs::create_dir(&old).unwrap();
        let write = |name: &str, rows: usize, values: &[f32]| {
            write_file(&old.join(name), |file| {
                npy::write_f32(file, rows, 2, values.iter().copied())
            })
        };
        write("i.npy", 2, &[1.0, 2.0, 3.0, 4.0]).unwrap();
        write("t.npy", 3, &[1.0, 0.0, 2.0, 0.0, 3.0, 0.0]).unwrap();
        let items = [sample::item("a", None, &["x", "y"]), sample::item("b", None, &["z"])];
        let set = |name: &str, side, per, file: &str| FeatureSet {
            name: name.to_owned(),
            side,
            per,
            files: vec![file.into()],
            rows: None,
            made_by: None,
            digests: Default::default(),
        };
        let dataset = sample::dataset(&old, &items, |manifest| {
            manifest.features = vec![
                set("other", Side::Image, Per::Item, "i.npy"),
                set("own", Side::Image, Per::Item, "i.npy"),
                set("texts", Side::Text, Per::Caption, "t.npy"),
            ];
        });
        let copy = Item {
            id: "a~1".into(),
            split: Some("copies".into()),
            image: None,
            captions: vec!["y".into(), "x".into()],
        };
        let junk = Item { id: "junk-1".into(), split: Some("junk".into()), ..Item::default() };
        let added = [
            AddedItem { item: copy, captions_of: vec![1, 0] },
            AddedItem { item: junk, captions_of: vec![] },
        ];
        let row = |at: usize, out: &mut [f64]| out.fill(10.0 + at as f64);
        let images = AddedImages { set: "own", row: &row };
        let out = folder.path().join("new");
        let mark = ("made.toml", "how = 1\n");
        let new = dataset.extended(&out, mark, &added, &images, &()).unwrap();
        assert_eq!((new.items().len(), new.items().captions()), (4, 5));
        assert!(new.features(Side::Image, Some("other")).is_err());
        let (_, features) = new.features(Side::Image, None).unwrap();
        let mut row = [0.0; 2];
        features.matrix().read_f64(features.row(3).unwrap(), &mut row);
        assert_eq!((features.row(1), row), (Some(1), [11.0; 2]));
        let (_, texts) = new.features(Side::Text, None).unwrap();
        assert_eq!([2, 3, 4].map(|caption| texts.row(caption)), [Some(2), Some(1), Some(0)]);
        // Again, over the earlier one, and never over another dataset.
        let bytes = std::fs::read(out.join(ADDED)).unwrap();
        drop((new, features, texts));
        let new = dataset.extended(&out, mark, &added, &images, &()).unwrap();
        assert_eq!(std::fs::read(out.join(ADDED)).unwrap(), bytes);
        assert!(dataset.extended(&old, mark, &added, &images, &()).is_err());
        let twice = new.extended(&folder.path().join("x"), mark, &added, &images, &());
        assert!(twice.unwrap_err().to_string().contains("there is an item a~1 already"));
    }
}
