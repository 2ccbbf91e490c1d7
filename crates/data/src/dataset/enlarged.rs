//! Datasets enlarged by people's answers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{Dataset, Draft, FeatureSet, Features, ITEMS, Manifest, NewCaptions, Per, TRAIN};
use crate::queue::{Answer, Said, act, read_lines};
use crate::{Error, Side, npy};

/// The file of the answers in an enlarged dataset, and its name in older versions. It also marks
/// such a dataset.
const ANSWERS: &str = "answers.jsonl";
const MARKS: [&str; 2] = [ANSWERS, "enlarged.jsonl"];

/// A caption to add to an item.
pub(super) struct Added {
    pub(super) text: String,
    /// The number of the text item's caption that this copies, counted through the old dataset.
    pub(super) copy_of: Option<usize>,
}

/// The captions to add to each item.
pub(super) type AddedCaptions = BTreeMap<usize, Vec<Added>>;

impl Dataset {
    /// Writes the dataset `out`: this one with the answers added. `out` may replace an earlier
    /// enlarged dataset.
    ///
    /// A caption is added to its item. A text that was paired with an item's image lends its
    /// captions to that item and stays where it is. Captions that an item already has are not added
    /// again, and skips change nothing. Items keep their order; images and feature files stay where
    /// they are.
    ///
    /// Caption features cover the old captions and their copies; captions that people wrote get
    /// those of `new`, if any. The file of answers holds those of this dataset and then the new ones,
    /// each once. The same answers make the same bytes.
    pub fn enlarged(
        &self,
        out: &Path,
        answers: &[Answer],
        new: &[NewCaptions],
    ) -> Result<Dataset, Error> {
        self.check_place(out)?;
        let draft = Draft::replacing(out, &MARKS)?;
        self.enlarge(draft, &self.added(answers)?, answers, new)?;
        Dataset::open(out)
    }

    /// Returns an error if `out` is this dataset.
    pub(super) fn check_place(&self, out: &Path) -> Result<(), Error> {
        let old = self.folder.canonicalize().map_err(|e| Error::io(&self.folder, e))?;
        if out.canonicalize().is_ok_and(|out| out == old) {
            return Err(Error::format(out, "a dataset cannot be enlarged in its own place"));
        }
        Ok(())
    }

    /// Fills a draft with this dataset and the captions in `answers`, and finishes it.
    pub(super) fn enlarge(
        &self,
        draft: Draft<'_>,
        added: &AddedCaptions,
        answers: &[Answer],
        new: &[NewCaptions],
    ) -> Result<(), Error> {
        let old = self.folder.canonicalize().map_err(|e| Error::io(&self.folder, e))?;
        draft.clear()?;
        let count = added.values().map(Vec::len).sum::<usize>();
        let manifest = Manifest {
            source: enlarged_source(&self.manifest.source, count),
            captions: self.manifest.captions + count,
            images: self.manifest.images.as_ref().map(|images| old.join(images)),
            features: self.feature_sets(&old, draft.folder(), added, new)?,
            ..self.manifest.clone()
        };
        let mut all = self.answers()?;
        let mut known: HashSet<Answer> = all.iter().map(act).collect();
        all.extend(answers.iter().filter(|answer| known.insert(act(answer))).cloned());
        write_file(&draft.folder().join(ITEMS), |file| self.write_items(file, added))?;
        write_file(&draft.folder().join(ANSWERS), |file| {
            all.iter().try_for_each(|answer| write_line(file, answer))
        })?;
        draft.finish(&manifest)
    }

    /// The answers of people that this dataset was made with, the oldest first. There are none in
    /// an imported dataset.
    pub fn answers(&self) -> Result<Vec<Answer>, Error> {
        let path = MARKS.map(|name| self.folder.join(name)).into_iter().find(|path| path.exists());
        path.map_or(Ok(Vec::new()), |path| read_lines(&path))
    }

    /// The items that people have answered about, with a skip or the other half. Nobody is to be
    /// asked about them again.
    pub fn answered(&self) -> Result<HashSet<usize>, Error> {
        let answers = self.answers()?;
        Ok(self.items.find(answers.iter().map(|answer| answer.id.as_str())).into_values().collect())
    }

    /// Returns an error if [`enlarged`](Self::enlarged) would refuse these answers; [`Error::Row`]
    /// names the first bad one. For logs of answers, which keep everything they accept.
    pub fn check_answers(&self, answers: &[Answer]) -> Result<(), Error> {
        self.added(answers).map(drop)
    }

    /// The captions to add to each item.
    pub(super) fn added(&self, answers: &[Answer]) -> Result<AddedCaptions, Error> {
        let named = answers.iter().flat_map(|answer| match &answer.said {
            Said::Image(image) => [Some(answer.id.as_str()), Some(image.as_str())],
            _ => [Some(answer.id.as_str()), None],
        });
        let numbers = self.items.find(named.flatten());
        let image_features = self.image_features()?;
        let mut captions_of: HashMap<usize, HashSet<String>> = HashMap::new();
        let mut added: AddedCaptions = BTreeMap::new();
        for (row, answer) in answers.iter().enumerate() {
            let wrong = |what| {
                let what = format!("an answer about {:?}: {what}", answer.id);
                Error::row(&self.folder, row, what)
            };
            answer.check().map_err(wrong)?;
            let number = |id: &str| {
                let number = numbers.get(id).copied();
                number.ok_or_else(|| wrong(format!("there is no item {id:?}")))
            };
            let item = number(&answer.id)?;
            let (image, captions) = match &answer.said {
                Said::Skip(_) => continue,
                Said::Caption(text) => (item, vec![Added { text: text.clone(), copy_of: None }]),
                Said::Image(image) => {
                    let captions = self.items.get(item).captions.into_iter();
                    let copy = |(text, of)| Added { text, copy_of: Some(of) };
                    let captions = captions.zip(self.items.captions_of(item)).map(copy);
                    (number(image)?, captions.collect())
                }
            };
            let target = self.items.get(image);
            let has_row = |features: &Features| features.row(image).is_some();
            if target.image.is_none() && !image_features.iter().any(has_row) {
                return Err(wrong(format!("the item {:?} has no image", target.id)));
            }
            // Evaluation data must neither change nor be trained on.
            if let Some(split) = target.split.as_deref().filter(|&split| split != TRAIN) {
                let what = format!("the item {:?} is of the split {split}, not {TRAIN}", target.id);
                return Err(wrong(what));
            }
            if captions.is_empty() {
                return Err(wrong("it has no captions to pair with an image".to_owned()));
            }
            let known = captions_of.entry(image);
            let known = known.or_insert_with(|| target.captions.into_iter().collect());
            for caption in captions {
                if known.insert(caption.text.clone()) {
                    added.entry(image).or_default().push(caption);
                }
            }
        }
        Ok(added)
    }

