//! What people may do, and what happens when they do it.
//!
//! [`State::perform`] decides with everything in view and records events, which change the state at
//! once; whoever calls it stores them and only then says that it is done. An act that is refused
//! records nothing.

mod tasks;

use std::sync::Arc;

use nextpair_data::queue::Task;

use super::views::NextView;
use super::{MOST_LINKS, Round, State};
use crate::event::{Draft, Event, Millis, Moment, PersonId, Role, Said, Seq, What};
use crate::refusal::Refusal;

/// What is wanted for every item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Captions of every annotator.
    pub(crate) captions: usize,
    /// Annotators.
    pub(crate) annotators: usize,
    /// How long a task is kept for somebody who does not say anything.
    pub(crate) lease: Millis,
}

/// Something that somebody wants to do.
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
        said: Said,
    },
    Undo {
        key: String,
        answer: Seq,
    },
    Revise {
        key: String,
        answer: Seq,
        said: Said,
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
        skip_rest: bool,
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
    /// Lets go of everything, and ends the session that would last until then.
    SignOut {
        until: Millis,
    },
    Remove {
        person: PersonId,
    },
    /// An image is kept that somebody brought.
    Upload {
        name: String,
        bytes: u64,
    },
    /// The app's own acts.
    Open {
        round: i64,
        fingerprint: String,
        tasks: Vec<Arc<Task>>,
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
    /// Finds out whether something can be stored.
    Probe,
    /// Learns what other processes did.
    Look,
}

/// What an act led to.
#[derive(Clone, Debug)]
pub(crate) enum Done {
    /// What is in somebody's hands now.
    Next(Box<NextView>),
    /// An answer, and what is in somebody's hands now.
    Answered(Seq, Box<NextView>),
    /// Something has this number: an answer, a person, a time.
    Number(i64),
    /// Nothing to tell.
    Nothing,
}

/// What acts leave behind: what to store, or what others have stored.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) events: Vec<Event>,
    /// Unfinished words of somebody about an item; nothing if they are not needed any more.
    pub(crate) drafts: Vec<(PersonId, String, Option<Draft>)>,
    /// Tasks of a round that is opened.
    pub(crate) tasks: Vec<(i64, Vec<Arc<Task>>)>,
    /// Something is to be written even if nothing happened.
    pub(crate) probe: bool,
}

impl Record {
    pub(crate) fn is_empty(&self) -> bool {
        !self.probe && self.events.is_empty() && self.drafts.is_empty() && self.tasks.is_empty()
    }

    /// What comes after it.
    pub(crate) fn add(&mut self, mut later: Record) {
        self.events.append(&mut later.events);
        self.drafts.append(&mut later.drafts);
        self.tasks.append(&mut later.tasks);
    }
}

/// An act that is being performed.
struct Performance<'a> {
    state: &'a mut State,
    record: &'a mut Record,
    terms: Terms,
    by: Option<PersonId>,
    now: Moment,
}

impl State {
    /// Does what somebody wants, or says why not.
    pub(crate) fn perform(
        &mut self,
        (by, act): (Option<PersonId>, Act),
        (terms, now): (Terms, Moment),
        record: &mut Record,
    ) -> Result<Done, Refusal> {
        Performance { state: self, record, terms, by, now }.perform(act)
    }
}

