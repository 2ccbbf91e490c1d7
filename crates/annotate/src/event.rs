//! The event history, which determines everything else. Events are appended, never changed.

use std::sync::Arc;

use nextpair_data::queue::Task;
use serde::{Deserialize, Serialize};

/// Number of a person, from 1.
pub(crate) type PersonId = i64;
/// Number of an event, from 1. An answer is identified by the event that gave it.
pub(crate) type Seq = i64;
/// Milliseconds: since 1970, of a clock of this process, or of a duration.
pub(crate) type Millis = i64;

/// A link that signs a person in: whose it is, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkId {
    pub(crate) person: PersonId,
    pub(crate) number: u32,
}

/// The current time by two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Wall time since 1970. People set this clock, and it jumps.
    pub(crate) wall: Millis,
    /// Time of a monotonic clock, for measuring durations.
    pub(crate) tick: Millis,
}

impl Moment {
    /// The wall time of a tick.
    pub(crate) fn wall_of(self, tick: Millis) -> Millis {
        self.wall + (tick - self.tick)
    }

    /// The tick of an event that another process stored with this wall time, after `tick`. The
    /// result is clamped, because the clocks of two machines may differ.
    pub(crate) fn tick_since(self, wall: Millis, tick: Millis) -> Millis {
        self.tick_of(wall).clamp(tick.min(self.tick), self.tick)
    }

    /// The tick of an event that was stored with this wall time. A time in the future was stored
    /// while the clock was wrong, and counts as now.
    pub(crate) fn tick_of(self, wall: Millis) -> Millis {
        self.tick - (self.wall - wall).max(0)
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) seq: Seq,
    /// Wall time since 1970.
    pub(crate) at: Millis,
    /// Time by the clock of this process; not stored.
    pub(crate) tick: Millis,
    /// The last round at that time; 0 before the first.
    pub(crate) round: i64,
    /// The person who acted; `None` for acts of the app itself.
    pub(crate) by: Option<PersonId>,
    /// The idempotency key that its author chose: it tells a retry from a second act.
    pub(crate) key: Option<Arc<str>>,
    pub(crate) kind: EventKind,
}

/// The kinds of events, with their contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum EventKind {
    /// A person may sign in from now on.
    Invited { person: PersonId, name: String, role: Role },
    /// All links and sessions of a person end; a new link is valid.
    LinkRenewed { person: PersonId },
    /// A person gets another link.
    LinkAdded { person: PersonId },
    /// One link of a person ends, and every session that it began.
    LinkRevoked { person: PersonId, link: u32 },
    /// A person signed out of the session that would have lasted until then.
    SignedOut { person: PersonId, until: Millis },
    /// A person may not sign in any more.
    Removed { person: PersonId },
    /// A round begins. Its tasks are stored beside the events.
    Opened { round: i64, fingerprint: String },
    /// A task is reserved for a person.
    Leased { item: String, person: PersonId, until: Millis },
    /// A task is not reserved any more.
    LetGo { item: String, person: PersonId },
    /// A person answered a task. `replaces` is the earlier answer that this one replaces, if any.
    Answered {
        item: String,
        person: PersonId,
        #[serde(with = "shared")]
        said: Arc<Submission>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<Seq>,
    },
    /// The author withdrew an answer.
    Undone { item: String, answer: Seq },
    /// A lead returned an answer to its author, for whom the task is reserved until then.
    Returned { item: String, answer: Seq, note: String, until: Millis },
    /// No tasks are handed out.
    Paused,
    /// Tasks are handed out again.
    Resumed,
    /// The price of a caption, which applies to earlier ones as well; `None` if it is unknown.
    Priced { price: Option<f64> },
    /// The round takes no more answers. Those that wait for review may still be judged.
    Closed { round: i64 },
    /// The source has the finished answers of a closed round. There may be more later.
    HandedOver { round: i64 },
    /// The run continued without the answers of this round, having got others elsewhere.
    Overtaken { round: i64 },
    /// A person uploaded an image, which is stored in a file of this name.
    Uploaded { person: PersonId, name: String, bytes: u64 },
    /// Captions that a program wrote for an item. They are not answers.
    Suggested { item: String, captions: Vec<String> },
    /// A person asks the lead about an item, which is put aside until the flag is resolved.
    Flagged { item: String, person: PersonId, note: String },
    /// A lead resolved a flag. The task is reserved until then for the annotator who flagged it.
    Resolved { item: String, flag: Seq, note: String, until: Millis },
    /// The share of the answers from now on that are reviewed.
    ReviewShare { share: f64 },
    /// A reviewer accepted an answer.
    Accepted { item: String, answer: Seq },
    /// Tasks with known answers, to be mixed into a round that is about to open.
    Gold { round: i64, tasks: Vec<GoldTask> },
    /// A lead found nothing wrong with an answer that looked odd.
    Dismissed { item: String, answer: Seq },
    /// The guidelines from now on, in Markdown; empty if there are none.
    Guidelines { text: String },
    /// A person has read this version of the guidelines.
    GuidelinesRead { person: PersonId, version: u32 },
}

