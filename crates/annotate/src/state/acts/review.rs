//! Acts of review.

use super::super::{Meaning, Review};
use super::tasks::Stands;
use super::{Done, Performance, Unreviewed};
use crate::error::Refusal;
use crate::event::{EventKind, Role, Seq};

impl Performance<'_> {
    /// An answer that stands, for somebody who may judge it: a lead, or, while it waits, a reviewer
    /// who is not its author. What waits can be judged after its round was closed.
    pub(super) fn judged(&self, answer: Seq) -> Result<Stands, Refusal> {
        let person = self.person()?;
        let role = self.state.person(person).map(|person| person.role);
        let unknown = || Refusal::not_found("there is no such answer");
        let (_, given) = self.state.answer(answer).ok_or_else(unknown)?;
        match role {
            Some(Role::Lead) => self.standing(answer),
            Some(Role::Reviewer) if given.person != person => {
                if given.review == Review::NotWanted {
                    return Err(unknown());
                }
                let stands = self.standing(answer)?;
                match stands.given.review {
                    Review::Waiting => Ok(stands),
                    _ => Err(reviewed()),
                }
            }
            _ => Err(unknown()),
        }
    }

    pub(super) fn accept(&mut self, key: String, answer: Seq) -> Result<Done, Refusal> {
        if self.known(&key, Meaning::Accept(answer))?.is_none() {
            let Stands { item, given } = self.judged(answer)?;
            if given.review != Review::Waiting {
                return Err(reviewed());
            }
            self.emit_keyed(EventKind::Accepted { item, answer }, Some(key.into()));
        }
        Ok(Done::Number(answer))
    }

    /// Finds nothing wrong with an answer of the last round, which may be closed.
    pub(super) fn dismiss(&mut self, answer: Seq) -> Result<Done, Refusal> {
        let round = self.state.round();
        let given = round.and_then(|round| Some((round, round.answer(answer)?)));
        let Some((round, given)) = given else {
            return Err(Refusal::not_found("there is no such answer in the last round"));
        };
        if !given.dismissed {
            let item = round.slots[given.slot].task.id.clone();
            self.emit(EventKind::Dismissed { item, answer });
        }
        Ok(Done::Nothing)
    }

    /// Decides about what nobody has looked at, before a round is closed.
    pub(super) fn settle_review(&mut self, unreviewed: Unreviewed) -> Result<(), Refusal> {
        let round = self.open_round()?;
        let waiting: Vec<(Seq, String)> = (round.waiting.iter())
            .map(|seq| (*seq, round.slots[round.answers[seq].slot].task.id.clone()))
            .collect();
        match unreviewed {
            Unreviewed::Refuse if !waiting.is_empty() => {
                let message = format!(
                    "{} answers wait for review; say whether they are accepted or wait on",
                    waiting.len()
                );
                return Err(Refusal::conflict("unreviewed", message));
            }
            Unreviewed::Accept => {
                for (answer, item) in waiting {
                    self.emit(EventKind::Accepted { item, answer });
                }
            }
            Unreviewed::Refuse | Unreviewed::Keep => {}
        }
        Ok(())
    }
}

fn reviewed() -> Refusal {
    Refusal::conflict("reviewed", "somebody has looked at this answer already")
}