impl Performance<'_> {
    fn perform(&mut self, act: Act) -> Result<Done, Refusal> {
        match act {
            Act::Next => Ok(Done::Next(self.next()?.into())),
            Act::Renew { item } => self.renew(item),
            Act::Keep { item, draft } => self.keep(item, draft),
            Act::Submit { key, item, said } => self.submit(key, item, said),
            Act::Undo { key, answer } => self.undo(key, answer),
            Act::Revise { key, answer, said } => self.revise(key, answer, said),
            Act::Return { key, answer, note } => self.give_back(key, answer, note),
            Act::LetGo => self.let_go(self.person()?),
            Act::Pause { paused } => {
                if paused != self.state.paused {
                    self.happens(if paused { What::Paused } else { What::Resumed });
                }
                Ok(Done::Nothing)
            }
            Act::Price { price } => {
                if price != self.state.price {
                    self.happens(What::Priced { price });
                }
                Ok(Done::Nothing)
            }
            Act::Close { round, skip_rest } => self.close(round, skip_rest),
            Act::Invite { name, role } => self.invite(name, role),
            Act::RenewLink { person } => {
                self.somebody(person)?;
                self.happens(What::LinkRenewed { person });
                Ok(Done::Nothing)
            }
            Act::AddLink { person } => self.add_link(person),
            Act::RevokeLink { person, link } => {
                let known = self.state.person(person);
                if !known.is_some_and(|person| person.lets_in(link, self.now.wall)) {
                    return Err(Refusal::not_found("there is no such link, or it has ended"));
                }
                self.happens(What::LinkRevoked { person, link });
                Ok(Done::Nothing)
            }
            Act::SignOut { until } => {
                let person = self.person()?;
                self.let_go(person)?;
                self.happens(What::SignedOut { person, until });
                Ok(Done::Nothing)
            }
            Act::Remove { person } => self.remove(person),
            Act::Upload { name, bytes } => {
                let person = self.person()?;
                if !self.state.uploads.contains_key(&name) {
                    self.happens(What::Uploaded { person, name, bytes });
                }
                Ok(Done::Nothing)
            }
            Act::Open { round, fingerprint, tasks } => {
                if self.state.round().is_none_or(|last| last.number < round && !last.is_open()) {
                    self.record.tasks.push((round, tasks.clone()));
                    self.state.coming.insert(round, tasks);
                    self.happens(What::Opened { round, fingerprint });
                }
                Ok(Done::Nothing)
            }
            Act::CloseIfComplete { grace } => {
                let due =
                    self.state.closes_at(self.terms, grace).is_some_and(|at| at <= self.now.tick);
                if due && let Some(round) = self.state.round() {
                    let round = round.number;
                    self.happens(What::Closed { round });
                }
                Ok(Done::Nothing)
            }
            Act::HandedOver { round } => {
                let waits = |other: &Round| other.number == round && other.waits_for_hand_over();
                if self.state.rounds.iter().any(waits) {
                    self.happens(What::HandedOver { round });
                }
                Ok(Done::Nothing)
            }
            Act::Overtaken { round } => {
                let open = |other: &Round| other.number == round && !other.handed_over;
                if self.state.rounds.iter().any(open) {
                    self.happens(What::Overtaken { round });
                }
                Ok(Done::Nothing)
            }
            Act::Look => Ok(Done::Nothing),
            Act::Probe => {
                self.record.probe = true;
                Ok(Done::Nothing)
            }
        }
    }

    fn happens(&mut self, what: What) -> Seq {
        self.happens_as(what, None)
    }

    fn happens_as(&mut self, what: What, key: Option<Arc<str>>) -> Seq {
        let round = self.state.round().map_or(0, |round| round.number);
        let Moment { wall: at, tick } = self.now;
        let event = Event { seq: self.state.seq + 1, at, tick, round, by: self.by, key, what };
        self.state.apply(&event);
        let seq = event.seq;
        self.record.events.push(event);
        seq
    }

    /// Who acts.
    fn person(&self) -> Result<PersonId, Refusal> {
        let by = self.by.and_then(|by| self.state.person(by));
        by.map(|person| person.id).ok_or_else(Refusal::sign_in)
    }

    fn somebody(&self, person: PersonId) -> Result<(), Refusal> {
        let known = self.state.person(person).is_some();
        known.then_some(()).ok_or_else(|| Refusal::not_found("there is no such person"))
    }

    fn open_round(&self) -> Result<&Round, Refusal> {
        let open = self.state.round().filter(|round| round.is_open());
        open.ok_or_else(|| Refusal::conflict("round_closed", "the round is closed"))
    }

    fn close(&mut self, number: i64, skip_rest: bool) -> Result<Done, Refusal> {
        let Some(round) = self.state.round().filter(|round| round.number == number) else {
            return Err(Refusal::conflict("round_closed", "this is not the round that is open"));
        };
        if round.is_open() {
            let left = round.slots.len() - round.answered(1);
            if left > 0 && !skip_rest {
                let message =
                    format!("{left} tasks have no answer; say that they are to be skipped");
                return Err(Refusal::conflict("unanswered", message));
            }
            self.happens(What::Closed { round: number });
        }
        Ok(Done::Nothing)
    }

    fn invite(&mut self, name: String, role: Role) -> Result<Done, Refusal> {
        if self.state.named(&name).is_some() {
            let message = "there is or was somebody of this name; take another one";
            return Err(Refusal::conflict("taken", message));
        }
        let person = self.state.people.keys().next_back().map_or(1, |last| last + 1);
        self.happens(What::Invited { person, name, role });
        Ok(Done::Number(person))
    }

    fn add_link(&mut self, person: PersonId) -> Result<Done, Refusal> {
        self.somebody(person)?;
        let links =
            self.state.person(person).map_or(0, |person| person.links(self.now.wall).count());
        // The app itself adds one where none is left that is of use.
        if self.by.is_some() && links >= MOST_LINKS {
            let message = format!("there are {links} links of this person; revoke some");
            return Err(Refusal::conflict("links", message));
        }
        self.happens(What::LinkAdded { person });
        Ok(Done::Nothing)
    }

    fn remove(&mut self, person: PersonId) -> Result<Done, Refusal> {
        self.somebody(person)?;
        let leads = self.state.people.values().filter(|p| p.role == Role::Lead && !p.removed);
        if leads.map(|lead| lead.id).eq([person]) {
            return Err(Refusal::conflict("last_lead", "the last lead cannot be removed"));
        }
        self.let_go(person)?;
        self.happens(What::Removed { person });
        Ok(Done::Nothing)
    }
}
