//! Acts: what people may do, and the events that follow.
//!
//! [`State::perform`] checks an act against the whole state and records events, which change the
//! state at once. The caller stores the events and only then acknowledges the act. A refused act
//! records nothing.

mod flags;
mod guidelines;
mod people;
mod review;
mod tasks;

use std::collections::BTreeMap;
use std::sync::Arc;

use nextpair_data::queue::Task;
use serde::Deserialize;

use super::views::NextView;
use super::{Round, State};
use crate::error::Refusal;
use crate::event::{
    Draft, Event, EventKind, GoldTask, Millis, Moment, PersonId, Role, Seq, Submission,
};

/// The answers wanted for every item, and the time to give one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Captions wanted per annotator.
    pub(crate) captions: usize,
    /// Annotators wanted per item.
    pub(crate) annotators: usize,
    /// How long a task is reserved for an inactive person.
    pub(crate) lease: Millis,
}

/// The fate of unanswered tasks when a lead closes a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unanswered {
    /// The round stays open.
    #[default]
    Refuse,
    /// They go back to the pool.
    Release,
}

/// The fate of answers that wait for review when a lead closes a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unreviewed {
    /// The round stays open.
    #[default]
    Refuse,
    /// The lead accepts them.
    Accept,
    /// They keep waiting, and are handed over once they are reviewed.
    Keep,
}

/// Captions that a program wrote, by item.
pub(crate) type Suggestions = Arc<BTreeMap<String, Vec<String>>>;

/// An act that a person requests.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Next,
    Renew {
        item: String,
    },
    Keep {
        item: String,
        draft: Draft,
    },
    Submit {
        key: String,
        item: String,
        said: Submission,
        /// Whether captions that were suggested are accepted as they are.
        accept: bool,
    },
    Undo {
        key: String,
        answer: Seq,
    },
    Revise {
        key: String,
        answer: Seq,
        said: Submission,
    },
    Return {
        key: String,
        answer: Seq,
        note: String,
    },
    LetGo,
    Pause {
        paused: bool,
    },
    Price {
        price: Option<f64>,
    },
    Close {
        round: i64,
        unanswered: Unanswered,
        unreviewed: Unreviewed,
    },
    Invite {
        name: String,
        role: Role,
    },
    RenewLink {
        person: PersonId,
    },
    AddLink {
        person: PersonId,
    },
    RevokeLink {
        person: PersonId,
        link: u32,
    },
    /// Releases all tasks, and ends the session that would last until then.
    SignOut {
        until: Millis,
    },
    Remove {
        person: PersonId,
    },
    /// Records an uploaded image.
    Upload {
        name: String,
        bytes: u64,
    },
    /// Asks the lead about an item.
    Flag {
        key: String,
        item: String,
        note: String,
    },
    Resolve {
        key: String,
        flag: Seq,
        note: String,
    },
    /// Accepts an answer.
    Accept {
        key: String,
        answer: Seq,
    },
    /// Finds nothing wrong with an answer that looks odd.
    Dismiss {
        answer: Seq,
    },
    ReviewShare {
        share: f64,
    },
    /// Changes the guidelines. A lead names the version that they changed.
    SetGuidelines {
        text: String,
        after: Option<u32>,
    },
    ReadGuidelines {
        version: u32,
    },
    /// Acts of the app itself.
    Open {
        round: i64,
        fingerprint: String,
        tasks: Vec<Arc<Task>>,
        gold: Vec<GoldTask>,
        suggestions: Suggestions,
    },
    /// Suggests captions for the tasks of the open round that have no answer.
    Suggest {
        suggestions: Suggestions,
    },
    CloseIfComplete {
        grace: Millis,
    },
    HandedOver {
        round: i64,
    },
    Overtaken {
        round: i64,
    },
    /// Checks whether the database can be written to, or takes an event.
    Probe {
        event: bool,
    },
    /// Loads the acts of other processes.
    Look,
}

