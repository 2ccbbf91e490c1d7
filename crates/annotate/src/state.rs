//! The state in memory: the sum of all events.
//!
//! Only [`State::apply`] changes it, one event at a time, so that a restart ends in the same state.
//! `acts.rs` decides what people may do; `views.rs` and `overview.rs` compute what they see.

mod acts;
mod flags;
mod guidelines;
mod overview;
mod person;
mod quality;
mod review;
mod round;
#[cfg(test)]
mod tests;
mod views;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use nextpair_data::queue::Task;

pub(crate) use acts::{
    Act, ActResult, DraftChange, Record, Suggestions, Terms, Unanswered, Unreviewed,
};
pub(crate) use flags::{Flag, FlagView};
pub(crate) use guidelines::Guidelines;
pub(crate) use overview::Overview;
pub(crate) use person::{LinkView, MOST_LINKS, Person, SHORTEST_LINK};
pub(crate) use quality::{Alert, Quality, quality};
pub(crate) use review::Review;
pub(crate) use round::{AnswerStatus, GivenAnswer, Round, Slot, is_suggested};
pub(crate) use views::{
    AnswerFilter, AnswerView, CurrentTask, NextView, Outcomes, PersonView, QueueFilter, QueueTask,
    RoundView, TaskState,
};

use crate::event::{Draft, Event, EventKind, GoldTask, LinkId, Millis, PersonId, Seq};
use crate::uploads::UploadedBytes;

/// The act that an idempotency key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyedAct {
    Answer,
    Undo(Seq),
    Revise(Seq),
    Return(Seq),
    Flag,
    Resolve(Seq),
    Accept(Seq),
}

fn meaning(kind: &EventKind) -> Option<KeyedAct> {
    match kind {
        EventKind::Answered { replaces: None, .. } => Some(KeyedAct::Answer),
        EventKind::Answered { replaces: Some(answer), .. } => Some(KeyedAct::Revise(*answer)),
        EventKind::Undone { answer, .. } => Some(KeyedAct::Undo(*answer)),
        EventKind::Returned { answer, .. } => Some(KeyedAct::Return(*answer)),
        EventKind::Accepted { answer, .. } => Some(KeyedAct::Accept(*answer)),
        EventKind::Flagged { .. } => Some(KeyedAct::Flag),
        EventKind::Resolved { flag, .. } => Some(KeyedAct::Resolve(*flag)),
        _ => None,
    }
}

/// The sum of all events so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    /// The number of the last event.
    pub(crate) seq: Seq,
    pub(crate) people: BTreeMap<PersonId, Person>,
    /// The rounds in order; only the last one can be open.
    pub(crate) rounds: Vec<Round>,
    pub(crate) paused: bool,
    pub(crate) price: Option<f64>,
    pub(crate) guidelines: Guidelines,
    /// The share of answers to review.
    pub(crate) review_share: f64,
    /// Acts with a key: the number of their event, and the kind of act.
    keys: HashMap<(PersonId, Arc<str>), (Seq, KeyedAct)>,
    /// Drafts by person and item. They are not part of the history.
    pub(crate) drafts: HashMap<(PersonId, String), Draft>,
    /// Uploaded images by file name, with the person and the number of bytes.
    pub(crate) uploads: HashMap<String, (PersonId, u64)>,
    /// Gold of rounds that an event is about to open.
    coming_gold: HashMap<i64, Vec<GoldTask>>,
    /// Tasks of rounds that an event is about to open.
    pub(crate) coming: HashMap<i64, Vec<Arc<Task>>>,
}

