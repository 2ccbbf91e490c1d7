//! Pools as people have them, made of any dataset: near-copies in bursts, subjects that are rare, and
//! items that nobody can caption.

mod layout;
mod make;
mod rows;

use std::path::PathBuf;

use nextpair_data::Side;
use nextpair_data::text::tokenize;
use serde::{Deserialize, Serialize};

use crate::{Annotator, Error, Experiment};
pub(crate) use layout::{Candidates, Layout};
pub(crate) use make::make;

/// The split of near-copies.
pub(crate) const COPIES: &str = "copies";
/// The split of items that nobody can caption.
pub(crate) const JUNK: &str = "junk";

/// More copies than this for every training item are a mistake.
const MOST_COPIES: f64 = 10.0;
/// A larger share of junk is a mistake.
const MOST_JUNK: f64 = 0.95;

/// How the pool of an experiment differs from the dataset it is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct World {
    /// Near-copies to add, as a share of the training items.
    pub copies: f64,
    /// How far the features of a copy differ from those of its source: the standard deviation of
    /// Gaussian noise, relative to that of each dimension.
    pub jitter: f64,
    /// Subjects that are rare in train.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rare: Option<Rare>,
    /// The share of the first pool that nobody can caption.
    pub junk: f64,
    /// What such items look like.
    pub junk_kind: JunkKind,
}

impl Default for World {
    /// Returns the dataset as it is, and the usual jitter and kind of junk.
    fn default() -> Self {
        World { copies: 0.0, jitter: 0.1, rare: None, junk: 0.0, junk_kind: JunkKind::default() }
    }
}

/// Subjects that are rare in train, by words of their captions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rare {
    /// An item is of these subjects if one of its captions has one of these words.
    pub words: Vec<String>,
    /// The share of them that stays in train. Test and dev keep theirs.
    pub keep: f64,
}

/// What items look like that nobody can caption.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JunkKind {
    /// One kind: an item whose numbers changed their places, in the same way for all junk.
    #[default]
    Permuted,
    /// Every number is that of another item at the same place. Number by number such items look like
    /// all others, so no straight cut tells them from images.
    Shuffled,
    /// Many kinds: two or three items, added or taken away, with parts of them exchanged. Around the
    /// mean of the items they lie on all sides alike.
    Diverse,
    /// Images of another dataset with features of the same shape.
    Dataset(PathBuf),
}

impl World {
    /// Describes the world: `500 near-copies for 1,000 training items, 20 % of the pool is junk`.
    pub fn in_words(&self) -> String {
        let mut words = Vec::new();
        if self.copies > 0.0 {
            let (copies, jitter) = (100.0 * self.copies, self.jitter);
            words.push(format!("{copies:.0} near-copies for 100 training items (jitter {jitter})"));
        }
        if let Some(Rare { words: rare, keep }) = &self.rare {
            let (keep, rare) = (100.0 * keep, rare.join(", "));
            words.push(format!("{keep:.0} % of the training items with {rare}"));
        }
        if self.junk > 0.0 {
            let kind = match &self.junk_kind {
                JunkKind::Permuted => "of one kind".to_owned(),
                JunkKind::Shuffled => "shuffled".to_owned(),
                JunkKind::Diverse => "of many kinds".to_owned(),
                JunkKind::Dataset(path) => format!("from {}", path.display()),
            };
            let junk = 100.0 * self.junk;
            words.push(format!("{junk:.0} % of the first pool cannot be captioned ({kind})"));
        }
        if words.is_empty() { "the dataset as it is".to_owned() } else { words.join("; ") }
    }

    /// Checks all settings.
    pub(crate) fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::setting("world", what));
        if experiment.annotator == Annotator::Human {
            return wrong("it is for simulated annotators: people have a pool of their own".into());
        }
        if experiment.pool == Side::Text {
            return wrong("it is for pools of images, and the pool is of texts".into());
        }
        let World { copies, jitter, junk, .. } = *self;
        if !(0.0..=MOST_COPIES).contains(&copies) {
            return wrong(format!("copies: {copies} is not from 0 to {MOST_COPIES}"));
        }
        if !(jitter.is_finite() && jitter >= 0.0) {
            return wrong(format!("jitter: {jitter} is not 0 or more"));
        }
        if !(0.0..=MOST_JUNK).contains(&junk) {
            return wrong(format!("junk: {junk} is not a share from 0 to {MOST_JUNK}"));
        }
        let Some(Rare { words, keep }) = &self.rare else { return Ok(()) };
        if !(0.0..=1.0).contains(keep) {
            return wrong(format!("rare: keep: {keep} is not a share from 0 to 1"));
        }
        if words.is_empty() {
            return wrong("rare: there is no word".into());
        }
        match words.iter().find(|word| tokenize(word).len() != 1) {
            Some(word) => wrong(format!("rare: {word:?} is not one word")),
            None => Ok(()),
        }
    }

    /// Returns the same world with the absolute path of another dataset.
    pub(crate) fn at_home(mut self) -> Self {
        if let JunkKind::Dataset(path) = &mut self.junk_kind
            && let Ok(whole) = std::path::absolute(&*path)
        {
            *path = whole;
        }
        self
    }
}

#[cfg(test)]
mod tests;
