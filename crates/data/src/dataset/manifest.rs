//! `dataset.toml`: the contents of a dataset, for people and programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{AtomicFile, Error, Side, fingerprint_of, ordinary};

/// The format version this program writes. It refuses to read any other.
const VERSION: u32 = 1;

/// The manifest of a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Format version, 1.
    pub nextpair_dataset: u32,
    /// The name for people.
    pub name: String,
    /// The origin, in words.
    pub source: String,
    /// Whether a program generated the data. Reports of results on it must say so.
    #[serde(default)]
    pub synthetic: bool,
    /// Number of lines in `items.jsonl`.
    pub items: usize,
    /// Total number of captions.
    pub captions: usize,
    /// The folder that image paths are relative to. Without it only the names of the images are
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<PathBuf>,
    /// Folders of images that people brought, named by their bytes. Images are looked for there
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub brought: Vec<PathBuf>,
    /// Features of the images or the captions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<FeatureSet>,
}

/// Feature files: one row per item or caption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureSet {
    /// Unique among the feature sets of one side.
    pub name: String,
    /// The side that the rows describe.
    pub side: Side,
    /// Whether rows belong to items or to captions.
    pub per: Per,
    /// Arrays whose rows follow each other, with paths relative to the dataset or absolute.
    pub files: Vec<PathBuf>,
    /// An array with the row of every item or caption, -1 for none. Without it row `i` belongs to
    /// item or caption `i`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<PathBuf>,
    /// How the features were made, so that more can be made in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<toml::Table>,
    /// Fingerprints of those files that nextpair wrote, by their paths in `files` and `rows`. Files that
    /// were made elsewhere, and those of more than [`LARGEST_CHECKED`] bytes, have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub digests: BTreeMap<PathBuf, String>,
}

/// Larger files of features are not checked when they are opened: reading them once more takes too
/// long.
pub const LARGEST_CHECKED: u64 = 1 << 30;

impl FeatureSet {
    /// Takes the fingerprints of the files in `folder`, the dataset's, which have just been written.
    pub(super) fn seal(&mut self, folder: &Path) -> Result<(), Error> {
        for file in self.files.iter().chain(&self.rows).filter(|file| file.is_relative()) {
            let path = folder.join(file);
            let size = path.metadata().map_err(|e| Error::io(&path, e))?.len();
            if size <= LARGEST_CHECKED && !self.digests.contains_key(file) {
                self.digests.insert(file.clone(), fingerprint_of(&path)?);
            }
        }
        Ok(())
    }

    /// Fails if a file is not what it was when its fingerprint was taken.
    pub(super) fn check_sealed(&self, folder: &Path) -> Result<(), Error> {
        for (file, digest) in &self.digests {
            let path = folder.join(file);
            if fingerprint_of(&path)? != *digest {
                let what = format!(
                    "damaged, or changed since it became features of {}; take a copy of it, or make \
                     the features again",
                    self.name
                );
                return Err(Error::format(&path, what));
            }
        }
        Ok(())
    }

    /// The same features, for the manifest of another dataset than that in `folder`.
    pub(super) fn seen_from_elsewhere(&self, folder: &Path) -> FeatureSet {
        let digests = self.digests.iter();
        FeatureSet {
            files: self.files.iter().map(|file| folder.join(file)).collect(),
            rows: self.rows.as_ref().map(|rows| folder.join(rows)),
            made_by: self.made_by.clone().map(|made_by| at_home_in(folder, made_by)),
            digests: digests.map(|(file, digest)| (folder.join(file), digest.clone())).collect(),
            ..self.clone()
        }
    }

    /// Lists the rows in another file.
    pub(super) fn list_rows_in(&mut self, file: PathBuf) {
        if let Some(other) = self.rows.replace(file) {
            self.digests.remove(&other);
        }
    }
}

/// Rewrites the paths in `made_by` for another folder: the principal components stay in `old`.
fn at_home_in(old: &Path, mut made_by: toml::Table) -> toml::Table {
    if let Some(toml::Value::String(file)) = made_by.get_mut("pca") {
        *file = old.join(&*file).display().to_string();
    }
    made_by
}

/// The owner of a row of a feature file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// One row per item.
    Item,
    /// One row per caption, counted through all items.
    Caption,
}

impl Manifest {
    /// A manifest without images, features or counts.
    pub fn new(name: &str, source: &str) -> Self {
        Manifest {
            nextpair_dataset: VERSION,
            name: name.to_owned(),
            source: source.to_owned(),
            synthetic: false,
            items: 0,
            captions: 0,
            images: None,
            brought: Vec::new(),
            features: Vec::new(),
        }
    }

    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let text = ordinary::read_text(path)?;
        // Check the version first: a newer format may have unknown fields.
        #[derive(Deserialize)]
        struct Head {
            nextpair_dataset: u32,
        }
        let wrong = |e: toml::de::Error| {
            let line = e.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            Error::line(path, line, e.message())
        };
        let head: Head = toml::from_str(&text).map_err(wrong)?;
        if head.nextpair_dataset != VERSION {
            let found = head.nextpair_dataset;
            let what = format!("format {found}; this version of nextpair reads format {VERSION}");
            return Err(Error::format(path, what));
        }
        toml::from_str(&text).map_err(wrong)
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        let text = toml::to_string(self).map_err(|e| Error::format(path, e.to_string()))?;
        AtomicFile::write_whole(path, text.as_bytes())
    }
}
