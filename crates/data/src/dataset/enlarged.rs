//! Datasets enlarged by people's answers.

mod rows;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::new_images::{bare_name, check_bytes};
use super::{
    Dataset, Draft, DrawnSplits, FeatureSet, Features, ITEMS, Item, Manifest, NewImages, NewRows,
    Per, TRAIN,
};
use crate::queue::{Answer, AnswerContent, act, read_lines};
use crate::{Error, Side, ordinary};
pub(super) use rows::New;

/// The file of the answers in an enlarged dataset. It also marks such a dataset.
const ANSWERS: &str = "answers.jsonl";

/// The folder of brought images in an enlarged dataset.
const IMAGES: &str = "images";

/// What answers add to a dataset.
#[derive(Default)]
pub(super) struct Enlargement {
    /// New items, which follow the old ones: the id and the file of each image.
    pub(super) images: Vec<(String, PathBuf)>,
    /// Captions by item, old and new.
    captions: BTreeMap<usize, Vec<AddedCaption>>,
    /// The splits that are drawn from items that had no caption before.
    pub(super) splits: DrawnSplits,
}

/// A caption to add to an item.
pub(super) struct AddedCaption {
    pub(super) text: String,
    /// The number of the text item's caption that this copies, counted through the old dataset.
    pub(super) copy_of: Option<usize>,
}

impl Enlargement {
    /// All captions, those of one item after those of another.
    pub(super) fn captions(&self) -> impl Iterator<Item = &AddedCaption> {
        self.captions.values().flatten()
    }
}

