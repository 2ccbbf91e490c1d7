//! Review: which answers are sampled for review, and its outcomes.

use sha2::{Digest, Sha256};

use super::{GivenAnswer, Round, State};
use crate::event::{Event, EventKind, PersonId, Role, Seq};

/// The review state of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Review {
    /// It is not sampled for review.
    NotWanted,
    /// It waits for review, and is not finished before.
    Waiting,
    /// A reviewer accepted it.
    Accepted(Option<PersonId>),
    /// A reviewer corrected it.
    Corrected(PersonId),
}

impl Review {
    /// Its name in the API.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Review::NotWanted => None,
            Review::Waiting => Some("waiting"),
            Review::Accepted(_) => Some("accepted"),
            Review::Corrected(_) => Some("corrected"),
        }
    }
}

impl State {
    /// Returns whether the answer of an event needs review. Leads are trusted.
    pub(super) fn wants_review(&self, event: &Event) -> bool {
        let EventKind::Answered { item, person, .. } = &event.kind else { return false };
        let leads = self.people.get(person).is_some_and(|person| person.role == Role::Lead);
        let Some(round) = self.round().filter(|_| !leads) else { return false };
        // Gold is scored against known answers instead.
        let is_gold = round.slot(item).is_some_and(|slot| slot.gold.is_some());
        !is_gold && round.is_sampled(item, self.review_share)
    }

    /// The answers of all rounds that wait for review by this person, the oldest first.
    pub(crate) fn to_review(&self, person: PersonId) -> Vec<Seq> {
        let waiting = self
            .rounds
            .iter()
            .flat_map(|round| round.waiting.iter().map(|seq| &round.answers[seq]));
        waiting.filter(|given| given.person != person).map(|given| given.seq).collect()
    }
}

impl Round {
    /// Returns whether answers about an item are sampled for review, for this share of all items. It depends on the item
    /// and on the tasks of the round: annotators cannot predict it, and all answers to an item are treated alike.
    pub(crate) fn is_sampled(&self, item: &str, share: f64) -> bool {
        let hash = Sha256::digest(format!("review {} {item}", self.fingerprint));
        let drawn = hash.iter().take(6).fold(0, |drawn, &byte| drawn << 8 | u64::from(byte));
        (drawn as f64) < share * (1u64 << 48) as f64
    }

    /// The standing answers that need no more review, without those to gold.
    pub(crate) fn finished(&self) -> impl Iterator<Item = &GivenAnswer> {
        let asked = |given: &&GivenAnswer| self.slots[given.slot].gold.is_none();
        self.standing().filter(asked).filter(|given| given.review != Review::Waiting)
    }

    pub(super) fn accept(&mut self, event: &Event, answer: Seq) {
        if let Some(given) = self.answers.get_mut(&answer) {
            given.review = Review::Accepted(event.by);
            self.waiting.remove(&answer);
            self.changed = event.tick;
            self.handed_over = false;
        }
    }
}
