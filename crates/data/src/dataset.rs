//! A dataset on disk: a folder that every part of nextpair reads.
//!
//! ```text
//! DATASET/
//!   dataset.toml   the manifest: name, source, counts, image folder, feature sets
//!   items.jsonl    one item a line: id, split, image, captions
//!   import.jsonl   what the import left out or found odd
//!   answers.jsonl  the answers of people in it, in a dataset made by [`Addition`] or
//!                  [`Dataset::enlarged`]
//!   features/      features made for this dataset; others stay where they are
//!   images/        images made for this dataset or brought for it; others stay where they are
//! ```
//!
//! `docs/reference/dataset.md` describes every field. Opening a dataset reads every line once and
//! checks it; features are memory-mapped, wherever they lie.

mod addition;
mod draft;
mod drawn_splits;
mod enlarged;
mod extended;
mod feature_source;
mod features;
mod given_vectors;
mod image_twins;
mod item;
mod items;
mod manifest;
mod new_images;
mod placed_answers;
#[cfg(test)]
pub(crate) mod sample;
mod vectors;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use addition::{Addition, AdditionSummary, EncodedSet};
pub(crate) use draft::Draft;
pub use drawn_splits::DrawnSplits;
pub use extended::{AddedImages, AddedItem};
pub use feature_source::{FeatureSource, NewRows};
pub use features::Features;
pub use given_vectors::GivenVectors;
pub use image_twins::ImageTwins;
pub use item::{DEV, Item, TEST, TRAIN};
pub(crate) use item::{check_caption, check_inside, check_name};
pub use items::Items;
pub(crate) use items::without_place;
pub use manifest::{FeatureSet, LARGEST_CHECKED, Manifest, Per};
pub use new_images::{FOLDER, NewImages, UPLOAD, name_of_image};
pub use placed_answers::PlacedAnswers;

use crate::{AtomicFile, Error, Side, ordinary};

/// File name of the manifest.
pub(crate) const MANIFEST: &str = "dataset.toml";
/// File name of the items.
pub(crate) const ITEMS: &str = "items.jsonl";

/// An opened dataset, checked.
#[derive(Clone, Debug)]
pub struct Dataset {
    folder: PathBuf,
    manifest: Manifest,
    items: Items,
    /// Digests of files of features that were checked: once is enough.
    sound: Arc<Mutex<BTreeSet<BTreeMap<PathBuf, String>>>>,
}