impl EventKind {
    /// Its name in the database.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            EventKind::Invited { .. } => "invited",
            EventKind::LinkRenewed { .. } => "link_renewed",
            EventKind::LinkAdded { .. } => "link_added",
            EventKind::LinkRevoked { .. } => "link_revoked",
            EventKind::SignedOut { .. } => "signed_out",
            EventKind::Removed { .. } => "removed",
            EventKind::Opened { .. } => "opened",
            EventKind::Leased { .. } => "leased",
            EventKind::LetGo { .. } => "let_go",
            EventKind::Answered { .. } => "answered",
            EventKind::Undone { .. } => "undone",
            EventKind::Returned { .. } => "returned",
            EventKind::Paused => "paused",
            EventKind::Resumed => "resumed",
            EventKind::Priced { .. } => "priced",
            EventKind::Closed { .. } => "closed",
            EventKind::HandedOver { .. } => "handed_over",
            EventKind::Overtaken { .. } => "overtaken",
            EventKind::Uploaded { .. } => "uploaded",
            EventKind::Suggested { .. } => "suggested",
            EventKind::Flagged { .. } => "flagged",
            EventKind::Resolved { .. } => "resolved",
            EventKind::ReviewShare { .. } => "review_share",
            EventKind::Accepted { .. } => "accepted",
            EventKind::Gold { .. } => "gold",
            EventKind::Dismissed { .. } => "dismissed",
            EventKind::Guidelines { .. } => "guidelines",
            EventKind::GuidelinesRead { .. } => "guidelines_read",
        }
    }

    /// The earlier answer that the event is about, if it is.
    pub(crate) fn judged(&self) -> Option<Seq> {
        match self {
            EventKind::Answered { replaces, .. } => *replaces,
            EventKind::Accepted { answer, .. }
            | EventKind::Dismissed { answer, .. }
            | EventKind::Undone { answer, .. }
            | EventKind::Returned { answer, .. } => Some(*answer),
            _ => None,
        }
    }

    /// The item of the event, if it has one.
    pub(crate) fn item(&self) -> Option<&str> {
        match self {
            EventKind::Leased { item, .. }
            | EventKind::LetGo { item, .. }
            | EventKind::Suggested { item, .. }
            | EventKind::Accepted { item, .. }
            | EventKind::Flagged { item, .. }
            | EventKind::Dismissed { item, .. }
            | EventKind::Resolved { item, .. }
            | EventKind::Answered { item, .. }
            | EventKind::Undone { item, .. }
            | EventKind::Returned { item, .. } => Some(item),
            _ => None,
        }
    }
}

/// A task whose answer is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GoldTask {
    /// Its place in the queue, from 0.
    pub(crate) at: usize,
    pub(crate) task: Task,
    /// Good captions, or, for a text, the images that fit.
    pub(crate) known: Vec<String>,
}

/// The rights of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// May answer.
    Annotator,
    /// May answer, and review the answers of others.
    Reviewer,
    /// May answer, watch and decide.
    Lead,
}

/// An answer to a task: captions, an image, or a skip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Submission {
    /// Captions of the image.
    Captions(Vec<String>),
    /// The item whose image fits the text.
    Image(String),
    /// The reason why the item cannot be paired.
    Skip(String),
}

impl Submission {
    /// The number of captions that are paid for. An image for a text counts as one.
    pub(crate) fn captions(&self) -> usize {
        match self {
            Submission::Captions(captions) => captions.len(),
            Submission::Image(_) => 1,
            Submission::Skip(_) => 0,
        }
    }
}

/// Text typed and not yet submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Draft {
    pub(crate) captions: Vec<String>,
    pub(crate) image: Option<String>,
}

/// Serialises an `Arc` like its contents.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        value: &Arc<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        T::serialize(value, serializer)
    }

    pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<T>, D::Error> {
        T::deserialize(deserializer).map(Arc::new)
    }
}
