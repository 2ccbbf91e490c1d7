//! Flags: what annotators ask the lead about items.

use serde::Serialize;

use super::round::{Lease, lease};
use super::views::PersonView;
use super::{Round, State};
use crate::event::{Event, Millis, PersonId, Seq};

/// A question about an item.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Flag {
    pub(crate) slot: usize,
    pub(crate) person: PersonId,
    pub(crate) note: String,
    at: Millis,
    pub(crate) resolved: Option<Resolution>,
}

/// What a lead said to it; empty if nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Resolution {
    by: Option<PersonId>,
    at: Millis,
    note: String,
}

/// A flag as the lead sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct FlagView {
    flag: Seq,
    round: i64,
    pub(crate) item: String,
    note: String,
    person: PersonView,
    at: Millis,
    /// Whether the person has answered the item nevertheless.
    answered: bool,
    resolved: Option<ResolutionView>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct ResolutionView {
    by: Option<String>,
    at: Millis,
    note: String,
}

impl Round {
    /// The task waits for the lead, and is not handed out.
    pub(super) fn raise_flag(&mut self, event: &Event, at: usize, person: PersonId, note: &str) {
        let note = note.to_owned();
        let flag = Flag { slot: at, person, note, at: event.at, resolved: None };
        self.flags.insert(event.seq, flag);
        self.slots[at].flagged += 1;
        self.let_go(at, person);
        self.changed = event.tick;
    }

    pub(super) fn resolve_flag(&mut self, event: &Event, flag: Seq, note: &str, until: Millis) {
        let Some(flag) = self.flags.get_mut(&flag).filter(|flag| flag.resolved.is_none()) else {
            return;
        };
        flag.resolved = Some(Resolution { by: event.by, at: event.at, note: note.to_owned() });
        let (at, person) = (flag.slot, flag.person);
        self.slots[at].flagged -= 1;
        if until > event.at {
            let lease = lease(event, person, until);
            self.lease(at, Lease { returned: true, ..lease });
        }
        self.changed = event.tick;
    }

    /// The number of flags that wait for the lead.
    pub(crate) fn open_flags(&self) -> usize {
        self.flags.values().filter(|flag| flag.resolved.is_none()).count()
    }

    /// What the lead said to the last flag of a person about a task.
    pub(super) fn reply_to(&self, at: usize, person: PersonId) -> Option<String> {
        let own = |flag: &&Flag| flag.slot == at && flag.person == person;
        let reply = &self.flags.values().rfind(own)?.resolved.as_ref()?.note;
        (!reply.is_empty()).then(|| reply.clone())
    }
}

impl State {
    /// Flags of the last round, those that wait first, then the newest first.
    pub(crate) fn flags(&self, limit: usize) -> Vec<FlagView> {
        let rounds = self.round().into_iter();
        let all = rounds.flat_map(|round| round.flags.iter().rev().map(move |flag| (round, flag)));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(_, (_, flag))| flag.resolved.is_some());
        let view = |(round, (&seq, flag)): (&Round, (&Seq, &Flag))| FlagView {
            flag: seq,
            round: round.number,
            item: round.slots[flag.slot].task.id.clone(),
            note: flag.note.clone(),
            person: self.view_of(flag.person),
            at: flag.at,
            answered: round.has_answered(&round.slots[flag.slot], flag.person),
            resolved: flag.resolved.as_ref().map(|resolution| ResolutionView {
                by: resolution.by.map(|by| self.name_of(by)),
                at: resolution.at,
                note: resolution.note.clone(),
            }),
        };
        all.into_iter().take(limit).map(view).collect()
    }
}
