//! What people may do, and what happens when they do it.
//!
//! [`State::perform`] decides with everything in view and records events, which change the state at
//! once; whoever calls it stores them and only then says that it is done. An act that is refused
//! records nothing.

use nextpair_data::queue::Task;

use super::views::NextView;
use super::{Given, Round, Standing, State};
use crate::event::{Draft, Event, Millis, PersonId, Role, Said, Seq, What};
use crate::refusal::Refusal;

/// How long an answer that was returned waits for its author before others may take the task.
const RETURNED_FOR: Millis = 60 * 60 * 1000;

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
    Remove {
        person: PersonId,
    },
    /// The app's own acts.
    Open {
        round: i64,
        fingerprint: String,
        tasks: Vec<Task>,
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

/// What acts leave behind: what to store.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) events: Vec<Event>,
    /// Unfinished words of somebody about an item; nothing if they are not needed any more.
    pub(crate) drafts: Vec<(PersonId, String, Option<Draft>)>,
    /// Tasks of a round that is opened.
    pub(crate) tasks: Vec<(i64, Vec<Task>)>,
}

impl Record {
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.drafts.is_empty() && self.tasks.is_empty()
    }
}

/// An act that is being performed.
struct Performance<'a> {
    state: &'a mut State,
    record: &'a mut Record,
    terms: Terms,
    by: Option<PersonId>,
    now: Millis,
}