/// The outcome of an act for its caller.
#[derive(Clone, Debug)]
pub(crate) enum ActResult {
    /// The current task of the person.
    Next(Box<NextView>),
    /// An answer, and the current task of the person.
    Answered(Seq, Box<NextView>),
    /// The number of an answer or a person, or a time.
    Number(i64),
    /// Nothing to return.
    Nothing,
}

/// The part of the outcome that is stored: of our own acts, or of other processes'.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) events: Vec<Event>,
    pub(crate) drafts: Vec<DraftChange>,
    /// Tasks by the number of the round that they open.
    pub(crate) tasks: Vec<(i64, Vec<Arc<Task>>)>,
    /// Whether to write even if nothing happened.
    pub(crate) probe: bool,
}

/// The new draft of a person for an item; `None` removes it.
#[derive(Clone, Debug)]
pub(crate) struct DraftChange {
    pub(crate) person: PersonId,
    pub(crate) item: String,
    pub(crate) draft: Option<Draft>,
}

impl Record {
    pub(crate) fn is_empty(&self) -> bool {
        !self.probe && self.events.is_empty() && self.drafts.is_empty() && self.tasks.is_empty()
    }

    /// Appends a later record.
    pub(crate) fn add(&mut self, mut later: Record) {
        self.events.append(&mut later.events);
        self.drafts.append(&mut later.drafts);
        self.tasks.append(&mut later.tasks);
    }
}

/// An act in progress.
struct ActContext<'a> {
    state: &'a mut State,
    record: &'a mut Record,
    terms: Terms,
    by: Option<PersonId>,
    now: Moment,
}

impl State {
    /// Performs an act, or refuses it.
    pub(crate) fn perform(
        &mut self,
        by: Option<PersonId>,
        act: Act,
        terms: Terms,
        now: Moment,
        record: &mut Record,
    ) -> Result<ActResult, Refusal> {
        ActContext { state: self, record, terms, by, now }.perform(act)
    }
}

