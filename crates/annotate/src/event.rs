//! The history that everything else follows from. Events are appended, never changed.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Numbers people, from 1.
pub(crate) type PersonId = i64;
/// Numbers events, from 1. An answer is known by the number of the event that gave it.
pub(crate) type Seq = i64;
/// Milliseconds: since 1970, of a clock of this process, or of a duration.
pub(crate) type Millis = i64;

/// A link that signs somebody in: whose it is, and which of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkId {
    pub(crate) person: PersonId,
    pub(crate) number: u32,
}

/// Now, by two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Since 1970, as this machine believes. People set it, and it jumps.
    pub(crate) wall: Millis,
    /// By a clock that nobody sets: durations are measured with it.
    pub(crate) tick: Millis,
}

impl Moment {
    /// When that tick is or was, since 1970.
    pub(crate) fn wall_of(self, tick: Millis) -> Millis {
        self.wall + (tick - self.tick)
    }

    /// The tick at which something happened that another process wrote down with this time, after
    /// this tick: clocks of two machines may differ.
    pub(crate) fn tick_since(self, wall: Millis, tick: Millis) -> Millis {
        self.tick_of(wall).clamp(tick.min(self.tick), self.tick)
    }

    /// The tick at which something happened that was written down with this time. A time ahead was
    /// written while the clock was wrong, and counts from now.
    pub(crate) fn tick_of(self, wall: Millis) -> Millis {
        self.tick - (self.wall - wall).max(0)
    }
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) seq: Seq,
    /// When, since 1970.
    pub(crate) at: Millis,
    /// When, by the clock of this process; not stored.
    pub(crate) tick: Millis,
    /// The round that was the last one then; 0 before the first.
    pub(crate) round: i64,
    /// Who did it; nobody for what the app does by itself.
    pub(crate) by: Option<PersonId>,
    /// The name that its author gave it, which tells a repetition from a second act.
    pub(crate) key: Option<Arc<str>>,
    pub(crate) kind: EventKind,
}

/// The kinds of events, with their contents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum EventKind {
    /// Somebody may sign in from now on.
    Invited { person: PersonId, name: String, role: Role },
    /// The links and sessions of somebody end; a new link counts.
    LinkRenewed { person: PersonId },
    /// Somebody gets one more link.
    LinkAdded { person: PersonId },
    /// One link of somebody ends, and every session that it began.
    LinkRevoked { person: PersonId, link: u32 },
    /// Somebody signed out of the session that would have lasted until then.
    SignedOut { person: PersonId, until: Millis },
    /// Somebody may not sign in any more.
    Removed { person: PersonId },
    /// A round begins. Its tasks are stored beside the events.
    Opened { round: i64, fingerprint: String },
    /// A task is kept for somebody.
    Leased { item: String, person: PersonId, until: Millis },
    /// A task is not kept any more.
    LetGo { item: String, person: PersonId },
    /// Somebody said something about an item, in the place of an earlier answer if it replaces one.
    Answered {
        item: String,
        person: PersonId,
        #[serde(with = "shared")]
        said: Arc<Said>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seconds: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<Seq>,
    },
    /// Its author took an answer back.
    Undone { item: String, answer: Seq },
    /// A lead gave an answer back to its author, for whom the task is kept until then.
    Returned { item: String, answer: Seq, note: String, until: Millis },
    /// No tasks are handed out.
    Paused,
    /// Tasks are handed out again.
    Resumed,
    /// A caption costs this, also those before; nothing if that is not known.
    Priced { price: Option<f64> },
    /// Nothing is answered any more in this round.
    Closed { round: i64 },
    /// The answers of a closed round are where they belong.
    HandedOver { round: i64 },
    /// A run went on without the answers of this round: it had got them from elsewhere.
    Overtaken { round: i64 },
    /// Somebody brought an image, which is kept as a file of this name.
    Uploaded { person: PersonId, name: String, bytes: u64 },
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
        }
    }

    /// The item that it is about, if it is about one.
    pub(crate) fn item(&self) -> Option<&str> {
        match self {
            EventKind::Leased { item, .. }
            | EventKind::LetGo { item, .. }
            | EventKind::Answered { item, .. }
            | EventKind::Undone { item, .. }
            | EventKind::Returned { item, .. } => Some(item),
            _ => None,
        }
    }
}

/// The rights of somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Answers.
    Annotator,
    /// Answers, watches and decides.
    Lead,
}

/// An answer to a task: captions, an image, or a skip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Said {
    /// Captions of the image.
    Captions(Vec<String>),
    /// The item whose image fits the text.
    Image(String),
    /// Why the item cannot be paired.
    Skip(String),
}

impl Said {
    /// The captions that are paid for. An image for a text counts as one.
    pub(crate) fn captions(&self) -> usize {
        match self {
            Said::Captions(captions) => captions.len(),
            Said::Image(_) => 1,
            Said::Skip(_) => 0,
        }
    }
}

/// Typed and not yet submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Draft {
    pub(crate) captions: Vec<String>,
    pub(crate) image: Option<String>,
}

/// Words that events and states share are written like any others.
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
