//! The state as people see it.

use std::fmt;
use std::sync::Arc;

use nextpair_data::queue::{self, Outcome, Provenance, Task};
use serde::{Deserialize, Serialize};

use crate::gold::agreement;

use super::{AnswerStatus, GivenAnswer, Review, Round, Slot, State, Terms};
use crate::event::{Draft, Millis, Moment, PersonId, Role, Seq, Submission};

/// The task of a person, or the reason why there is none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NextView {
    pub(crate) task: Option<CurrentTask>,
    pub(crate) none: Option<&'static str>,
}

/// A task of a person.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CurrentTask {
    pub(crate) task: Arc<Task>,
    pub(crate) rank: usize,
    /// Wall time since 1970.
    pub(crate) lease_until: Millis,
    pub(crate) lease_ms: Millis,
    pub(crate) draft: Option<Draft>,
    pub(crate) note: Option<String>,
    pub(crate) suggestions: Arc<[String]>,
    /// What the lead said to a flag of this person.
    pub(crate) reply: Option<String>,
}

impl NextView {
    pub(crate) fn none(why: &'static str) -> Self {
        NextView { task: None, none: Some(why) }
    }
}

/// A person as others see them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PersonView {
    pub(crate) id: PersonId,
    pub(crate) name: String,
    pub(crate) role: Role,
}

/// A round in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct RoundView {
    pub(crate) number: i64,
    pub(crate) state: &'static str,
    pub(crate) tasks: usize,
    pub(crate) done: usize,
    /// When it was closed, if it was.
    pub(crate) closed_at: Option<Millis>,
    /// Whether its answers have gone where they belong.
    pub(crate) handed_over: bool,
}

/// How many tasks of a batch came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Outcomes {
    pub(crate) answered: usize,
    pub(crate) refused: usize,
    pub(crate) unreviewed: usize,
    pub(crate) unanswered: usize,
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcomes { answered, refused, unreviewed, unanswered } = self;
        write!(f, "{answered} answered, {refused} refused, {unanswered} back in the pool")?;
        match unreviewed {
            0 => Ok(()),
            _ => write!(f, ", {unreviewed} kept for review"),
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct AnswerView {
    pub(crate) answer: Seq,
    pub(crate) round: i64,
    pub(crate) item: String,
    pub(crate) said: Submission,
    pub(crate) person: PersonView,
    pub(crate) at: Millis,
    pub(crate) first_at: Millis,
    pub(crate) seconds: Option<f64>,
    pub(crate) state: &'static str,
    pub(crate) edited_by: Option<String>,
    pub(crate) note: Option<String>,
    pub(crate) provenance: Option<Provenance>,
    /// What came of the review. Annotators are not told which answers are looked at.
    pub(crate) review: Option<&'static str>,
    /// For an answer to gold: how well it agrees with what is known. Annotators are not told.
    pub(crate) gold: Option<f64>,
}

/// A filter of answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerFilter {
    pub(crate) limit: usize,
    pub(crate) before: Option<Seq>,
    pub(crate) person: Option<PersonId>,
    pub(crate) item: Option<String>,
    pub(crate) this_round: bool,
}

/// The progress of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TaskState {
    Open,
    Held,
    Done,
    Skipped,
}

/// A filter of the tasks in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueFilter {
    pub(crate) state: Option<TaskState>,
    pub(crate) offset: usize,
    pub(crate) limit: usize,
}

/// A task as the lead sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct QueueTask {
    pub(crate) item: String,
    pub(crate) rank: usize,
    pub(crate) score: f64,
    pub(crate) hits: Option<u32>,
    pub(crate) state: TaskState,
    pub(crate) holder: Option<String>,
    pub(crate) answers: usize,
    /// Whether its answer is known.
    pub(crate) gold: bool,
}

impl State {
    pub(crate) fn view_of(&self, id: PersonId) -> PersonView {
        let role = self.people.get(&id).map_or(Role::Annotator, |person| person.role);
        PersonView { id, name: self.name_of(id), role }
    }