impl ActContext<'_> {
    fn perform(&mut self, act: Act) -> Result<ActResult, Refusal> {
        match act {
            Act::Next => Ok(ActResult::Next(self.next()?.into())),
            Act::Renew { item } => self.renew(item),
            Act::Keep { item, draft } => self.keep(item, draft),
            Act::Submit { key, item, said, accept } => self.submit(key, item, said, accept),
            Act::Undo { key, answer } => self.undo(key, answer),
            Act::Revise { key, answer, said } => self.revise(key, answer, said),
            Act::Return { key, answer, note } => self.give_back(key, answer, note),
            Act::LetGo => self.let_go(self.person()?),
            Act::Pause { paused } => {
                if paused != self.state.paused {
                    self.emit(if paused { EventKind::Paused } else { EventKind::Resumed });
                }
                Ok(ActResult::Nothing)
            }
            Act::Price { price } => {
                if price != self.state.price {
                    self.emit(EventKind::Priced { price });
                }
                Ok(ActResult::Nothing)
            }
            Act::Close { round, unanswered, unreviewed } => {
                self.close(round, unanswered, unreviewed)
            }
            Act::Invite { name, role } => self.invite(name, role),
            Act::RenewLink { person } => self.renew_link(person),
            Act::AddLink { person } => self.add_link(person),
            Act::RevokeLink { person, link } => self.revoke_link(person, link),
            Act::SignOut { until } => self.sign_out(until),
            Act::Remove { person } => self.remove(person),
            Act::Upload { name, bytes } => {
                let person = self.person()?;
                if !self.state.uploads.contains_key(&name) {
                    self.emit(EventKind::Uploaded { person, name, bytes });
                }
                Ok(ActResult::Nothing)
            }
            Act::Flag { key, item, note } => self.flag(key, item, note),
            Act::Resolve { key, flag, note } => self.resolve(key, flag, note),
            Act::Accept { key, answer } => self.accept(key, answer),
            Act::Dismiss { answer } => self.dismiss(answer),
            Act::ReviewShare { share } => {
                if share != self.state.review_share {
                    self.emit(EventKind::ReviewShare { share });
                }
                Ok(ActResult::Nothing)
            }
            Act::SetGuidelines { text, after } => self.set_guidelines(text, after),
            Act::ReadGuidelines { version } => self.read_guidelines(version),
            Act::Suggest { suggestions } => {
                self.suggest(&suggestions);
                Ok(ActResult::Nothing)
            }
            Act::Open { round, fingerprint, tasks, gold, suggestions } => {
                if self.state.round().is_none_or(|last| last.number < round && !last.is_open()) {
                    self.record.tasks.push((round, tasks.clone()));
                    self.state.coming.insert(round, tasks);
                    if !gold.is_empty() {
                        self.emit(EventKind::Gold { round, tasks: gold });
                    }
                    self.emit(EventKind::Opened { round, fingerprint });
                    self.suggest(&suggestions);
                }
                Ok(ActResult::Nothing)
            }
            Act::CloseIfComplete { grace } => {
                let due =
                    self.state.closes_at(self.terms, grace).is_some_and(|at| at <= self.now.tick);
                if due && let Some(round) = self.state.round() {
                    let round = round.number;
                    self.emit(EventKind::Closed { round });
                }
                Ok(ActResult::Nothing)
            }
            Act::HandedOver { round } => {
                let waits = |other: &Round| other.number == round && other.waits_for_hand_over();
                if self.state.rounds.iter().any(waits) {
                    self.emit(EventKind::HandedOver { round });
                }
                Ok(ActResult::Nothing)
            }
            Act::Overtaken { round } => {
                let open = |other: &Round| other.number == round && !other.handed_over;
                if self.state.rounds.iter().any(open) {
                    self.emit(EventKind::Overtaken { round });
                }
                Ok(ActResult::Nothing)
            }
            Act::Look => Ok(ActResult::Nothing),
            Act::Probe { event } => {
                self.record.probe = true;
                if event {
                    // It changes nothing.
                    self.emit(EventKind::Priced { price: self.state.price });
                }
                Ok(ActResult::Nothing)
            }
        }
    }

    fn emit(&mut self, kind: EventKind) -> Seq {
        self.emit_keyed(kind, None)
    }

    fn emit_keyed(&mut self, kind: EventKind, key: Option<Arc<str>>) -> Seq {
        let round = self.state.round().map_or(0, |round| round.number);
        let Moment { wall: at, tick } = self.now;
        let event = Event { seq: self.state.seq + 1, at, tick, round, by: self.by, key, kind };
        self.state.apply(&event);
        let seq = event.seq;
        self.record.events.push(event);
        seq
    }

    /// The person who acts.
    fn person(&self) -> Result<PersonId, Refusal> {
        let by = self.by.and_then(|by| self.state.person(by));
        by.map(|person| person.id).ok_or_else(Refusal::sign_in)
    }

    fn open_round(&self) -> Result<&Round, Refusal> {
        let open = self.state.round().filter(|round| round.is_open());
        open.ok_or_else(|| Refusal::conflict("round_closed", "the round is closed"))
    }

    fn close(
        &mut self,
        number: i64,
        unanswered: Unanswered,
        unreviewed: Unreviewed,
    ) -> Result<ActResult, Refusal> {
        let Some(round) = self.state.round().filter(|round| round.number == number) else {
            return Err(Refusal::conflict("round_closed", "this is not the round that is open"));
        };
        if round.is_open() {
            let left = round.outcomes().unanswered;
            if left > 0 && unanswered == Unanswered::Refuse {
                let message =
                    format!("{left} tasks have no answer; say that they go back to the pool");
                return Err(Refusal::conflict("unanswered", message));
            }
            self.settle_review(unreviewed)?;
            self.emit(EventKind::Closed { round: number });
        }
        Ok(ActResult::Nothing)
    }
}
