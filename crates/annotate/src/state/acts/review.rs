//! Acts of review.

use super::super::{KeyedAct, Review};
use super::tasks::StandingAnswer;
use super::{ActContext, ActResult, Unreviewed};
use crate::error::Refusal;
use crate::event::{EventKind, Role, Seq};

impl ActContext<'_> {
    /// A standing answer, for a person who may review it: a lead, or, while it waits for review, a reviewer other than its
    /// author. Review goes on after the round was closed.
    pub(super) fn judged(&self, answer: Seq) -> Result<StandingAnswer, Refusal> {
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

    pub(super) fn accept(&mut self, key: String, answer: Seq) -> Result<ActResult, Refusal> {
        if self.known(&key, KeyedAct::Accept(answer))?.is_none() {
            let StandingAnswer { item, given } = self.judged(answer)?;
            if given.review != Review::Waiting {
                return Err(reviewed());
            }
            self.emit_keyed(EventKind::Accepted { item, answer }, Some(key.into()));
        }
        Ok(ActResult::Number(answer))
    }

    /// Finds nothing wrong with an answer of the last round, which may be closed.
    pub(super) fn dismiss(&mut self, answer: Seq) -> Result<ActResult, Refusal> {
        let round = self.state.round();
        let given = round.and_then(|round| Some((round, round.answer(answer)?)));
        let Some((round, given)) = given else {
            return Err(Refusal::not_found("there is no such answer in the last round"));
        };
        if !given.dismissed {
            let item = round.slots[given.slot].task.id.clone();
            self.emit(EventKind::Dismissed { item, answer });
        }
        Ok(ActResult::Nothing)
    }

    /// Settles the answers that wait for review before a round is closed.
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
