//! Progress in numbers, for the lead.

use std::collections::HashMap;

use serde::Serialize;

use super::views::{Outcomes, PersonView, RoundView};
use super::{GivenAnswer, LinkView, Person, Round, State, TaskState, Terms};
use crate::event::{Millis, Moment, PersonId, Seq, Submission};
use crate::word_overlap::{word_overlap, words};

/// Period over which the rate is computed.
const RATE_WINDOW: Millis = 15 * 60 * 1000;
/// Shortest period for a meaningful rate.
const SHORTEST_WINDOW: Millis = 10 * 1000;
/// Agreement covers only this many latest items, because it is computed again and again.
const COMPARED: usize = 1000;

/// Progress in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Overview {
    round: Option<RoundView>,
    rounds: Vec<RoundView>,
    paused: bool,
    tasks: usize,
    done: usize,
    skipped: usize,
    held: usize,
    open: usize,
    /// Of the tasks of the batch, what they would come to if the round were closed now.
    outcomes: Outcomes,
    answers: usize,
    captions: usize,
    per_hour: Option<f64>,
    eta_seconds: Option<f64>,
    price: Option<f64>,
    cost: Option<f64>,
    pub(crate) people: Vec<PersonProgress>,
    agreement: Agreement,
    /// Whether no round comes after this one.
    pub(crate) finished: bool,
    /// Flags that wait for the lead.
    flags: usize,
    /// The share of answers to review, and how many of all rounds wait for that.
    review_share: f64,
    waiting: usize,
    /// Of the tasks: those whose answers are known.
    gold: usize,
    closes_at: Option<Millis>,
    close_by_itself: bool,
}

/// A person at work in the last round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PersonProgress {
    pub(crate) person: PersonView,
    /// The links that sign in, without their tokens: one person must not see the tokens of others.
    links: Vec<LinkView>,
    answered: usize,
    skipped: usize,
    returned: usize,
    captions: usize,
    median_seconds: Option<f64>,
    holds: Option<String>,
    pub(crate) last_seen: Option<Millis>,
}

/// The agreement between the answers of different people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Agreement {
    items: usize,
    word_overlap: Option<f64>,
    split_skips: usize,
}

impl State {
    /// The tick at which the last round closes by itself: some time after it became complete,
    /// unless a person withdraws an answer, or something waits for the lead or for review.
    pub(crate) fn closes_at(&self, terms: Terms, grace: Millis) -> Option<Millis> {
        let round = self.round().filter(|round| round.is_open() && !self.paused)?;
        let settled = round.is_complete(terms.annotators)
            && round.open_flags() == 0
            && round.waiting.is_empty();
        settled.then_some(round.changed + grace)
    }

    /// The overview of the last round.
    pub(crate) fn overview(&self, terms: Terms, grace: Option<Millis>, now: Moment) -> Overview {
        let round = self.round();
        let closes_at = grace.and_then(|grace| self.closes_at(terms, grace));
        // This runs every other second and blocks storing, so it looks up no answers.
        let given: Vec<&GivenAnswer> = round.into_iter().flat_map(Round::standing_by_age).collect();
        let mut skips = vec![0; round.map_or(0, |round| round.slots.len())];
        for given in given.iter().filter(|given| matches!(*given.said, Submission::Skip(_))) {
            skips[given.slot] += 1;
        }
        let mut counts = [0; 4];
        let slots = round.into_iter().flat_map(|round| &round.slots);
        for (slot, skips) in slots.zip(skips) {
            counts[slot.state(skips, terms, now.tick) as usize] += 1;
        }
        let of = |state: TaskState| counts[state as usize];
        let left = round.map_or(0, |round| {
            let wanted = |slot: &super::Slot| terms.annotators.saturating_sub(slot.standing.len());
            round.slots.iter().map(wanted).sum::<usize>()
        });
        let per_hour = rate(&given, now.tick);
        let all = self.rounds.iter().flat_map(Round::standing_by_age);
        let bought: usize = all.map(|given| given.said.captions()).sum();
        Overview {
            round: round.map(|round| self.round_view(round, terms)),
            rounds: self.rounds.iter().map(|round| self.round_view(round, terms)).collect(),
            paused: self.paused,
            tasks: round.map_or(0, |round| round.slots.len()),
            done: of(TaskState::Done) + of(TaskState::Skipped),
            skipped: of(TaskState::Skipped),
            held: of(TaskState::Held),
            open: of(TaskState::Open),
            outcomes: round.map(Round::outcomes).unwrap_or_default(),
            answers: given.len(),
            captions: given.iter().map(|given| given.said.captions()).sum(),
            per_hour,
            eta_seconds: per_hour.map(|rate| left as f64 * 3600.0 / rate),
            price: self.price,
            cost: self.price.map(|price| price * bought as f64),
            people: self.at_work(now),
            agreement: round.map(agreement).unwrap_or_default(),
            finished: false,
            flags: round.map_or(0, Round::open_flags),
            review_share: self.review_share,
            gold: round.map_or(0, |round| round.slots.len() - round.asked().count()),
            waiting: self.rounds.iter().map(|round| round.waiting.len()).sum(),
            closes_at: closes_at.map(|tick| now.wall_of(tick)),
            close_by_itself: grace.is_some(),
        }
    }