impl Dataset {
    /// Writes the dataset `out`: this one with the answers added. `out` may replace an earlier
    /// enlarged dataset.
    ///
    /// A caption is added to its item. A text that was paired with an item's image lends its
    /// captions to that item and stays where it is. An image of `images` becomes an item of its
    /// own after all others, in the order of the answers, and its file lies in `out`: linked where
    /// the disk can do that, else copied. Captions that an item already has are not added again,
    /// and skips change nothing. Items keep their order; other images and feature files stay where
    /// they are.
    ///
    /// Caption features cover the old captions and their copies; captions that people wrote get
    /// those of `captions`, which has rows for any number of text feature sets, and new images
    /// those of `images`. The file of answers holds those of this dataset and then the new ones,
    /// each once. The same answers make the same bytes.
    pub fn enlarged(
        &self,
        out: &Path,
        answers: &[Answer],
        captions: &[NewRows],
        images: &NewImages,
    ) -> Result<Dataset, Error> {
        self.check_place(out)?;
        let draft = Draft::replacing(out, &[ANSWERS])?;
        let new = New { captions, images: &images.features };
        self.enlarge(draft, &self.added(answers, images)?, answers, &new)?;
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

    /// Fills a draft with this dataset and what `answers` add, and finishes it.
    pub(super) fn enlarge(
        &self,
        draft: Draft<'_>,
        added: &Enlargement,
        answers: &[Answer],
        new: &New<'_>,
    ) -> Result<(), Error> {
        let old = self.folder.canonicalize().map_err(|e| Error::io(&self.folder, e))?;
        draft.clear()?;
        if !added.images.is_empty() {
            place_images(&draft.folder().join(IMAGES), &added.images)?;
        }
        let features = self.feature_sets(&old, draft.folder(), added, new)?;
        let manifest = self.enlarged_manifest(added, features)?;
        let all = self.answers_with(answers)?;
        write_file(&draft.folder().join(ITEMS), |file| self.write_items(file, added))?;
        write_file(&draft.folder().join(ANSWERS), |file| {
            all.iter().try_for_each(|answer| write_line(file, answer))
        })?;
        draft.finish(&manifest)
    }

    /// The manifest of this dataset with what was added, and with these features.
    pub(super) fn enlarged_manifest(
        &self,
        added: &Enlargement,
        features: Vec<FeatureSet>,
    ) -> Result<Manifest, Error> {
        let old = self.folder.canonicalize().map_err(|e| Error::io(&self.folder, e))?;
        let mut brought: Vec<PathBuf> =
            self.manifest.brought.iter().map(|folder| old.join(folder)).collect();
        if !added.images.is_empty() {
            brought.insert(0, IMAGES.into());
        }
        let (captions, images) = (added.captions().count(), added.images.len());
        Ok(Manifest {
            source: enlarged_source(&self.manifest.source, captions, images),
            items: self.manifest.items + images,
            captions: self.manifest.captions + captions,
            images: self.manifest.images.as_ref().map(|images| old.join(images)),
            brought,
            features,
            ..self.manifest.clone()
        })
    }

    /// The answers of this dataset and then the new ones, each once.
    pub(super) fn answers_with(&self, answers: &[Answer]) -> Result<Vec<Answer>, Error> {
        let mut all = self.answers()?;
        let mut known: HashSet<Answer> = all.iter().map(act).collect();
        all.extend(answers.iter().filter(|answer| known.insert(act(answer))).cloned());
        Ok(all)
    }

    /// The answers of people that this dataset was made with, the oldest first. There are none in
    /// an imported dataset.
    pub fn answers(&self) -> Result<Vec<Answer>, Error> {
        let path = self.folder.join(ANSWERS);
        if path.exists() { read_lines(&path) } else { Ok(Vec::new()) }
    }

    /// The items that people have answered about, with a skip or the other half. Nobody is to be
    /// asked about them again.
    pub fn answered(&self) -> Result<HashSet<usize>, Error> {
        let answers = self.answers()?;
        Ok(self.items.find(answers.iter().map(|answer| answer.id.as_str())).into_values().collect())
    }

    /// Returns an error if [`enlarged`](Self::enlarged) would refuse these answers; [`Error::Row`]
    /// names the first bad one. For logs of answers, which keep everything they accept.
    pub fn check_answers(&self, answers: &[Answer], images: &NewImages) -> Result<(), Error> {
        self.added(answers, images).map(drop)
    }

    /// The items and captions to add.
    pub(super) fn added(
        &self,
        answers: &[Answer],
        images: &NewImages,
    ) -> Result<Enlargement, Error> {
        let named = answers.iter().flat_map(|answer| match &answer.said {
            AnswerContent::Image(image) => [Some(answer.id.as_str()), Some(image.as_str())],
            _ => [Some(answer.id.as_str()), None],
        });
        let mut numbers = self.items.find(named.flatten());
        let image_features = self.image_features()?;
        let mut captions_of: HashMap<usize, HashSet<String>> = HashMap::new();
        let mut added = Enlargement::default();
        for (row, answer) in answers.iter().enumerate() {
            let wrong = |what| {
                let what = format!("an answer about {:?}: {what}", answer.id);
                Error::row(&self.folder, row, what)
            };
            answer.check().map_err(wrong)?;
            if let AnswerContent::Image(image) = &answer.said
                && !numbers.contains_key(image.as_str())
                && let Some((id, file)) = images.files.get_key_value(image)
            {
                numbers.insert(image, self.items.len() + added.images.len());
                added.images.push((id.clone(), file.clone()));
            }
            let number = |id: &str| {
                let number = numbers.get(id).copied();
                number.ok_or_else(|| wrong(format!("there is no item {id:?}")))
            };
            let item = number(&answer.id)?;
            let (image, captions) = match &answer.said {
                AnswerContent::Skip(_) => continue,
                AnswerContent::Caption(text) => {
                    (item, vec![AddedCaption { text: text.clone(), copy_of: None }])
                }
                AnswerContent::Image(image) => {
                    let captions = self.items.get(item).captions.into_iter();
                    let copy = |(text, of)| AddedCaption { text, copy_of: Some(of) };
                    let captions = captions.zip(self.items.captions_of(item)).map(copy);
                    (number(image)?, captions.collect())
                }
            };
            let target = self.item(image, &added);
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
                    added.captions.entry(image).or_default().push(caption);
                }
            }
        }
        Ok(added)
    }

    /// An item of the old dataset, or a new one. New ones have no captions yet.
    fn item(&self, index: usize, added: &Enlargement) -> Item {
        let Some(new) = index.checked_sub(self.items.len()) else { return self.items.get(index) };
        let (id, _) = &added.images[new];
        let has_train = self.items.splits().any(|split| split == Some(TRAIN));
        Item {
            id: id.clone(),
            split: has_train.then(|| TRAIN.to_owned()),
            image: Some(bare_name(id).to_owned()),
            captions: Vec::new(),
        }
    }

    /// Image features. An item may have them without the name of an image.
    pub(super) fn image_features(&self) -> Result<Vec<Features>, Error> {
        let sets = self.manifest.features.iter();
        let of_images = sets.filter(|set| (set.side, set.per) == (Side::Image, Per::Item));
        of_images.map(|set| self.open_features(set)).collect()
    }

    /// The items that get their first captions, with their splits, some of which are drawn.
    pub(super) fn drawn(&self, added: &Enlargement) -> HashMap<usize, Option<String>> {
        let items = added.captions.keys().map(|&index| (index, self.item(index, added)));
        let first = items.filter(|(_, item)| item.captions.is_empty());
        let drawn = first.map(|(index, item)| {
            let split = added.splits.split_of(&item.id, item.split.as_deref());
            (index, split.map(str::to_owned).or(item.split))
        });
        drawn.collect()
    }

    /// Copies unchanged lines byte for byte.
    fn write_items(&self, file: &mut impl Write, added: &Enlargement) -> io::Result<()> {
        let drawn = self.drawn(added);
        (0..self.items.len() + added.images.len()).try_for_each(|index| {
            match added.captions.get(&index) {
                None if index < self.items.len() => file.write_all(self.items.line(index)),
                captions => {
                    let mut item = self.item(index, added);
                    let captions = captions.into_iter().flatten();
                    item.captions.extend(captions.map(|caption| caption.text.clone()));
                    item.split = drawn.get(&index).cloned().unwrap_or(item.split);
                    write_line(file, &item)
                }
            }
        })
    }
}

/// Links or copies images into a new folder, under the names in their ids.
fn place_images(folder: &Path, images: &[(String, PathBuf)]) -> Result<(), Error> {
    fs::create_dir(folder).map_err(|e| Error::io(folder, e))?;
    for (id, file) in images {
        check_bytes(id, file)?;
        let own = folder.join(bare_name(id));
        // Links need no room, but not every disk has them.
        if fs::hard_link(file, &own).is_err() {
            let bytes = ordinary::read(file)?;
            write_file(&own, |own| own.write_all(&bytes))?;
        }
    }
    Ok(())
}

/// The origin of an enlarged dataset. Enlarged again, it is one enlarged by more.
fn enlarged_source(source: &str, captions: usize, images: usize) -> String {
    let counts = |text: &str| -> Option<(usize, usize)> {
        let (captions, rest) = text.split_once(" captions")?;
        let images = match rest {
            "" => 0,
            rest => rest.strip_prefix(" and ")?.strip_suffix(" images")?.parse().ok()?,
        };
        Some((captions.parse().ok()?, images))
    };
    let parts = source.rsplit_once(", enlarged by ");
    let earlier = parts.and_then(|(first, rest)| Some((first, counts(rest)?)));
    let (first, before) = earlier.unwrap_or((source, (0, 0)));
    let images = match before.1 + images {
        0 => String::new(),
        images => format!(" and {images} images"),
    };
    format!("{first}, enlarged by {} captions{images}", before.0 + captions)
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