    /// The task of a person, with their draft or last answer.
    pub(super) fn task_in_hand(
        &self,
        person: PersonId,
        at: usize,
        terms: Terms,
        now: Moment,
    ) -> NextView {
        let Some(round) = self.round() else { return NextView::none("no_round") };
        let slot = &round.slots[at];
        let before = round.taken_back(at, person);
        let note = before.and_then(|given| match &given.standing {
            AnswerStatus::Returned(note) => Some(note.clone()),
            _ => None,
        });
        let typed = self.drafts.get(&(person, slot.task.id.clone())).cloned();
        let task = CurrentTask {
            task: Arc::clone(&slot.task),
            rank: round.rank(at),
            lease_until: slot.lease_of(person).map_or(0, |lease| now.wall_of(lease.until)),
            lease_ms: terms.lease,
            draft: typed.or_else(|| before.map(|given| as_draft(&given.said))),
            note,
            suggestions: Arc::clone(&slot.suggested),
            reply: round.reply_to(at, person),
        };
        NextView { task: Some(task), none: None }
    }

    /// The numbers of a round.
    pub(crate) fn round_view(&self, round: &Round, terms: Terms) -> RoundView {
        let state = if round.is_open() { "open" } else { "closed" };
        let done = round.answered(terms.annotators);
        RoundView {
            number: round.number,
            state,
            tasks: round.slots.len(),
            done,
            closed_at: round.closed_at,
            handed_over: round.handed_over,
        }
    }

    /// Answers, the newest first.
    pub(crate) fn answers(&self, which: &AnswerFilter) -> Vec<AnswerView> {
        let last = self.round().map_or(0, |round| round.number);
        let rounds = self.rounds.iter().rev();
        let rounds = rounds.filter(|round| !which.this_round || round.number == last);
        let given = rounds.flat_map(|round| {
            let before = which.before.unwrap_or(Seq::MAX);
            round.answers.range(..before).rev().map(move |(_, given)| (round, given))
        });
        let wanted = given.filter(|(round, given)| {
            which.person.is_none_or(|person| given.person == person)
                && which.item.as_ref().is_none_or(|item| round.slots[given.slot].task.id == *item)
        });
        wanted.take(which.limit).map(|(round, given)| self.answer_view(round, given)).collect()
    }

    /// One answer.
    pub(crate) fn answer_of(&self, seq: Seq) -> Option<AnswerView> {
        self.answer(seq).map(|(round, given)| self.answer_view(round, given))
    }

    fn answer_view(&self, round: &Round, given: &GivenAnswer) -> AnswerView {
        let (state, note) = match &given.standing {
            AnswerStatus::Stands => ("stands", None),
            AnswerStatus::Undone => ("undone", None),
            AnswerStatus::Returned(note) => ("returned", Some(note.clone())),
            AnswerStatus::Replaced => ("replaced", None),
        };
        AnswerView {
            answer: given.seq,
            round: round.number,
            item: round.slots[given.slot].task.id.clone(),
            said: Submission::clone(&given.said),
            person: self.view_of(given.person),
            at: given.at,
            first_at: given.first_at,
            seconds: given.seconds,
            state,
            edited_by: given.edited_by.map(|by| self.name_of(by)),
            note,
            provenance: given.provenance_of_all(),
            review: given.review.name(),
            gold: round.slots[given.slot].gold.as_ref().map(|known| agreement(known, &given.said)),
        }
    }

    /// Tasks of the last round in the order of the queue, and the number of tasks in this state.
    pub(crate) fn queue(
        &self,
        page: QueueFilter,
        terms: Terms,
        now: Millis,
    ) -> (usize, Vec<QueueTask>) {
        let Some(round) = self.round() else { return (0, Vec::new()) };
        let slots = round.slots.iter().enumerate();
        let states = slots.map(|(at, slot)| ((at, slot), round.state_of(slot, terms, now)));
        let wanted: Vec<_> =
            states.filter(|(_, found)| page.state.is_none_or(|state| state == *found)).collect();
        let shown = |&((at, slot), state): &((usize, &Slot), TaskState)| {
            let holder = slot.leases.iter().find(|lease| lease.is_live(now));
            let Task { id, score, hits, .. } = &*slot.task;
            QueueTask {
                item: id.clone(),
                rank: round.rank(at),
                score: *score,
                hits: *hits,
                state,
                holder: holder.map(|lease| self.name_of(lease.person)),
                answers: slot.standing.len(),
                gold: slot.gold.is_some(),
            }
        };
        let tasks = wanted.iter().skip(page.offset).take(page.limit).map(shown).collect();
        (wanted.len(), tasks)
    }

