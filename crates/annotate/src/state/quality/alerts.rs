//! Answers that look odd: too fast, copied, nearly the same as others, wrong about gold.

use std::collections::HashMap;

use nextpair_data::queue::Provenance;

use super::{Alert, ComparedAnswer};
use crate::event::{PersonId, Submission};
use crate::word_overlap::{word_overlap, words};

/// Shortest plausible time to look and decide, in seconds.
const LOOK_SECONDS: f64 = 1.0;
/// Highest plausible typing speed, looking and thinking included.
const LETTERS_PER_SECOND: f64 = 20.0;
/// Shorter captions are the same by chance.
const FEWEST_WORDS: usize = 4;
/// Share of common words at which two captions say nearly the same.
const ALIKE: f64 = 0.85;
/// An answer to gold that agrees less with the known one is wrong, or about something else.
const WRONG_AGREEMENT: f64 = 0.1;

/// The alerts about answers, the newest first. One answer may have several.
pub(super) fn alerts(answers: &[ComparedAnswer]) -> Vec<Alert> {
    let mut alerts = Vec::new();
    let mut said: HashMap<&[String], &ComparedAnswer> = HashMap::new();
    let mut by_person: HashMap<PersonId, Vec<&ComparedAnswer>> = HashMap::new();
    for given in answers {
        let own = !given.edited && given.provenance != Some(Provenance::Accepted);
        let before = by_person.entry(given.person).or_default();
        let mut found = Vec::new();
        found.extend(too_fast(given));
        found.extend(wrong_gold(given));
        if own {
            let copy = copied(given, &said);
            found.extend(copy.or_else(|| nearly_the_same(given, before)));
        }
        for (kind, message, of) in found.into_iter().filter(|_| !given.dismissed) {
            alerts.push(Alert {
                kind,
                answer: given.seq,
                item: given.task.id.clone(),
                said: Submission::clone(&given.said),
                person: given.person,
                message,
                of,
            });
        }
        if own {
            before.push(given);
            for words in given.words.iter().filter(|words| words.len() >= FEWEST_WORDS) {
                said.entry(words).or_insert(given);
            }
        }
    }
    alerts.reverse();
    alerts
}

type Suspicion = (&'static str, String, Option<i64>);

fn too_fast(given: &ComparedAnswer) -> Option<Suspicion> {
    let seconds = given.seconds.filter(|_| !given.edited)?;
    let letters = match &*given.said {
        Submission::Captions(_) if given.provenance == Some(Provenance::Accepted) => 0,
        Submission::Captions(captions) => {
            captions.iter().map(|caption| caption.chars().count()).sum()
        }
        Submission::Image(_) => 0,
        // A reason is a key away.
        Submission::Skip(_) => return None,
    };
    let least = LOOK_SECONDS + letters as f64 / LETTERS_PER_SECOND;
    let message = match letters {
        0 => format!("decided in {seconds:.1} s"),
        _ => format!("{letters} letters in {seconds:.1} s"),
    };
    (seconds < least).then_some(("fast", message, None))
}

fn wrong_gold(given: &ComparedAnswer) -> Option<Suspicion> {
    let score = given.gold.filter(|score| *score < WRONG_AGREEMENT)?;
    let message = format!("agrees with the known answer by {:.0} %", 100.0 * score);
    Some(("gold", message, None))
}

/// The words of an answer to another item, or of a caption that it was to be told apart from.
fn copied(given: &ComparedAnswer, said: &HashMap<&[String], &ComparedAnswer>) -> Option<Suspicion> {
    for own in given.words.iter().filter(|words| words.len() >= FEWEST_WORDS) {
        if given
            .task
            .why
            .iter()
            .filter_map(|why| why.caption.as_deref())
            .any(|caption| words(caption) == *own)
        {
            let message = "the words of a caption that it was to be told apart from".to_owned();
            return Some(("copied", message, None));
        }
        let Some(other) = said.get(own.as_slice()) else { continue };
        if other.task.id != given.task.id {
            let whose = if other.person == given.person { "their own" } else { "somebody else's" };
            let message = format!("the words of {whose} answer about {}", other.task.id);
            return Some(("copied", message, Some(other.seq)));
        }
    }
    None
}

/// Nearly the words of an earlier answer of the same person to another item.
fn nearly_the_same(given: &ComparedAnswer, before: &[&ComparedAnswer]) -> Option<Suspicion> {
    let long = given.words.iter().filter(|words| words.len() >= FEWEST_WORDS);
    let pairs = long.flat_map(|own| {
        let earlier = before.iter().rev().filter(|other| other.task.id != given.task.id);
        earlier.flat_map(move |other| other.words.iter().map(move |words| (own, *other, words)))
    });
    // Texts of very different lengths cannot share that many words: do not count them.
    let near = |(own, _, words): &(&Vec<String>, &ComparedAnswer, &Vec<String>)| {
        let (short, long) = (own.len().min(words.len()), own.len().max(words.len()));
        2.0 * short as f64 >= ALIKE * (short + long) as f64 && word_overlap(own, words) >= ALIKE
    };
    let (_, other, _) = pairs.into_iter().find(near)?;
    let message = format!("nearly the words of their own answer about {}", other.task.id);
    Some(("alike", message, Some(other.seq)))
}
