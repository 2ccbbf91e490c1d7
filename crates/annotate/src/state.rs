//! Everything that is known, in memory: what the events add up to.
//!
//! [`State::apply`] is the only thing that changes it, one event at a time, so that a restart ends
//! where the last process was. What somebody may do is decided in `acts.rs`, what somebody gets to
//! see is computed in `views.rs` and `overview.rs`.

mod acts;
mod overview;
mod person;
mod round;
#[cfg(test)]
mod tests;
mod views;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nextpair_data::queue::Task;

pub(crate) use acts::{Act, Done, Record, Terms};
pub(crate) use overview::Overview;
pub(crate) use person::{LinkView, MOST_LINKS, Person, USEFUL};
pub(crate) use round::{Given, Round, Slot, Standing};
pub(crate) use views::{
    AnswerView, InHand, NextView, PersonView, QueueTask, RoundView, TaskState, Which,
};

use crate::event::{Draft, Event, Millis, PersonId, Seq, What};

/// What the key of an act stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Answer,
    Undo(Seq),
    Revise(Seq),
    Return(Seq),
}

fn meaning(what: &What) -> Option<Meaning> {
    match what {
        What::Answered { replaces: None, .. } => Some(Meaning::Answer),
        What::Answered { replaces: Some(answer), .. } => Some(Meaning::Revise(*answer)),
        What::Undone { answer, .. } => Some(Meaning::Undo(*answer)),
        What::Returned { answer, .. } => Some(Meaning::Return(*answer)),
        _ => None,
    }
}

/// What all events so far add up to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    /// The number of the last event.
    pub(crate) seq: Seq,
    pub(crate) people: BTreeMap<PersonId, Person>,
    /// In order; only the last one can be open.
    pub(crate) rounds: Vec<Round>,
    pub(crate) paused: bool,
    pub(crate) price: Option<f64>,
    /// What acts with a key led to: the number of their event, and what they were.
    keys: HashMap<(PersonId, Arc<str>), (Seq, Meaning)>,
    /// Unfinished words. They are not part of the history.
    pub(crate) drafts: HashMap<(PersonId, String), Draft>,
    /// Images that people brought, by the names of their files: who, and how many bytes.
    pub(crate) uploads: HashMap<String, (PersonId, u64)>,
    /// Tasks of rounds that an event is about to open.
    pub(crate) coming: HashMap<i64, Vec<Arc<Task>>>,
}

impl State {
    /// Lets something have happened.
    pub(crate) fn apply(&mut self, event: &Event) {
        self.seq = event.seq;
        if let (Some(by), Some(key), Some(meaning)) = (event.by, &event.key, meaning(&event.what)) {
            self.keys.entry((by, key.clone())).or_insert((event.seq, meaning));
        }
        let at = event.at;
        match &event.what {
            What::Invited { person, name, role } => {
                let (id, name) = (*person, name.clone());
                self.people.insert(id, Person::new(id, name, *role, at));
            }
            What::LinkRenewed { person } => self.of_person(*person, |person| {
                person.revoke_all_links();
                person.add_link(at);
            }),
            What::LinkAdded { person } => self.of_person(*person, |person| person.add_link(at)),
            What::LinkRevoked { person, link } => {
                self.of_person(*person, |person| person.revoke_link(*link));
            }
            What::SignedOut { person, until } => {
                self.of_person(*person, |person| person.end_session(*until, at));
            }
            What::Removed { person } => self.of_person(*person, |person| {
                person.removed = true;
                person.revoke_all_links();
            }),
            What::Opened { round, fingerprint } => {
                let tasks = self.coming.remove(round).unwrap_or_default();
                self.rounds.push(Round::new(*round, fingerprint.clone(), tasks, event.tick));
            }
            What::Paused => self.paused = true,
            What::Resumed => self.paused = false,
            What::Priced { price } => self.price = *price,
            What::Closed { round } => self.of_round(*round, |round| round.closed = true),
            What::HandedOver { round } => self.of_round(*round, |round| round.handed_over = true),
            What::Overtaken { round } => self.of_round(*round, |round| {
                (round.closed, round.handed_over, round.overtaken) = (true, true, true);
            }),
            What::Uploaded { person, name, bytes } => {
                self.uploads.entry(name.clone()).or_insert((*person, *bytes));
            }
            What::Leased { .. }
            | What::LetGo { .. }
            | What::Answered { .. }
            | What::Undone { .. }
            | What::Returned { .. } => {
                if let Some(round) = self.rounds.last_mut() {
                    round.apply(event);
                }
            }
        }
    }

    /// Learns what was stored.
    pub(crate) fn learn(&mut self, record: &Record) {
        for (round, tasks) in &record.tasks {
            self.coming.insert(*round, tasks.clone());
        }
        for event in &record.events {
            self.apply(event);
        }
        for (person, item, draft) in &record.drafts {
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

    /// Somebody who may still do something.
    pub(crate) fn person(&self, id: PersonId) -> Option<&Person> {
        self.people.get(&id).filter(|person| !person.removed)
    }

    /// Somebody of this name.
    pub(crate) fn named(&self, name: &str) -> Option<&Person> {
        self.people.values().find(|person| person.name == name)
    }

    /// Whether a link of somebody was ever made, as far as is known here.
    pub(crate) fn has_link(&self, person: PersonId, link: u32) -> bool {
        self.people.get(&person).is_some_and(|person| person.has_link(link))
    }

    /// What somebody is called, whether or not they are still there.
    pub(crate) fn name_of(&self, id: PersonId) -> String {
        self.people.get(&id).map_or_else(|| format!("person {id}"), |person| person.name.clone())
    }

    /// The bytes of the images that somebody brought, or everybody.
    pub(crate) fn brought_by(&self, person: Option<PersonId>) -> u64 {
        let uploads = self.uploads.values().filter(|(by, _)| person.is_none_or(|who| who == *by));
        uploads.map(|(_, bytes)| bytes).sum()
    }

    /// What an act of this key led to, if there was one.
    fn known(&self, person: PersonId, key: &str) -> Option<(Seq, Meaning)> {
        self.keys.get(&(person, Arc::from(key))).copied()
    }

    /// An answer of any round.
    fn answer(&self, answer: Seq) -> Option<(&Round, &Given)> {
        let of = |round| Some((round, Round::answer(round, answer)?));
        self.rounds.iter().rev().find_map(of)
    }

    /// The tick until which a task of the last round is kept for somebody, if it is.
    pub(crate) fn lease_until(&self, person: PersonId, item: &str, now: Millis) -> Option<Millis> {
        let slot = self.round()?.slot(item)?;
        slot.lease_of(person).filter(|lease| lease.is_live(now)).map(|lease| lease.until)
    }
}
