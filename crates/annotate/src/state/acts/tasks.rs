//! Acts on tasks and answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::{AnswerStatus, GivenAnswer, KeyedAct, Review, Round, State, is_suggested};
use super::{ActContext, ActResult, DraftChange};
use crate::error::Refusal;
use crate::event::{Draft, EventKind, Millis, PersonId, Seq, Submission};
use crate::state::NextView;

/// How long a returned answer waits for its author before others may take the task.
pub(super) const RETURNED_FOR: Millis = 60 * 60 * 1000;
/// Most answers of one person to a task, corrections included.
const MOST_ANSWERS: usize = 100;
/// A renewed lease is longer than promised by this fraction (1 / 4), so that few renewals need to be stored.
const SPARE: Millis = 4;

/// A standing answer, and its item.
pub(super) struct StandingAnswer {
    pub(super) item: String,
    pub(super) given: GivenAnswer,
}

impl ActContext<'_> {
    /// The current task, or the next free one, which becomes the current task.
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

    /// The position of a task that the person may still answer.
    pub(super) fn place(&self, person: PersonId, item: &str) -> Result<usize, Refusal> {
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

    /// Refuses more answers of one person to a task than are plausible: all of them are stored.
    fn check_patience(&self, round: &Round, at: usize, person: PersonId) -> Result<(), Refusal> {
        let own = |seq: &&Seq| round.answers[*seq].person == person;
        if round.slots[at].said.iter().filter(own).count() >= MOST_ANSWERS {
            let message = format!("this was answered {MOST_ANSWERS} times; that is enough");
            return Err(Refusal::conflict("too_often", message));
        }
        Ok(())
    }

    /// The event of an earlier act with this key, if any. Refuses a key that stands for another
    /// act.
    pub(super) fn known(&self, key: &str, meaning: KeyedAct) -> Result<Option<Seq>, Refusal> {
        match self.state.known(self.person()?, key) {
            None => Ok(None),
            Some((seq, known)) if known == meaning => Ok(Some(seq)),
            Some(_) => Err(key_reused()),
        }
    }

    /// Reserves a task for a person.
    fn lease(&mut self, item: String, person: PersonId, time: Millis) {
        self.emit(EventKind::Leased { item, person, until: self.now.wall + time });
    }

    pub(super) fn renew(&mut self, item: String) -> Result<ActResult, Refusal> {
        let person = self.person()?;
        self.place(person, &item)?;
        let (now, lease) = (self.now, self.terms.lease);
        let kept = |state: &State| state.lease_until(person, &item, now.tick);
        if kept(self.state).is_none_or(|until| until < now.tick + lease) {
            // Longer than promised, so that renewals within that time need not be stored.
            self.lease(item.clone(), person, lease + lease / SPARE);
        }
        Ok(ActResult::Number(now.wall_of(kept(self.state).unwrap_or(now.tick))))
    }

    pub(super) fn keep(&mut self, item: String, draft: Draft) -> Result<ActResult, Refusal> {
        let person = self.person()?;
        self.place(person, &item)?;
        self.state.drafts.insert((person, item.clone()), draft.clone());
        self.record.drafts.push(DraftChange { person, item, draft: Some(draft) });
        Ok(ActResult::Nothing)
    }

    pub(super) fn submit(
        &mut self,
        key: String,
        item: String,
        said: Submission,
        accept: bool,
    ) -> Result<ActResult, Refusal> {
        let person = self.person()?;
        if let Some(seq) = self.known(&key, KeyedAct::Answer)? {
            let same = |(round, given): (&Round, &GivenAnswer)| {
                round.slots[given.slot].task.id == item && *given.said == said
            };
            if !self.state.answer(seq).is_some_and(same) {
                return Err(key_reused());
            }
            return Ok(ActResult::Answered(seq, self.next()?.into()));
        }
        // A person who was at work when the lead paused may finish.
        let at = self.place(person, &item)?;
        self.check_patience(self.open_round()?, at, person)?;
        self.check_acceptance(at, &said, accept)?;
        let round = self.open_round()?;
        // The author of a returned answer was not looking at it all the time.
        let lease = round.slots[at].lease_of(person).filter(|lease| !lease.returned);
        let seconds = lease.map(|lease| (self.now.tick - lease.since).max(0) as f64 / 1000.0);
        if self.state.drafts.remove(&(person, item.clone())).is_some() {
            let item = item.clone();
            self.record.drafts.push(DraftChange { person, item, draft: None });
        }
        let said = Arc::new(said);
        let kind = EventKind::Answered { item, person, said, seconds, replaces: None };
        let seq = self.emit_keyed(kind, Some(key.into()));
        Ok(ActResult::Answered(seq, self.next()?.into()))
    }

    /// Refuses an unchanged suggestion as an answer, unless the person accepts it explicitly.
    fn check_acceptance(&self, at: usize, said: &Submission, accept: bool) -> Result<(), Refusal> {
        let suggested = &self.open_round()?.slots[at].suggested;
        let Submission::Captions(captions) = said else { return Ok(()) };
        if !accept && captions.iter().any(|caption| is_suggested(suggested, caption)) {
            let message = "this is the suggestion; change it, or say that you accept it as it is";
            return Err(Refusal::conflict("not_accepted", message));
        }
        Ok(())
    }

    /// Suggests captions for tasks of the open round that nobody has answered.
    pub(super) fn suggest(&mut self, suggestions: &BTreeMap<String, Vec<String>>) {
        let Ok(round) = self.open_round() else { return };
        let untouched = round.slots.iter().filter(|slot| slot.said.is_empty());
        let new = untouched.filter_map(|slot| {
            let captions = suggestions.get(&slot.task.id)?;
            (slot.suggested[..] != captions[..]).then(|| (slot.task.id.clone(), captions.clone()))
        });
        for (item, captions) in new.collect::<Vec<_>>() {
            self.emit(EventKind::Suggested { item, captions });
        }
    }

    /// A standing answer in the open round, or one that waits for review in a closed round.
    pub(super) fn standing(&self, answer: Seq) -> Result<StandingAnswer, Refusal> {
        let Some((round, given)) = self.state.answer(answer) else {
            return Err(Refusal::not_found("there is no such answer"));
        };
        if !round.is_open() && given.review != Review::Waiting {
            return Err(round_closed());
        }
        match given.standing {
            AnswerStatus::Stands => {
                let item = round.slots[given.slot].task.id.clone();
                Ok(StandingAnswer { item, given: given.clone() })
            }
            _ => Err(Refusal::conflict("not_standing", "this answer was taken back or replaced")),
        }
    }

    /// A standing answer in the open round, for its author.
    fn own(&self, answer: Seq) -> Result<StandingAnswer, Refusal> {
        let person = self.person()?;
        match self.state.answer(answer) {
            Some((round, given)) if given.person == person => {
                if round.is_open() {
                    self.standing(answer)
                } else {
                    Err(round_closed())
                }
            }
            // Annotators must not learn about others' answers, not even whether they exist.
            _ => Err(Refusal::not_found("there is no such answer")),
        }
    }

    /// A standing answer, for its author or a reviewer.
    fn own_or_judged(&self, answer: Seq) -> Result<StandingAnswer, Refusal> {
        let person = self.person()?;
        let own = self.state.answer(answer).is_some_and(|(_, given)| given.person == person);
        if own { self.own(answer) } else { self.judged(answer) }
    }

    pub(super) fn undo(&mut self, key: String, answer: Seq) -> Result<ActResult, Refusal> {
        let person = self.person()?;
        if self.known(&key, KeyedAct::Undo(answer))?.is_none() {
            let StandingAnswer { item, .. } = self.own(answer)?;
            self.emit_keyed(EventKind::Undone { item: item.clone(), answer }, Some(key.into()));
            self.lease(item, person, self.terms.lease);
        }
        Ok(ActResult::Next(self.next()?.into()))
    }

    pub(super) fn revise(
        &mut self,
        key: String,
        answer: Seq,
        said: Submission,
    ) -> Result<ActResult, Refusal> {
        if let Some(seq) = self.known(&key, KeyedAct::Revise(answer))? {
            let same = self.state.answer(seq).is_some_and(|(_, given)| *given.said == said);
            return if same { Ok(ActResult::Number(seq)) } else { Err(key_reused()) };
        }
        let StandingAnswer { item, given } = self.own_or_judged(answer)?;
        if let Some((round, _)) = self.state.answer(answer) {
            self.check_patience(round, given.slot, given.person)?;
        }
        let kind = EventKind::Answered {
            item,
            person: given.person,
            said: Arc::new(said),
            seconds: given.seconds,
            replaces: Some(answer),
        };
        Ok(ActResult::Number(self.emit_keyed(kind, Some(key.into()))))
    }

    pub(super) fn give_back(
        &mut self,
        key: String,
        answer: Seq,
        note: String,
    ) -> Result<ActResult, Refusal> {
        if self.known(&key, KeyedAct::Return(answer))?.is_none() {
            let StandingAnswer { item, given } = self.judged(answer)?;
            // Do not reserve the task for a person who was removed.
            let stays = self.state.person(given.person).is_some();
            let until = if stays { self.now.wall + RETURNED_FOR } else { self.now.wall };
            self.emit_keyed(EventKind::Returned { item, answer, note, until }, Some(key.into()));
        }
        Ok(ActResult::Number(answer))
    }

    /// Releases all tasks of a person.
    pub(super) fn let_go(&mut self, person: PersonId) -> Result<ActResult, Refusal> {
        let rounds = self.state.round().into_iter();
        let kept = rounds.flat_map(|round| {
            round.kept(person, self.now.tick).map(|at| round.slots[at].task.id.clone())
        });
        for item in kept.collect::<Vec<_>>() {
            self.emit(EventKind::LetGo { item, person });
        }
        Ok(ActResult::Nothing)
    }
}

fn round_closed() -> Refusal {
    Refusal::conflict("round_closed", "the round of this answer is closed")
}

fn key_reused() -> Refusal {
    Refusal::conflict("key_reused", "this key was used for something else; make a new one")
}
