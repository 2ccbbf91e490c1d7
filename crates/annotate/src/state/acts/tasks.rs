//! Acts on tasks and answers.

use std::sync::Arc;

use super::super::{GivenAnswer, Meaning, Round, Standing, State};
use super::{Done, DraftChange, Performance};
use crate::error::Refusal;
use crate::event::{Draft, EventKind, Millis, PersonId, Role, Said, Seq};
use crate::state::NextView;

/// How long an answer that was returned waits for its author before others may take the task.
const RETURNED_FOR: Millis = 60 * 60 * 1000;
/// Nobody changes their mind about a task more often.
const MOST_SAID: usize = 100;
/// The part of a lease that one is kept for longer than promised when it is renewed.
const SPARE: Millis = 4;

impl Performance<'_> {
    /// The task in hand, or the next free one, which is in hand from now on.
    pub(super) fn next(&mut self) -> Result<NextView, Refusal> {
        let (person, now) = (self.person()?, self.now.tick);
        let Some(round) = self.state.round() else { return Ok(NextView::none("no_round")) };
        if !round.is_open() {
            return Ok(NextView::none("closed"));
        }
        if self.state.paused {
            return Ok(NextView::none("paused"));
        }
        let at = match round.in_hand(person, self.terms.annotators, now) {
            Some(at) => at,
            None => {
                let Some(at) = round.free(person, self.terms.annotators, now) else {
                    let complete = round.is_complete(self.terms.annotators);
                    return Ok(NextView::none(if complete { "done" } else { "waiting" }));
                };
                let item = round.slots[at].task.id.clone();
                self.lease(item, person, self.terms.lease);
                at
            }
        };
        Ok(self.state.task_in_hand(person, at, self.terms, self.now))
    }

    /// The place of a task that somebody may still answer.
    fn place(&self, person: PersonId, item: &str) -> Result<usize, Refusal> {
        let round = self.open_round()?;
        let Some(at) = round.position(item) else {
            let message = "this item is not in the round that is open";
            return Err(Refusal::conflict("round_closed", message));
        };
        if round.has_answered(&round.slots[at], person) {
            let message = "you have answered this; change your answer instead";
            return Err(Refusal::conflict("already_answered", message));
        }
        if !round.may_answer(at, person, self.terms.annotators, self.now.tick) {
            let message = "this task is not yours: it was not handed to you, or you were away for \
                           so long that it went to somebody else";
            return Err(Refusal::conflict("lease_lost", message));
        }
        Ok(at)
    }

    /// Refuses more answers of somebody to a task than a person would give: all of them are kept.
    fn check_patience(&self, at: usize, person: PersonId) -> Result<(), Refusal> {
        let round = self.open_round()?;
        let own = |seq: &&Seq| round.answers[*seq].person == person;
        if round.slots[at].said.iter().filter(own).count() >= MOST_SAID {
            let message = format!("this was answered {MOST_SAID} times; that is enough");
            return Err(Refusal::conflict("too_often", message));
        }
        Ok(())
    }

    /// Whether an act of this key was done before; an error if the key stands for another one.
    fn known(&self, key: &str, meaning: Meaning) -> Result<Option<Seq>, Refusal> {
        match self.state.known(self.person()?, key) {
            None => Ok(None),
            Some((seq, known)) if known == meaning => Ok(Some(seq)),
            Some(_) => Err(key_reused()),
        }
    }

    /// Keeps a task for somebody.
    fn lease(&mut self, item: String, person: PersonId, time: Millis) {
        self.emit(EventKind::Leased { item, person, until: self.now.wall + time });
    }

    pub(super) fn renew(&mut self, item: String) -> Result<Done, Refusal> {
        let person = self.person()?;
        self.place(person, &item)?;
        let (now, lease) = (self.now, self.terms.lease);
        let kept = |state: &State| state.lease_until(person, &item, now.tick);
        if kept(self.state).is_none_or(|until| until < now.tick + lease) {
            // Longer than promised, so that the signs of life that come in that time need not be
            // written down.
            self.lease(item.clone(), person, lease + lease / SPARE);
        }
        Ok(Done::Number(now.wall_of(kept(self.state).unwrap_or(now.tick))))
    }

    pub(super) fn keep(&mut self, item: String, draft: Draft) -> Result<Done, Refusal> {
        let person = self.person()?;
        self.place(person, &item)?;
        self.state.drafts.insert((person, item.clone()), draft.clone());
        self.record.drafts.push(DraftChange { person, item, draft: Some(draft) });
        Ok(Done::Nothing)
    }

    pub(super) fn submit(
        &mut self,
        key: String,
        item: String,
        said: Said,
    ) -> Result<Done, Refusal> {
        let person = self.person()?;
        if let Some(seq) = self.known(&key, Meaning::Answer)? {
            let same = |(round, given): (&Round, &GivenAnswer)| {
                round.slots[given.slot].task.id == item && *given.said == said
            };
            if !self.state.answer(seq).is_some_and(same) {
                return Err(key_reused());
            }
            return Ok(Done::Answered(seq, self.next()?.into()));
        }
        // Whoever was at it when the lead paused may finish.
        let at = self.place(person, &item)?;
        self.check_patience(at, person)?;
        let round = self.open_round()?;
        // Who got an answer back was not looking at it all the while.
        let lease = round.slots[at].lease_of(person).filter(|lease| !lease.returned);
        let seconds = lease.map(|lease| (self.now.tick - lease.since).max(0) as f64 / 1000.0);
        if self.state.drafts.remove(&(person, item.clone())).is_some() {
            let item = item.clone();
            self.record.drafts.push(DraftChange { person, item, draft: None });
        }
        let said = Arc::new(said);
        let kind = EventKind::Answered { item, person, said, seconds, replaces: None };
        let seq = self.emit_keyed(kind, Some(key.into()));
        Ok(Done::Answered(seq, self.next()?.into()))
    }

    /// An answer that stands in the open round.
    fn standing(&self, answer: Seq) -> Result<GivenAnswer, Refusal> {
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

    /// The same for its author.
    fn own(&self, answer: Seq) -> Result<GivenAnswer, Refusal> {
        let person = self.person()?;
        // Others' answers are none of an annotator's business, not even whether they exist.
        if self.state.answer(answer).is_none_or(|(_, given)| given.person != person) {
            return Err(Refusal::not_found("there is no such answer"));
        }
        self.standing(answer)
    }

    /// The same for its author or a lead.
    fn own_or_led(&self, answer: Seq) -> Result<GivenAnswer, Refusal> {
        let person = self.state.person(self.person()?);
        let leads = person.is_some_and(|person| person.role == Role::Lead);
        if leads { self.standing(answer) } else { self.own(answer) }
    }

    pub(super) fn undo(&mut self, key: String, answer: Seq) -> Result<Done, Refusal> {
        let person = self.person()?;
        if self.known(&key, Meaning::Undo(answer))?.is_none() {
            let given = self.own(answer)?;
            let item = self.open_round()?.slots[given.slot].task.id.clone();
            self.emit_keyed(EventKind::Undone { item: item.clone(), answer }, Some(key.into()));
            self.lease(item, person, self.terms.lease);
        }
        Ok(Done::Next(self.next()?.into()))
    }

    pub(super) fn revise(&mut self, key: String, answer: Seq, said: Said) -> Result<Done, Refusal> {
        if let Some(seq) = self.known(&key, Meaning::Revise(answer))? {
            let same = self.state.answer(seq).is_some_and(|(_, given)| *given.said == said);
            return if same { Ok(Done::Number(seq)) } else { Err(key_reused()) };
        }
        let given = self.own_or_led(answer)?;
        self.check_patience(given.slot, given.person)?;
        let item = self.open_round()?.slots[given.slot].task.id.clone();
        let kind = EventKind::Answered {
            item,
            person: given.person,
            said: Arc::new(said),
            seconds: given.seconds,
            replaces: Some(answer),
        };
        Ok(Done::Number(self.emit_keyed(kind, Some(key.into()))))
    }

    pub(super) fn give_back(
        &mut self,
        key: String,
        answer: Seq,
        note: String,
    ) -> Result<Done, Refusal> {
        if self.known(&key, Meaning::Return(answer))?.is_none() {
            let given = self.standing(answer)?;
            let item = self.open_round()?.slots[given.slot].task.id.clone();
            // Nobody waits for somebody who is gone.
            let stays = self.state.person(given.person).is_some();
            let until = if stays { self.now.wall + RETURNED_FOR } else { self.now.wall };
            self.emit_keyed(EventKind::Returned { item, answer, note, until }, Some(key.into()));
        }
        Ok(Done::Number(answer))
    }

    /// Lets go of everything in somebody's hands.
    pub(super) fn let_go(&mut self, person: PersonId) -> Result<Done, Refusal> {
        let rounds = self.state.round().into_iter();
        let kept = rounds.flat_map(|round| {
            round.kept(person, self.now.tick).map(|at| round.slots[at].task.id.clone())
        });
        for item in kept.collect::<Vec<_>>() {
            self.emit(EventKind::LetGo { item, person });
        }
        Ok(Done::Nothing)
    }
}

fn key_reused() -> Refusal {
    Refusal::conflict("key_reused", "this key was used for something else; make a new one")
}
