//! Property tests: the rules hold whatever people do, in any order.

use std::collections::HashSet;
use std::sync::Arc;

use nextpair_data::queue::Task;
use proptest::prelude::*;

use super::acts::Record;
use super::{Act, State, Terms};
use crate::event::{GoldTask, Millis, Moment, PersonId, Role, Submission};

const PEOPLE: i64 = 4;
const TASKS: usize = 5;
const LEASE: Millis = 100;
const GOLD: &str = "item 4";

/// Something that a person tries, some time later.
#[derive(Clone, Debug)]
struct Step {
    by: PersonId,
    later: Millis,
    what: u8,
    number: usize,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (1..=PEOPLE, 0..60i64, 0..13u8, 0..40usize);
    let step = step.prop_map(|(by, later, what, number)| Step { by, later, what, number });
    proptest::collection::vec(step, 1..120)
}

fn task(at: usize) -> Arc<Task> {
    let task = Task { rank: at + 1, id: format!("item {at}"), score: 0.0, ..Task::default() };
    Arc::new(task)
}

/// The last item is gold, in the middle of the others.
fn gold() -> Vec<GoldTask> {
    let task = (*task(TASKS - 1)).clone();
    vec![GoldTask { at: 2, task, known: vec!["a star".into()] }]
}

/// The item that a person holds.
fn held(state: &State, person: PersonId) -> Option<String> {
    let round = state.round()?;
    let at = round.hands.get(&person)?.last()?;
    Some(round.slots[*at].task.id.clone())
}

fn act(step: &Step, state: &State) -> Act {
    let answers: Vec<i64> =
        state.rounds.iter().flat_map(|round| round.answers.keys().copied()).collect();
    let answer = answers.get(step.number % answers.len().max(1)).copied().unwrap_or(99);
    let item = format!("item {}", step.number % TASKS);
    let key = format!("key {}", step.number);
    match step.what {
        0..=1 => Act::Next,
        2..=4 => {
            // Mostly their current task, sometimes any other.
            let held = held(state, step.by).filter(|_| !step.number.is_multiple_of(4));
            let item = held.unwrap_or(item);
            let said = Submission::Captions(vec![format!("person {} about {item}", step.by)]);
            Act::Submit { key, item, said, accept: step.number.is_multiple_of(3) }
        }
        5 => Act::Undo { key, answer },
        6 => Act::Revise { key, answer, said: Submission::Captions(vec!["said better".into()]) },
        7 => Act::Return { key, answer, note: "again".into() },
        8 => Act::Renew { item },
        11 => Act::Accept { key, answer },
        9 => Act::Flag {
            key,
            item: held(state, step.by).unwrap_or(item),
            note: "what is it?".into(),
        },
        10 => {
            let flags: Vec<i64> = state.rounds[0].flags.keys().copied().collect();
            let flag = flags.get(step.number % flags.len().max(1)).copied().unwrap_or(99);
            Act::Resolve { key, flag, note: "a star".into() }
        }
        _ => Act::LetGo,
    }
}

proptest! {
    #[test]
    fn the_rules_hold(steps in steps(), annotators in 1..4usize) {
        let terms = Terms { captions: 1, annotators, lease: LEASE };
        let (mut state, mut now) = (State::default(), 1000);
        let mut record = Record::default();
        let mut perform = |state: &mut State, by, act, now| {
            let now = Moment { wall: now, tick: now };
            state.perform(by, act, terms, now, &mut record)
        };
        for name in ["lead", "ann", "ben", "cat"] {
            let role = match name {
                "lead" => Role::Lead,
                "cat" => Role::Reviewer,
                _ => Role::Annotator,
            };
            perform(&mut state, None, Act::Invite { name: name.into(), role }, now).unwrap();
        }
        perform(&mut state, None, Act::ReviewShare { share: 0.5 }, now).unwrap();
        let tasks = (0..TASKS - 1).map(task).collect();
        perform(&mut state, None, Act::Open { round: 1, fingerprint: "x".into(), tasks, gold: gold(), suggestions: Default::default() }, now).unwrap();
        for step in &steps {
            now += step.later;
            let before = state.clone();
            let act = act(step, &state);
            if perform(&mut state, Some(step.by), act.clone(), now).is_err() {
                prop_assert_eq!(&state, &before, "a refusal changes nothing");
            }
            let round = state.round().unwrap();
            let waits = |given: &&super::GivenAnswer| given.review == super::Review::Waiting;
            let waiting = round.standing_by_age().filter(waits).map(|given| given.seq);
            prop_assert!(waiting.eq(round.waiting.iter().copied()));
            let mut counted = 0;
            for slot in &round.slots {
                let authors: Vec<_> = slot.standing.iter().map(|seq| round.answers[seq].person).collect();
                let distinct: HashSet<_> = authors.iter().collect();
                prop_assert_eq!(distinct.len(), authors.len(), "nobody answers twice");
                let held: Vec<_> = slot.leases.iter().filter(|lease| lease.until > now).collect();
                prop_assert!(authors.len() + held.len() <= annotators, "{:?} after {:?}", slot, act);
                prop_assert!(held.iter().all(|lease| !authors.contains(&lease.person)));
                for seq in &slot.standing {
                    let (given, item) = (&round.answers[seq], &slot.task.id);
                    let own = format!("person {} about {item}", given.person);
                    let revised = Submission::Captions(vec!["said better".into()]);
                    prop_assert!(*given.said == Submission::Captions(vec![own]) || *given.said == revised);
                }
                counted += authors.len();
                let open = round.flags.values().filter(|flag| flag.resolved.is_none());
                let open = open.filter(|flag| round.slots[flag.slot].task.id == slot.task.id);
                prop_assert_eq!(open.count(), slot.flagged);
            }
            let total: usize = round.by_answers.iter().map(|(count, slots)| count * slots.len()).sum();
            prop_assert_eq!(total, counted);
        }
        // Replaying the events gives the same state.
        let mut again = State::default();
        prop_assert_eq!(state.round().unwrap().batch().tasks.len(), TASKS - 1);
        prop_assert!(state.said(state.round().unwrap()).iter().all(|answer| answer.id != GOLD));
        again.coming.insert(1, (0..TASKS - 1).map(task).collect());
        for event in &record.events {
            let body = serde_json::to_string(&event.kind).unwrap();
            prop_assert_eq!(&serde_json::from_str::<crate::event::EventKind>(&body).unwrap(), &event.kind);
            again.apply(event);
        }
        prop_assert_eq!(again, state);
    }
}