    fn at_work(&self, now: Moment) -> Vec<PersonProgress> {
        let round = self.round();
        let mut of: HashMap<PersonId, Vec<&GivenAnswer>> = HashMap::new();
        for given in round.into_iter().flat_map(|round| round.answers.values()) {
            of.entry(given.person).or_default().push(given);
        }
        let at_work = |somebody: &Person| {
            let id = somebody.id;
            let said = of.remove(&id).unwrap_or_default();
            let stands = |given: &&&GivenAnswer| given.standing == super::AnswerStatus::Stands;
            let standing: Vec<&&GivenAnswer> = said.iter().filter(stands).collect();
            let skips = |given: &&&GivenAnswer| matches!(*given.said, Submission::Skip(_));
            let returned =
                |given: &&&GivenAnswer| matches!(given.standing, super::AnswerStatus::Returned(_));
            let skipped = standing.iter().filter(|given| skips(given)).count();
            let holds = round.and_then(|round| {
                let at = round.is_open().then(|| round.kept(id, now.tick).next()).flatten()?;
                Some(round.slots[at].task.id.clone())
            });
            PersonProgress {
                person: self.view_of(id),
                links: somebody.links(now.wall).collect(),
                answered: standing.len() - skipped,
                skipped,
                returned: said.iter().filter(returned).count(),
                captions: standing.iter().map(|given| given.said.captions()).sum(),
                median_seconds: median(standing.iter().filter_map(|given| given.seconds)),
                holds,
                last_seen: None,
            }
        };
        let people = self.people.values().filter(|person| !person.removed);
        people.map(at_work).collect()
    }
}

/// Recent answers per hour.
fn rate(given: &[&GivenAnswer], now: Millis) -> Option<f64> {
    let first = given.iter().map(|given| given.first_tick).min()?;
    let since = first.max(now - RATE_WINDOW);
    let late = given.iter().filter(|given| given.first_tick >= since).count();
    // The clock starts at the first answer, so that answer itself does not count.
    let (late, time) = if since == first { (late - 1, now - first) } else { (late, RATE_WINDOW) };
    (time >= SHORTEST_WINDOW && late > 0).then(|| late as f64 * 3_600_000.0 / time as f64)
}

fn median(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(numbers[middle]),
        _ => Some((numbers[middle - 1] + numbers[middle]) / 2.0),
    }
}

fn agreement(round: &Round) -> Agreement {
    let mut latest: Vec<&[Seq]> = round.slots.iter().map(|slot| &slot.standing[..]).collect();
    latest.retain(|standing| standing.len() > 1);
    latest.sort_by_key(|standing| standing.iter().max().copied());
    let mut found = Agreement { items: latest.len(), ..Agreement::default() };
    let mut overlaps = Vec::new();
    for standing in latest.iter().rev().take(COMPARED) {
        let said: Vec<Vec<Vec<String>>> =
            standing.iter().map(|seq| texts(&round.answers[seq].said)).collect();
        let skips = said.iter().filter(|texts| texts.is_empty()).count();
        found.split_skips += usize::from(skips > 0 && skips < said.len());
        for (at, one) in said.iter().enumerate() {
            for other in &said[at + 1..] {
                overlaps.extend(one.iter().flat_map(|a| other.iter().map(|b| word_overlap(a, b))));
            }
        }
    }
    if !overlaps.is_empty() {
        found.word_overlap = Some(overlaps.iter().sum::<f64>() / overlaps.len() as f64);
    }
    found
}

/// The words of an answer; an image counts as one word.
fn texts(said: &Submission) -> Vec<Vec<String>> {
    match said {
        Submission::Captions(captions) => captions.iter().map(|caption| words(caption)).collect(),
        Submission::Image(image) => vec![vec![image.clone()]],
        Submission::Skip(_) => Vec::new(),
    }
}
