//! `dataset.toml`: what a dataset is made of, for people and for programs.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{AtomicFile, Error, Side, ordinary};

/// The version this program writes. It reads this one and says so about others.
const VERSION: u32 = 1;

/// The head of a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of the format, 1.
    pub nextpair_dataset: u32,
    /// What people call it.
    pub name: String,
    /// Where it came from, in words.
    pub source: String,
    /// Whether it was made up by a program. Whoever shows numbers about it says so.
    #[serde(default)]
    pub synthetic: bool,
    /// Lines of `items.jsonl`.
    pub items: usize,
    /// Captions of all items.
    pub captions: usize,
    /// The folder that image paths are relative to. Without it the images are known by name only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<PathBuf>,
    /// Numbers that describe the images or the captions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<FeatureSet>,
}

/// Feature files: one row per item or caption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureSet {
    /// Distinct among the feature sets of one side.
    pub name: String,
    /// What the rows describe.
    pub side: Side,
    /// What a row belongs to.
    pub per: Per,
    /// Arrays whose rows follow each other, relative to the dataset or absolute.
    pub files: Vec<PathBuf>,
    /// An array with the row of every item or caption, -1 for none. Without it row `i` belongs
    /// to item or caption `i`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<PathBuf>,
    /// How the features were made, so that more can be made in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<toml::Table>,
}

/// What a row of a feature file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// One row for each item.
    Item,
    /// One row for each caption, counted through all items.
    Caption,
}

impl Manifest {
    /// A manifest without images, features and counts yet.
    pub fn new(name: &str, source: &str) -> Self {
        Manifest {
            nextpair_dataset: VERSION,
            name: name.to_owned(),
            source: source.to_owned(),
            synthetic: false,
            items: 0,
            captions: 0,
            images: None,
            features: Vec::new(),
        }
    }

    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let text = ordinary::read_text(path)?;
        // The version is looked at first: a newer format may have fields that we do not know.
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