    /// Image features. An item may have them without the name of an image.
    fn image_features(&self) -> Result<Vec<Features>, Error> {
        let sets = self.manifest.features.iter();
        let of_images = sets.filter(|set| (set.side, set.per) == (Side::Image, Per::Item));
        of_images.map(|set| self.open_features(set)).collect()
    }

    /// Copies unchanged lines byte for byte.
    fn write_items(&self, file: &mut impl Write, added: &AddedCaptions) -> io::Result<()> {
        (0..self.items.len()).try_for_each(|index| match added.get(&index) {
            None => file.write_all(self.items.line(index)),
            Some(added) => {
                let mut item = self.items.get(index);
                item.captions.extend(added.iter().map(|caption| caption.text.clone()));
                write_line(file, &item)
            }
        })
    }

    /// The feature sets of the dataset in `old`, for the manifest of the dataset in `new`.
    fn feature_sets(
        &self,
        old: &Path,
        new: &Path,
        added: &AddedCaptions,
        new_captions: &[NewCaptions],
    ) -> Result<Vec<FeatureSet>, Error> {
        let mut sets = Vec::new();
        for (number, set) in self.manifest.features.iter().enumerate() {
            let mut files: Vec<PathBuf> = set.files.iter().map(|file| old.join(file)).collect();
            let rows = match set.per {
                Per::Item => set.rows.as_ref().map(|rows| old.join(rows)),
                Per::Caption => {
                    let folder = new.join("features");
                    std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, e))?;
                    let is_of = |new: &&NewCaptions| new.set == set.name;
                    let of_set = new_captions.iter().find(is_of).filter(|_| set.side == Side::Text);
                    let rows = self.caption_rows(&self.open_features(set)?, added, of_set);
                    if let Some(NewCaptions { matrix, .. }) = of_set {
                        let own = PathBuf::from(format!("features/{number}.new.npy"));
                        write_file(&new.join(&own), |file| npy::write_matrix(file, matrix))?;
                        files.push(own);
                    }
                    // Not named after the set, whose name may contain any character.
                    let own = PathBuf::from(format!("features/{number}.rows.npy"));
                    write_file(&new.join(&own), |file| npy::write_i64(file, &rows))?;
                    Some(own)
                }
            };
            let made_by = set.made_by.clone().map(|made_by| at_home_in(old, made_by));
            sets.push(FeatureSet { files, rows, made_by, ..set.clone() });
        }
        Ok(sets)
    }

    /// The row of every caption of the enlarged dataset, -1 for none.
    fn caption_rows(
        &self,
        features: &Features,
        added: &AddedCaptions,
        new: Option<&NewCaptions>,
    ) -> Vec<i64> {
        let row = |caption: usize| features.row(caption).map_or(-1, |row| row as i64);
        // New rows follow the old ones.
        let new_row = |text: &str| {
            let row = new.and_then(|new| new.rows.get(text));
            row.map_or(-1, |row| (features.matrix().rows() + row) as i64)
        };
        let added_row = |added: &Added| added.copy_of.map_or_else(|| new_row(&added.text), row);
        let mut rows = Vec::new();
        for index in 0..self.items.len() {
            rows.extend(self.items.captions_of(index).map(row));
            let added = added.get(&index).into_iter().flatten();
            rows.extend(added.map(added_row));
        }
        rows
    }
}

/// The origin of an enlarged dataset. Enlarged again, it is one enlarged by more captions.
fn enlarged_source(source: &str, count: usize) -> String {
    let parts = source.rsplit_once(", enlarged by ");
    let earlier = parts.and_then(|(first, rest)| {
        Some((first, rest.strip_suffix(" captions")?.parse::<usize>().ok()?))
    });
    let (first, before) = earlier.unwrap_or((source, 0));
    format!("{first}, enlarged by {} captions", before + count)
}

/// Rewrites the paths in `made_by` for another folder: the principal components stay in `old`.
pub(super) fn at_home_in(old: &Path, mut made_by: toml::Table) -> toml::Table {
    if let Some(toml::Value::String(file)) = made_by.get_mut("pca") {
        *file = old.join(&*file).display().to_string();
    }
    made_by
}

pub(super) fn write_line(file: &mut impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *file, value)?;
    file.write_all(b"\n")
}

/// Writes a file of a draft and returns once it would survive a power loss.
pub(super) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), Error> {
    let whole = || {
        let mut file = BufWriter::new(File::create(path)?);
        write(&mut file)?;
        file.flush()?;
        file.get_ref().sync_all()
    };
    whole().map_err(|e| Error::io(path, e))
}

#[cfg(test)]
mod tests;