impl State {
    /// Applies an event.
    pub(crate) fn apply(&mut self, event: &Event) {
        self.seq = event.seq;
        if let (Some(by), Some(key), Some(meaning)) = (event.by, &event.key, meaning(&event.kind)) {
            self.keys.entry((by, key.clone())).or_insert((event.seq, meaning));
        }
        let at = event.at;
        match &event.kind {
            EventKind::Invited { person, name, role } => {
                let (id, name) = (*person, name.clone());
                self.people.insert(id, Person::new(id, name, *role, at));
            }
            EventKind::LinkRenewed { person } => self.of_person(*person, |person| {
                person.revoke_all_links();
                person.add_link(at);
            }),
            EventKind::LinkAdded { person } => {
                self.of_person(*person, |person| person.add_link(at))
            }
            EventKind::LinkRevoked { person, link } => {
                self.of_person(*person, |person| person.revoke_link(*link));
            }
            EventKind::SignedOut { person, until } => {
                self.of_person(*person, |person| person.end_session(*until, at));
            }
            EventKind::Removed { person } => self.of_person(*person, |person| {
                person.removed = true;
                person.revoke_all_links();
            }),
            EventKind::Opened { round, fingerprint } => {
                let tasks = self.coming.remove(round).unwrap_or_default();
                let gold = self.coming_gold.remove(round).unwrap_or_default();
                let fingerprint = fingerprint.clone();
                self.rounds.push(Round::new(*round, fingerprint, tasks, gold, event.tick));
            }
            EventKind::Paused => self.paused = true,
            EventKind::Resumed => self.paused = false,
            EventKind::Priced { price } => self.price = *price,
            EventKind::Closed { round } => self.of_round(*round, |round| {
                (round.closed, round.closed_at) = (true, Some(at));
            }),
            EventKind::HandedOver { round } => {
                self.of_round(*round, |round| round.handed_over = true)
            }
            EventKind::Overtaken { round } => self.of_round(*round, |round| {
                (round.closed, round.handed_over, round.overtaken) = (true, true, true);
                round.closed_at = round.closed_at.or(Some(at));
            }),
            EventKind::Uploaded { person, name, bytes } => {
                self.uploads.entry(name.clone()).or_insert((*person, *bytes));
            }
            EventKind::ReviewShare { share } => self.review_share = *share,
            EventKind::Gold { round, tasks } => {
                self.coming_gold.insert(*round, tasks.clone());
            }
            EventKind::Guidelines { text } => self.guidelines.change(event, text),
            EventKind::GuidelinesRead { person, version } => {
                self.of_person(*person, |person| {
                    person.guidelines_read = person.guidelines_read.max(*version);
                });
            }
            EventKind::Leased { .. }
            | EventKind::LetGo { .. }
            | EventKind::Suggested { .. }
            | EventKind::Dismissed { .. }
            | EventKind::Accepted { .. }
            | EventKind::Flagged { .. }
            | EventKind::Resolved { .. }
            | EventKind::Answered { .. }
            | EventKind::Undone { .. }
            | EventKind::Returned { .. } => {
                let looked_at = self.wants_review(event);
                // What waits for review may be of an earlier round.
                let judged = event.kind.judged();
                let of = judged.and_then(|answer| {
                    self.rounds.iter().position(|round| round.answer(answer).is_some())
                });
                let of = of.or_else(|| self.rounds.len().checked_sub(1));
                if let Some(round) = of.map(|at| &mut self.rounds[at]) {
                    round.apply(event, looked_at);
                }
            }
        }
    }

    /// Applies a stored record.
    pub(crate) fn learn(&mut self, record: &Record) {
        for (round, tasks) in &record.tasks {
            self.coming.insert(*round, tasks.clone());
        }
        for event in &record.events {
            self.apply(event);
        }
        for DraftChange { person, item, draft } in &record.drafts {
            let of = (*person, item.clone());
            match draft {
                Some(draft) => drop(self.drafts.insert(of, draft.clone())),
                None => drop(self.drafts.remove(&of)),
            }
        }
    }

    fn of_round(&mut self, number: i64, change: impl FnOnce(&mut Round)) {
        if let Some(round) = self.rounds.iter_mut().find(|round| round.number == number) {
            change(round);
        }
    }

    fn of_person(&mut self, person: PersonId, change: impl FnOnce(&mut Person)) {
        if let Some(person) = self.people.get_mut(&person) {
            change(person);
        }
    }

    /// The last round, open or not.
    pub(crate) fn round(&self) -> Option<&Round> {
        self.rounds.last()
    }

    /// A person who was not removed.
    pub(crate) fn person(&self, id: PersonId) -> Option<&Person> {
        self.people.get(&id).filter(|person| !person.removed)
    }

    /// The person of this name.
    pub(crate) fn named(&self, name: &str) -> Option<&Person> {
        self.people.values().find(|person| person.name == name)
    }

    /// Returns whether this process knows of a link.
    pub(crate) fn has_link(&self, link: LinkId) -> bool {
        self.people.get(&link.person).is_some_and(|person| person.has_link(link.number))
    }

    /// The items that were gold in any round.
    pub(crate) fn used_gold(&self) -> HashSet<String> {
        let slots = self.rounds.iter().flat_map(|round| &round.slots);
        slots.filter(|slot| slot.gold.is_some()).map(|slot| slot.task.id.clone()).collect()
    }

    /// The name of a person, removed or not.
    pub(crate) fn name_of(&self, id: PersonId) -> String {
        self.people.get(&id).map_or_else(|| format!("person {id}"), |person| person.name.clone())
    }

    /// The bytes that this person, and that all people, uploaded.
    pub(crate) fn brought(&self, person: PersonId) -> UploadedBytes {
        let mut brought = UploadedBytes::default();
        for &(by, bytes) in self.uploads.values() {
            brought.by_all += bytes;
            if by == person {
                brought.by_person += bytes;
            }
        }
        brought
    }

    /// The event of an act with this key, if there was one.
    fn known(&self, person: PersonId, key: &str) -> Option<(Seq, KeyedAct)> {
        self.keys.get(&(person, Arc::from(key))).copied()
    }

    /// An answer of any round.
    fn answer(&self, answer: Seq) -> Option<(&Round, &GivenAnswer)> {
        let of = |round| Some((round, Round::answer(round, answer)?));
        self.rounds.iter().rev().find_map(of)
    }

    /// The tick until which a task of the last round is reserved for a person, if it is.
    pub(crate) fn lease_until(&self, person: PersonId, item: &str, now: Millis) -> Option<Millis> {
        let slot = self.round()?.slot(item)?;
        slot.lease_of(person).filter(|lease| lease.is_live(now)).map(|lease| lease.until)
    }
}
