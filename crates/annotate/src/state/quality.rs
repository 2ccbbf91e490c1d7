//! The quality of answers: alerts about odd ones, and numbers about each person.
//!
//! [`State::evidence`] copies its inputs, so that the comparisons do not block requests.

mod alerts;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nextpair_data::queue::{Provenance, Task};
use serde::Serialize;

use super::views::PersonView;
use super::{AnswerStatus, Person, Review, Round, State};
use crate::event::{PersonId, Seq, Submission};
use crate::gold::agreement;
use crate::word_overlap::{word_overlap, words};

/// Only this many latest answers are compared with each other.
const COMPARED: usize = 1000;

/// A copy of what quality is computed from: the answers of the last round, and counts by person.
#[derive(Debug)]
pub(crate) struct Evidence {
    /// The number of the last event.
    pub(crate) seq: Seq,
    /// The latest standing answers, the oldest first.
    answers: Vec<ComparedAnswer>,
    people: Vec<(PersonView, Counts)>,
}

/// An answer that stands.
#[derive(Debug)]
pub(crate) struct ComparedAnswer {
    seq: Seq,
    task: Arc<Task>,
    person: PersonId,
    said: Arc<Submission>,
    /// The words of each caption.
    words: Vec<Vec<String>>,
    seconds: Option<f64>,
    /// Whether a lead or a reviewer wrote it: such answers raise no alerts.
    edited: bool,
    provenance: Option<Provenance>,
    gold: Option<f64>,
    dismissed: bool,
}

/// Counts over all rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Counts {
    gold_answers: usize,
    gold_score: Option<f64>,
    reviewed: usize,
    corrected: usize,
    returned: usize,
    suggestions_accepted: usize,
    suggestions_edited: usize,
}

/// An answer that looks odd.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Alert {
    pub(crate) kind: &'static str,
    pub(crate) answer: Seq,
    pub(crate) item: String,
    pub(crate) said: Submission,
    pub(crate) person: PersonId,
    pub(crate) message: String,
    /// The answer that it is like.
    pub(crate) of: Option<Seq>,
}

/// The numbers of one person.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PersonQuality {
    pub(crate) person: PersonView,
    /// Items of the last round that others answered as well.
    shared_items: usize,
    /// The mean overlap of the words with those of others about the same items.
    agreement: Option<f64>,
    alerts: usize,
    #[serde(flatten)]
    counts: Counts,
}

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quality {
    pub(crate) alerts: Vec<Alert>,
    pub(crate) people: Vec<PersonQuality>,
}

impl State {
    /// Copies what the quality is computed from.
    pub(crate) fn evidence(&self) -> Evidence {
        let given = |round: &Round| {
            let mut latest: Vec<ComparedAnswer> = round
                .standing_by_age()
                .rev()
                .take(COMPARED)
                .map(|given| {
                    let slot = &round.slots[given.slot];
                    let captions = match &*given.said {
                        Submission::Captions(captions) => &captions[..],
                        _ => &[],
                    };
                    ComparedAnswer {
                        seq: given.seq,
                        task: Arc::clone(&slot.task),
                        person: given.person,
                        said: Arc::clone(&given.said),
                        words: captions.iter().map(|caption| words(caption)).collect(),
                        seconds: given.seconds,
                        edited: given.edited_by.is_some(),
                        provenance: given.provenance_of_all(),
                        gold: slot.gold.as_ref().map(|known| agreement(known, &given.said)),
                        dismissed: given.dismissed,
                    }
                })
                .collect();
            latest.reverse();
            latest
        };
        let people = self.people.values().filter(|person| !person.removed);
        let mut counts = self.counts();
        let people = people
            .map(|Person { id, .. }| (self.view_of(*id), counts.remove(id).unwrap_or_default()));
        let (people, answers) = (people.collect(), self.round().map(given).unwrap_or_default());
        Evidence { seq: self.seq, answers, people }
    }

    fn counts(&self) -> HashMap<PersonId, Counts> {
        let mut of: HashMap<PersonId, Counts> = HashMap::new();
        let mut gold: HashMap<PersonId, f64> = HashMap::new();
        for (round, given) in self
            .rounds
            .iter()
            .flat_map(|round| round.answers.values().map(move |given| (round, given)))
        {
            let counts = of.entry(given.person).or_default();
            match given.standing {
                AnswerStatus::Returned(_) => counts.returned += 1,
                AnswerStatus::Stands => {
                    match given.review {
                        Review::Accepted(_) => counts.reviewed += 1,
                        Review::Corrected(_) => {
                            counts.reviewed += 1;
                            counts.corrected += 1;
                        }
                        Review::NotWanted | Review::Waiting => {}
                    }
                    match given.provenance_of_all() {
                        Some(Provenance::Accepted) => counts.suggestions_accepted += 1,
                        Some(Provenance::Edited) => counts.suggestions_edited += 1,
                        None => {}
                    }
                    if let Some(known) = &round.slots[given.slot].gold {
                        counts.gold_answers += 1;
                        let total = gold.entry(given.person).or_default();
                        *total += agreement(known, &given.said);
                        counts.gold_score = Some(*total / counts.gold_answers as f64);
                    }
                }
                AnswerStatus::Undone | AnswerStatus::Replaced => {}
            }
        }
        of
    }
}

/// Compares the answers with each other.
pub(crate) fn quality(evidence: &Evidence) -> Quality {
    let alerts = alerts::alerts(&evidence.answers);
    let mut of_item: BTreeMap<&str, Vec<&ComparedAnswer>> = BTreeMap::new();
    for given in &evidence.answers {
        of_item.entry(&given.task.id).or_default().push(given);
    }
    let mut overlaps: HashMap<PersonId, (usize, Vec<f64>)> = HashMap::new();
    for given in &evidence.answers {
        // Accepted suggestions do not count as agreement.
        let own = |given: &ComparedAnswer| given.provenance != Some(Provenance::Accepted);
        let others = of_item[given.task.id.as_str()].iter();
        let others: Vec<_> =
            others.filter(|other| other.person != given.person && own(other)).collect();
        if others.is_empty() || !own(given) {
            continue;
        }
        let (items, found) = overlaps.entry(given.person).or_default();
        *items += 1;
        let pairs = others.iter().flat_map(|other| {
            given.words.iter().flat_map(|one| other.words.iter().map(move |two| (one, two)))
        });
        found.extend(pairs.map(|(one, two)| word_overlap(one, two)));
    }
    let people = evidence.people.iter().map(|(person, counts)| {
        let (shared_items, found) = overlaps.remove(&person.id).unwrap_or_default();
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        PersonQuality {
            person: person.clone(),
            shared_items,
            agreement: (!found.is_empty()).then_some(mean),
            alerts: alerts.iter().filter(|alert| alert.person == person.id).count(),
            counts: *counts,
        }
    });
    Quality { people: people.collect(), alerts }
}
