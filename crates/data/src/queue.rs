//! Picks, which are annotation tasks, and the answers to them.
//!
//! A pick is a [`Task`], whoever picked it. [`PicksFormat`] writes picks as JSON lines, CSV or
//! Parquet, and [`PicksFile`] reads them. A queue is written as JSON lines ([`write()`]), as a sheet
//! for a spreadsheet ([`write_csv`]) or as tasks for Label Studio ([`write_label_studio`]).
//! [`read_answers`] reads answers, an append-only [`AnswerLog`] keeps them, and [`export()`] writes
//! them for other programs.

mod answer_log;
mod answers;
mod export;
mod label_studio;
mod picked;
mod picks;
mod sheet;
mod shown;
mod suggestions;
mod tasks;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use answer_log::act;
pub use answer_log::{AnswerLog, AppendCounts};
pub(crate) use answers::read_lines;
pub use answers::{
    FilePosition, read_answers, read_placed_answers, read_refused, refused, standing,
};
pub use export::{Answered, ExportFormat, export};
pub use label_studio::{label_studio_config, write_label_studio};
pub use picked::{Anchor, tasks};
pub use picks::{PicksFile, PicksFormat};
pub use sheet::{guarded, write_csv};
pub use suggestions::{Suggestions, read_suggestions};
pub use tasks::{read, same_picks, write};

use crate::dataset::{check_caption, check_name};

/// Longest reason for a skip in bytes; anything longer is damage.
const LONGEST_REASON: usize = 1 << 16;

/// A picked pool item, to be annotated: a line of picks or of a queue. What people write may lack all but
/// rank, id and score.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Rank from 1, most wanted first.
    pub rank: usize,
    /// The place of the item in the pool that it was picked from, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// The id of the item; its place in the pool if the items have no ids.
    pub id: String,
    /// The score that determined the rank.
    pub score: f64,
    /// The number of paired texts (or images) that the item would be confused with, for strategies
    /// that compute it.
    #[serde(default)]
    pub hits: Option<u32>,
    /// The strongest of these.
    #[serde(default)]
    pub why: Vec<Why>,
    /// More numbers about the pick, for strategies that have any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, f64>,
    /// Items near the pick, for strategies that look for them: the paired item most like it, then the pool items that
    /// learn most from its pair.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub near: Vec<Near>,
}

/// An item near a pick.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Near {
    /// The paired item most like the pick.
    Paired {
        /// The number of a pair that it is in, from 0.
        pair: u32,
        /// The name of the pair, as in [`Why`].
        pair_id: String,
        /// The item that has the pair's image, if the pair is one of a dataset.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The caption of the pair, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        caption: Option<String>,
        /// The cosine of the two.
        cosine: f64,
    },
    /// A pool item that learns from the pick's pair.
    Pool {
        /// Its place in the pool, from 0.
        index: u32,
        /// Its id; its place if the items have no ids.
        id: String,
        /// The share of its uncertainty that the pair takes away.
        share: f64,
    },
}

impl Near {
    /// The number that says how near it is.
    fn value(&self) -> f64 {
        match *self {
            Near::Paired { cosine: value, .. } | Near::Pool { share: value, .. } => value,
        }
    }
}

/// Tasks to annotate together.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Number of the round, from 1.
    pub round: usize,
    /// The tasks, most wanted first.
    pub tasks: Vec<Task>,
}

/// A pair that an item would be confused with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Why {
    /// The number of the pair in the selection, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<u32>,
    /// The name of the pair: an item, or `item#n` for its caption `n`, from 0; the number of the pair
    /// if pairs have no names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor_id: Option<String>,
    /// The item that has the pair's image, if the pair is one of a dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The caption of the pair, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
    /// Similarity of the pool item to the pair's other half.
    pub similarity: f64,
    /// Similarity of the hardest rival so far.
    pub threshold: f64,
    /// Similarity minus threshold.
    pub surplus: f64,
    /// Similarity of the pair's own halves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<f64>,
}

impl Why {
    /// The item and the caption of the pair, if both are known.
    pub fn pair(&self) -> Option<(&str, &str)> {
        Some((self.id.as_deref()?, self.caption.as_deref()?))
    }
}

/// An answer to a task: a line of the answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The item of the task.
    pub id: String,
    /// A caption, an image, or a skip.
    #[serde(flatten)]
    pub said: AnswerContent,
    /// The annotator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotator: Option<String>,
    /// What the annotator did with a caption that a program had suggested, if it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

/// What an annotator made of a suggestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provenance {
    /// The annotator accepted the suggestion as it was.
    Accepted,
    /// The annotator saw a suggestion and wrote something else.
    Edited,
}

impl Provenance {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Provenance::Accepted => "accepted",
            Provenance::Edited => "edited",
        }
    }

    /// The provenance of this name; none if the name is empty.
    fn of_name(name: &str) -> Result<Option<Self>, String> {
        match name {
            "" => Ok(None),
            "accepted" => Ok(Some(Provenance::Accepted)),
            "edited" => Ok(Some(Provenance::Edited)),
            other => Err(format!("the provenance is {other:?}, not accepted or edited")),
        }
    }
}

/// The content of an answer: the other half of a task, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnswerContent {
    /// A caption for an image.
    Caption(String),
    /// For a text: the item whose image it describes.
    Image(String),
    /// The item cannot be paired, for this reason. It leaves the pool.
    Skip(String),
}

/// What became of a task, the most finished first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// A person gave the other half.
    Answered,
    /// A person skipped it with a reason, and there is no other half.
    Refused,
    /// Its answers wait for review: they are kept, and may be finished later.
    Unreviewed,
    /// Nobody answered: the item stays in the pool.
    Unanswered,
}

impl Outcome {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::Refused => "refused",
            Outcome::Unreviewed => "unreviewed",
            Outcome::Unanswered => "unanswered",
        }
    }

    /// Whether the task has no finished answer.
    pub fn is_open(self) -> bool {
        matches!(self, Outcome::Unreviewed | Outcome::Unanswered)
    }
}

impl Answer {
    /// The reason of a refusal: a skip with a reason.
    pub fn refusal(&self) -> Option<&str> {
        match &self.said {
            AnswerContent::Skip(reason) => Some(reason.trim()).filter(|reason| !reason.is_empty()),
            _ => None,
        }
    }

    /// Returns an error if no annotator could give this answer.
    pub(crate) fn check(&self) -> Result<(), String> {
        check_name("id", &self.id)?;
        if let Some(annotator) = &self.annotator {
            check_name("annotator", annotator)?;
        }
        match &self.said {
            AnswerContent::Caption(caption) => check_caption(caption),
            AnswerContent::Image(image) => check_name("image", image),
            AnswerContent::Skip(reason) if reason.len() > LONGEST_REASON => {
                Err(format!("the reason has {} bytes, more than {LONGEST_REASON}", reason.len()))
            }
            AnswerContent::Skip(_) => Ok(()),
        }
    }
}