/// The right to change a dataset; see [`Dataset::lock`].
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Dataset {
    /// Opens a dataset and checks everything but the numbers in its features.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(MANIFEST);
        if !path.exists() && !path.is_symlink() {
            let why = match (folder.is_dir(), folder.is_file()) {
                (true, _) => ": there is no dataset.toml in it",
                (_, true) => ": it is a file, and a dataset is a folder",
                _ => "",
            };
            let what = format!("not a dataset{why}; make one with `nextpair import`");
            return Err(Error::format(folder, what));
        }
        let manifest = Manifest::read(&path)?;
        let items = Items::open(&folder.join(ITEMS))?;
        let counted = (items.len(), items.captions());
        if counted != (manifest.items, manifest.captions) {
            let what = format!(
                "{} items and {} captions, but {MANIFEST} says {} and {}",
                counted.0, counted.1, manifest.items, manifest.captions
            );
            return Err(Error::format(&folder.join(ITEMS), what));
        }
        let dataset =
            Dataset { folder: folder.to_path_buf(), manifest, items, sound: Arc::default() };
        for (at, set) in dataset.manifest.features.iter().enumerate() {
            let twin = |other: &FeatureSet| (other.side, &other.name) == (set.side, &set.name);
            if dataset.manifest.features[..at].iter().any(twin) {
                let what = format!("two feature sets of one side are called {}", set.name);
                return Err(Error::format(&path, what));
            }
            Features::open(folder, set, &dataset.items)?;
        }
        Ok(dataset)
    }

    /// The folder of the dataset.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The items.
    pub fn items(&self) -> &Items {
        &self.items
    }

    /// The folder of the images, if they are available. Those that people brought lie elsewhere:
    /// see [`image_file`](Self::image_file).
    pub fn image_folder(&self) -> Option<PathBuf> {
        self.manifest.images.as_ref().map(|images| self.folder.join(images))
    }

    /// Whether files of images are available.
    pub fn has_image_files(&self) -> bool {
        self.manifest.images.is_some() || !self.manifest.brought.is_empty()
    }

    /// Where an item's image should be, if the images are available.
    pub fn image_path(&self, item: &Item) -> Option<PathBuf> {
        Some(self.image_folder_of(item)?.join(item.image.as_ref()?))
    }

    /// The file of an item's image, if it is there.
    pub fn image_file(&self, item: &Item) -> Option<PathBuf> {
        self.image_path(item).filter(|path| path.is_file())
    }

    /// The folder that the path of an item's image is relative to.
    pub(crate) fn image_folder_of(&self, item: &Item) -> Option<PathBuf> {
        let image = item.image.as_ref()?;
        let brought = self.manifest.brought.iter().map(|folder| self.folder.join(folder));
        // Folders of brought images hold nothing else.
        let mut brought = brought.filter(|folder| folder.join(image).is_file());
        brought.next().or_else(|| self.image_folder())
    }

    /// The features of one side: those called `name`, or the last ones added.
    ///
    /// # Errors
    /// If there are none, or a file is damaged. Files of more than [`LARGEST_CHECKED`] bytes are not
    /// checked.
    pub fn features(
        &self,
        side: Side,
        name: Option<&str>,
    ) -> Result<(&FeatureSet, Features), Error> {
        let of_side = || self.manifest.features.iter().filter(|set| set.side == side);
        let wanted = |set: &&FeatureSet| name.is_none_or(|name| set.name == name);
        let Some(set) = of_side().rfind(wanted) else {
            let names: Vec<&str> = of_side().map(|set| set.name.as_str()).collect();
            let what = match (name, names.is_empty()) {
                (_, true) => format!(
                    "no {side} features; `nextpair embed` makes them with --{side}-model, or takes those you have with \
                     --{side}-vectors"
                ),
                (name, false) => {
                    format!(
                        "no {side} features {}; there are {}",
                        name.unwrap_or(""),
                        names.join(", ")
                    )
                }
            };
            return Err(Error::format(&self.folder, what));
        };
        Ok((set, self.open_features(set)?))
    }

    /// Opens features whose numbers are used. Fails if a file is damaged.
    fn open_features(&self, set: &FeatureSet) -> Result<Features, Error> {
        let features = Features::open(&self.folder, set, &self.items)?;
        let mut sound = self.sound.lock().unwrap_or_else(PoisonError::into_inner);
        if !sound.contains(&set.digests) {
            set.check_sealed(&self.folder)?;
            sound.insert(set.digests.clone());
        }
        Ok(features)
    }

    /// Keeps other processes from changing this dataset while the lock lives, removes what killed ones left, and
    /// reloads the manifest that they may have changed before.
    pub fn lock(&mut self) -> Result<Lock, Error> {
        // The items are never replaced, unlike the manifest, so all processes lock the same file.
        let path = self.folder.join(ITEMS);
        let file = ordinary::open(&path)?;
        nextpair_core::lock(&file, &self.folder, "is being changed by another process")?;
        // Files that a killed process did not finish.
        for folder in [self.folder.clone(), self.folder.join("features")] {
            if folder.is_dir() {
                AtomicFile::remove_unfinished(&folder)?;
            }
        }
        self.manifest = Manifest::read(&self.folder.join(MANIFEST))?;
        Ok(Lock { _file: file })
    }

    /// Adds a feature set to the manifest, replacing one of the same side and name. The lock proves
    /// that no other process changes the manifest meanwhile.
    pub fn add_features(&mut self, _lock: &Lock, mut set: FeatureSet) -> Result<(), Error> {
        Features::open(&self.folder, &set, &self.items)?;
        set.seal(&self.folder)?;
        let mut manifest = self.without(set.side, &set.name);
        manifest.features.push(set);
        self.change(manifest)
    }

    /// Removes a feature set from the manifest. Its files stay.
    pub fn remove_features(&mut self, _lock: &Lock, side: Side, name: &str) -> Result<(), Error> {
        self.change(self.without(side, name))
    }

    fn without(&self, side: Side, name: &str) -> Manifest {
        let mut manifest = self.manifest.clone();
        manifest.features.retain(|set| (set.side, set.name.as_str()) != (side, name));
        manifest
    }

    fn change(&mut self, manifest: Manifest) -> Result<(), Error> {
        manifest.write(&self.folder.join(MANIFEST))?;
        self.manifest = manifest;
        Ok(())
    }
}
