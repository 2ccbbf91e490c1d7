//! Review: which answers somebody else is to look at, and what came of it.

use sha2::{Digest, Sha256};

use super::{GivenAnswer, Round, State};
use crate::event::{Event, EventKind, PersonId, Role, Seq};

/// Whether somebody else has looked at an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Review {
    /// Nobody is to look at it.
    NotWanted,
    /// It is not finished before somebody has.
    Waiting,
    /// Somebody found it good.
    Accepted(Option<PersonId>),
    /// Somebody said it better.
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
    /// Returns whether somebody is to look at the answer of an event. Leads are trusted.
    pub(super) fn wants_review(&self, event: &Event) -> bool {
        let EventKind::Answered { item, person, .. } = &event.kind else { return false };
        let leads = self.people.get(person).is_some_and(|person| person.role == Role::Lead);
        let Some(round) = self.round().filter(|_| !leads) else { return false };
        // What is known needs no second pair of eyes.
        let is_gold = round.slot(item).is_some_and(|slot| slot.gold.is_some());
        !is_gold && round.is_sampled(item, self.review_share)
    }

    /// The answers of all rounds that wait for somebody other than this person, the oldest first.
    pub(crate) fn to_review(&self, person: PersonId) -> Vec<Seq> {
        let waiting = self
            .rounds
            .iter()
            .flat_map(|round| round.waiting.iter().map(|seq| &round.answers[seq]));
        waiting.filter(|given| given.person != person).map(|given| given.seq).collect()
    }
}

impl Round {
    /// Returns whether answers about an item are to be reviewed, for this share of all items. It
    /// depends on the item and on the tasks of the round, so nobody can tell it from outside, and a
    /// second answer meets the same fate as the first.
    pub(crate) fn is_sampled(&self, item: &str, share: f64) -> bool {
        let hash = Sha256::digest(format!("review {} {item}", self.fingerprint));
        let drawn = hash.iter().take(6).fold(0, |drawn, &byte| drawn << 8 | u64::from(byte));
        (drawn as f64) < share * (1u64 << 48) as f64
    }

    /// The answers that stand and wait for nobody, without those to gold.
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
