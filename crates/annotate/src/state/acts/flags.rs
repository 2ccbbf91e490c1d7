//! Acts on flags.

use super::super::KeyedAct;
use super::tasks::RETURNED_FOR;
use super::{ActContext, ActResult};
use crate::error::Refusal;
use crate::event::{EventKind, Seq};

impl ActContext<'_> {
    /// Asks the lead about a task in hand, which is put aside, or about one that the person has
    /// answered.
    pub(super) fn flag(
        &mut self,
        key: String,
        item: String,
        note: String,
    ) -> Result<ActResult, Refusal> {
        let person = self.person()?;
        if self.known(&key, KeyedAct::Flag)?.is_none() {
            let round = self.open_round()?;
            let answered = round.slot(&item).is_some_and(|slot| round.has_answered(slot, person));
            if !answered {
                self.place(person, &item)?;
            }
            let own = |slot: usize| {
                let mut flags = round.flags.values().filter(|flag| flag.resolved.is_none());
                flags.any(|flag| flag.slot == slot && flag.person == person)
            };
            if round.position(&item).is_some_and(own) {
                let message = "you have flagged this, and the lead has not answered yet";
                return Err(Refusal::conflict("already_flagged", message));
            }
            self.emit_keyed(EventKind::Flagged { item, person, note }, Some(key.into()));
        }
        Ok(ActResult::Next(self.next()?.into()))
    }

    /// Resolves a flag. The task goes back to its annotator, if it still waits for an answer.
    pub(super) fn resolve(
        &mut self,
        key: String,
        flag: Seq,
        note: String,
    ) -> Result<ActResult, Refusal> {
        if self.known(&key, KeyedAct::Resolve(flag))?.is_none() {
            let round = self.open_round()?;
            let Some(raised) = round.flags.get(&flag) else {
                return Err(Refusal::not_found("there is no such flag in the round that is open"));
            };
            if raised.resolved.is_some() {
                return Err(Refusal::conflict("resolved", "this flag was resolved already"));
            }
            let (slot, person) = (&round.slots[raised.slot], raised.person);
            let taken = slot.standing.len() + slot.held_by_others(person, self.now.tick);
            let goes_back = self.state.person(person).is_some()
                && !round.has_answered(slot, person)
                && taken < self.terms.annotators;
            let until = self.now.wall + if goes_back { RETURNED_FOR } else { 0 };
            let item = slot.task.id.clone();
            let kind = EventKind::Resolved { item, flag, note, until };
            self.emit_keyed(kind, Some(key.into()));
        }
        Ok(ActResult::Nothing)
    }
}