    /// The finished answers of a round, by task, in the export format.
    pub(crate) fn said(&self, round: &Round) -> Vec<queue::Answer> {
        let answers = round.finished().flat_map(|given| {
            let said = match &*given.said {
                Submission::Captions(captions) => {
                    captions.iter().cloned().map(queue::AnswerContent::Caption).collect()
                }
                Submission::Image(image) => vec![queue::AnswerContent::Image(image.clone())],
                Submission::Skip(reason) => vec![queue::AnswerContent::Skip(reason.clone())],
            };
            let id = &round.slots[given.slot].task.id;
            let annotator = Some(self.name_of(given.person));
            said.into_iter().map(move |said| queue::Answer {
                id: id.clone(),
                annotator: annotator.clone(),
                provenance: match &said {
                    queue::AnswerContent::Caption(caption) => given.provenance(caption),
                    _ => None,
                },
                said,
            })
        });
        answers.collect()
    }
}

impl Round {
    /// What became of every slot so far.
    fn outcome_of_slots(&self) -> Vec<Outcome> {
        let mut outcomes = vec![Outcome::Unanswered; self.slots.len()];
        for given in self.standing_by_age() {
            let outcome = match (given.review, &*given.said) {
                (Review::Waiting, _) => Outcome::Unreviewed,
                (_, Submission::Skip(_)) => Outcome::Refused,
                _ => Outcome::Answered,
            };
            outcomes[given.slot] = outcomes[given.slot].min(outcome);
        }
        outcomes
    }

    /// The tasks of the batch, each with what became of it so far.
    pub(crate) fn outcomes_by_task(&self) -> impl Iterator<Item = (&Task, Outcome)> {
        let slots = self.slots.iter().zip(self.outcome_of_slots());
        let asked = slots.filter(|(slot, _)| slot.gold.is_none());
        asked.map(|(slot, outcome)| (&*slot.task, outcome))
    }

    /// The same in numbers.
    pub(crate) fn outcomes(&self) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for (_, outcome) in self.outcomes_by_task() {
            *match outcome {
                Outcome::Answered => &mut outcomes.answered,
                Outcome::Refused => &mut outcomes.refused,
                Outcome::Unreviewed => &mut outcomes.unreviewed,
                Outcome::Unanswered => &mut outcomes.unanswered,
            } += 1;
        }
        outcomes
    }

    pub(super) fn state_of(&self, slot: &Slot, terms: Terms, now: Millis) -> TaskState {
        let skips = |seq: &&Seq| matches!(*self.answers[*seq].said, Submission::Skip(_));
        slot.state(slot.standing.iter().filter(skips).count(), terms, now)
    }
}

impl Slot {
    /// The progress of the task, given the number of skips among its answers.
    pub(super) fn state(&self, skips: usize, terms: Terms, now: Millis) -> TaskState {
        if self.standing.len() >= terms.annotators {
            let all_skips = skips == self.standing.len();
            return if all_skips { TaskState::Skipped } else { TaskState::Done };
        }
        let held = self.leases.iter().any(|lease| lease.is_live(now));
        if held { TaskState::Held } else { TaskState::Open }
    }
}

/// Turns an answer into the draft of the next one.
fn as_draft(said: &Submission) -> Draft {
    match said {
        Submission::Captions(captions) => Draft { captions: captions.clone(), image: None },
        Submission::Image(image) => Draft { captions: Vec::new(), image: Some(image.clone()) },
        Submission::Skip(_) => Draft::default(),
    }
}