impl State {
    /// Does what somebody wants, or says why not.
    pub(crate) fn perform(
        &mut self,
        (by, act): (Option<PersonId>, Act),
        (terms, now): (Terms, Millis),
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
            Act::Remove { person } => self.remove(person),
            Act::Open { round, fingerprint, tasks } => {
                if self.state.round().is_none_or(|last| last.number < round && !last.is_open()) {
                    self.record.tasks.push((round, tasks.clone()));
                    self.state.coming.insert(round, tasks);
                    self.happens(What::Opened { round, fingerprint });
                }
                Ok(Done::Nothing)
            }
            Act::CloseIfComplete { grace } => {
                let due = self.state.closes_at(self.terms, grace).is_some_and(|at| at <= self.now);
                if due && let Some(round) = self.state.round() {
                    let round = round.number;
                    self.happens(What::Closed { round });
                }
                Ok(Done::Nothing)
            }
            Act::HandedOver { round } => {
                let waits = |other: &Round| other.number == round && !other.handed_over;
                if self.state.rounds.iter().any(waits) {
                    self.happens(What::HandedOver { round });
                }
                Ok(Done::Nothing)
            }
            Act::Overtaken { round } => {
                self.happens(What::Overtaken { round });
                Ok(Done::Nothing)
            }
        }
    }

    fn happens(&mut self, what: What) -> Seq {
        self.happens_as(what, None)
    }

    fn happens_as(&mut self, what: What, key: Option<String>) -> Seq {
        let round = self.state.round().map_or(0, |round| round.number);
        let event = Event { seq: self.state.seq + 1, at: self.now, round, by: self.by, key, what };
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

    /// The task in hand, or the next free one, which is in hand from now on.
    fn next(&mut self) -> Result<NextView, Refusal> {
        let (person, now) = (self.person()?, self.now);
        let Some(round) = self.state.round() else { return Ok(NextView::none("no_round")) };
        if !round.is_open() {
            return Ok(NextView::none("closed"));
        }
        if self.state.paused {
            return Ok(NextView::none("paused"));
        }
        let at = match round.in_hand(person, now) {
            Some(at) => at,
            None => {
                let Some(at) = round.free(person, self.terms.annotators, now) else {
                    let complete = round.answered(self.terms.annotators) == round.slots.len();
                    return Ok(NextView::none(if complete { "done" } else { "waiting" }));
                };
                let item = round.slots[at].task.id.clone();
                self.happens(What::Leased { item, person, until: now + self.terms.lease });
                at
            }
        };
        Ok(self.state.task_in_hand(person, at, self.terms))
    }

    /// The place of a task that somebody may still answer.
    fn place(&self, person: PersonId, item: &str) -> Result<usize, Refusal> {
        let round = self.open_round()?;
        let at = round.position(item);
        let at = at.ok_or_else(|| Refusal::not_found("this item is not in the round"))?;
        let slot = &round.slots[at];
        if round.has_answered(slot, person) {
            let message = "you have answered this; change your answer instead";
            return Err(Refusal::conflict("already_answered", message));
        }
        let others = slot.standing.len() + slot.held_by_others(person, self.now);
        if slot.lease_of(person).is_none() || others >= self.terms.annotators {
            let message = "this task is not yours: it was not handed to you, or you were away for \
                           so long that it went to somebody else";
            return Err(Refusal::conflict("lease_lost", message));
        }
        Ok(at)
    }

    fn renew(&mut self, item: String) -> Result<Done, Refusal> {
        let person = self.person()?;
        self.place(person, &item)?;
        let until = self.now + self.terms.lease;
        // Keeping what is kept long enough, after a return, would shorten it.
        let known = self.state.lease_until(person, &item, self.now);
        let until = until.max(known.unwrap_or(until));
        if known != Some(until) {
            self.happens(What::Leased { item, person, until });
        }
        Ok(Done::Number(until))
    }

    fn keep(&mut self, item: String, draft: Draft) -> Result<Done, Refusal> {
        let person = self.person()?;
        self.place(person, &item)?;
        self.state.drafts.insert((person, item.clone()), draft.clone());
        self.record.drafts.push((person, item, Some(draft)));
        Ok(Done::Nothing)
    }

    fn submit(&mut self, key: String, item: String, said: Said) -> Result<Done, Refusal> {
        let person = self.person()?;
        if let Some(seq) = self.state.known(person, &key) {
            let same = |(round, given): (&Round, &Given)| {
                round.slots[given.slot].task.id == item && given.said == said
            };
            if !self.state.answer(seq).is_some_and(same) {
                return Err(key_reused());
            }
            return Ok(Done::Answered(seq, self.next()?.into()));
        }
        // Whoever was at it when the lead paused may finish.
        let at = self.place(person, &item)?;
        let round = self.open_round()?;
        let lease = round.slots[at].lease_of(person);
        let seconds = lease.map(|lease| (self.now - lease.since) as f64 / 1000.0);
        if self.state.drafts.remove(&(person, item.clone())).is_some() {
            self.record.drafts.push((person, item.clone(), None));
        }
        let what = What::Answered { item, person, said, seconds, replaces: None };
        let seq = self.happens_as(what, Some(key));
        Ok(Done::Answered(seq, self.next()?.into()))
    }

    /// An answer that stands in the open round.
    fn standing(&self, answer: Seq) -> Result<Given, Refusal> {
        let Some((round, given)) = self.state.answer(answer) else {
            return Err(Refusal::not_found("there is no such answer"));
        };
        if !round.is_open() {
            return Err(Refusal::conflict("round_closed", "the round of this answer is closed"));
        }
        match given.standing {
            Standing::Stands => Ok(given.clone()),
            _ => Err(Refusal::conflict("not_standing", "this answer was taken back or replaced")),
        }
    }

    /// The same for somebody who must be its author, unless leads may as well.
    fn own(&self, answer: Seq, or_lead: bool) -> Result<Given, Refusal> {
        let person = self.person()?;
        let lead = self.state.person(person).is_some_and(|person| person.role == Role::Lead);
        let known = self.state.answer(answer);
        // Others' answers are none of an annotator's business, not even whether they exist.
        if !known.is_some_and(|(_, given)| given.person == person || (lead && or_lead)) {
            return Err(Refusal::not_found("there is no such answer"));
        }
        self.standing(answer)
    }

    fn undo(&mut self, key: String, answer: Seq) -> Result<Done, Refusal> {
        let person = self.person()?;
        if self.state.known(person, &key).is_none() {
            let given = self.own(answer, false)?;
            let item = self.open_round()?.slots[given.slot].task.id.clone();
            self.happens_as(What::Undone { item: item.clone(), answer }, Some(key));
            self.happens(What::Leased { item, person, until: self.now + self.terms.lease });
        }
        Ok(Done::Next(self.next()?.into()))
    }

    fn revise(&mut self, key: String, answer: Seq, said: Said) -> Result<Done, Refusal> {
        let person = self.person()?;
        if let Some(seq) = self.state.known(person, &key) {
            return match self.state.answer(seq).is_some_and(|(_, given)| given.said == said) {
                true => Ok(Done::Number(seq)),
                false => Err(key_reused()),
            };
        }
        let given = self.own(answer, true)?;
        let item = self.open_round()?.slots[given.slot].task.id.clone();
        let what = What::Answered {
            item,
            person: given.person,
            said,
            seconds: given.seconds,
            replaces: Some(answer),
        };
        Ok(Done::Number(self.happens_as(what, Some(key))))
    }

    fn give_back(&mut self, key: String, answer: Seq, note: String) -> Result<Done, Refusal> {
        let person = self.person()?;
        if self.state.known(person, &key).is_none() {
            let given = self.standing(answer)?;
            let item = self.open_round()?.slots[given.slot].task.id.clone();
            // Nobody waits for somebody who is gone.
            let stays = self.state.person(given.person).is_some();
            let until = if stays { self.now + RETURNED_FOR } else { self.now };
            self.happens_as(What::Returned { item, answer, note, until }, Some(key));
        }
        Ok(Done::Number(answer))
    }

    /// Lets go of everything in somebody's hands.
    fn let_go(&mut self, person: PersonId) -> Result<Done, Refusal> {
        let now = self.now;
        while let Some(round) = self.state.round()
            && let Some(at) = round.in_hand(person, now)
        {
            let item = round.slots[at].task.id.clone();
            self.happens(What::LetGo { item, person });
        }
        Ok(Done::Nothing)
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

fn key_reused() -> Refusal {
    Refusal::conflict("key_reused", "this key was used for something else; make a new one")
}
