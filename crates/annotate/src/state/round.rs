//! One round: its tasks, their leases and their answers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use nextpair_data::queue::{Provenance, Task, same_picks};

use crate::event::{Event, EventKind, GoldTask, Millis, PersonId, Seq, Submission};
use crate::source::Batch;
use crate::state::{Flag, Review};

/// Picks that people answer together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Round {
    /// Number of the round, from 1.
    pub(crate) number: i64,
    /// Fingerprint of its tasks.
    pub(crate) fingerprint: String,
    /// The tasks in the order of the queue.
    pub(crate) slots: Vec<Slot>,
    by_item: HashMap<String, usize>,
    has_gold: bool,
    /// All answers, whether or not they stand.
    pub(crate) answers: BTreeMap<Seq, GivenAnswer>,
    /// The slots leased by each person, the latest last.
    pub(super) hands: HashMap<PersonId, Vec<usize>>,
    /// Slots by their number of standing answers, so that those with room are found quickly.
    pub(super) by_answers: BTreeMap<usize, BTreeSet<usize>>,
    /// Standing answers that wait for review.
    pub(super) waiting: BTreeSet<Seq>,
    /// What people asked the lead, by the number of the event.
    pub(crate) flags: BTreeMap<Seq, Flag>,
    /// The tick of the last answer or withdrawal.
    pub(crate) changed: Millis,
    pub(crate) closed: bool,
    /// When it was closed, in wall time.
    pub(crate) closed_at: Option<Millis>,
    /// Whether the source has all finished answers.
    pub(crate) handed_over: bool,
    /// Whether the run continued without these answers.
    pub(crate) overtaken: bool,
}

/// A task with its leases and answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slot {
    pub(crate) task: Arc<Task>,
    /// Current and expired leases. Expired ones stay until another person takes the task, so that a
    /// person who returns late to an untouched task is not turned away.
    pub(crate) leases: Vec<Lease>,
    /// All answers, the oldest first.
    pub(crate) said: Vec<Seq>,
    /// The answers that stand.
    pub(crate) standing: Vec<Seq>,
    /// Captions that a program wrote, to be accepted or changed by people.
    pub(crate) suggested: Arc<[String]>,
    /// The number of flags that wait for the lead.
    pub(super) flagged: usize,
    /// The known answers of a gold task. It is no task of the batch.
    pub(crate) gold: Option<Arc<[String]>>,
}

/// The reservation of a task for a person, in ticks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lease {
    pub(crate) person: PersonId,
    pub(crate) since: Millis,
    pub(crate) until: Millis,
    /// Whether it began because an answer was returned, even if its author has not seen that.
    pub(crate) returned: bool,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GivenAnswer {
    pub(crate) seq: Seq,
    /// The index of the task.
    pub(crate) slot: usize,
    /// The author.
    pub(crate) person: PersonId,
    /// The lead who changed its words, if any.
    pub(crate) edited_by: Option<PersonId>,
    pub(crate) at: Millis,
    /// The time of the first answer in the chain of replaced ones that ends with this.
    pub(crate) first_at: Millis,
    /// The tick of that time.
    pub(crate) first_tick: Millis,
    pub(crate) seconds: Option<f64>,
    pub(crate) said: Arc<Submission>,
    /// What was suggested when it was given.
    pub(crate) suggested: Arc<[String]>,
    pub(crate) standing: AnswerStatus,
    pub(crate) review: Review,
    /// Whether a lead found nothing wrong with it, however odd it looks.
    pub(crate) dismissed: bool,
}

/// Whether an answer counts, and if not, why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AnswerStatus {
    Stands,
    /// Withdrawn by its author.
    Undone,
    /// Returned by a lead, with this note.
    Returned(String),
    /// Another answer replaced it.
    Replaced,
}

impl GivenAnswer {
    /// The provenance of a caption: what its author made of the suggestion; `None` without one.
    pub(crate) fn provenance(&self, caption: &str) -> Option<Provenance> {
        match () {
            () if self.suggested.is_empty() => None,
            () if is_suggested(&self.suggested, caption) => Some(Provenance::Accepted),
            () => Some(Provenance::Edited),
        }
    }

    /// The same for the whole answer: edited if one caption is.
    pub(crate) fn provenance_of_all(&self) -> Option<Provenance> {
        let Submission::Captions(captions) = &*self.said else { return None };
        let mut each = captions.iter().map(|caption| self.provenance(caption));
        let all_accepted = each.all(|one| one == Some(Provenance::Accepted));
        let nothing = self.suggested.is_empty();
        let all = if all_accepted { Provenance::Accepted } else { Provenance::Edited };
        (!nothing).then_some(all)
    }
}

/// Returns whether a caption is one that was suggested.
pub(crate) fn is_suggested(suggested: &[String], caption: &str) -> bool {
    suggested.iter().any(|other| other.trim() == caption.trim())
}

impl Lease {
    pub(crate) fn is_live(&self, now: Millis) -> bool {
        self.until > now
    }
}

impl Slot {
    pub(crate) fn lease_of(&self, person: PersonId) -> Option<&Lease> {
        self.leases.iter().find(|lease| lease.person == person)
    }

    /// The number of other people who hold a lease on it.
    pub(crate) fn held_by_others(&self, person: PersonId, now: Millis) -> usize {
        let held = |lease: &&Lease| lease.person != person && lease.is_live(now);
        self.leases.iter().filter(held).count()
    }
}

impl Round {
    pub(crate) fn new(
        number: i64,
        fingerprint: String,
        tasks: Vec<Arc<Task>>,
        gold: Vec<GoldTask>,
        tick: Millis,
    ) -> Self {
        let nothing: Arc<[String]> = Arc::from([]);
        let slot = |task| Slot {
            task,
            leases: Vec::new(),
            said: Vec::new(),
            standing: Vec::new(),
            suggested: Arc::clone(&nothing),
            flagged: 0,
            gold: None,
        };
        let mut slots: Vec<Slot> = tasks.into_iter().map(slot).collect();
        let has_gold = !gold.is_empty();
        for GoldTask { at, task, known } in gold {
            let slot = slot(Arc::new(task));
            slots.insert(at.min(slots.len()), Slot { gold: Some(known.into()), ..slot });
        }
        let named = slots.iter().enumerate().map(|(at, slot)| (slot.task.id.clone(), at));
        Round {
            number,
            fingerprint,
            by_item: named.collect(),
            has_gold,
            answers: BTreeMap::new(),
            flags: BTreeMap::new(),
            waiting: BTreeSet::new(),
            hands: HashMap::new(),
            by_answers: BTreeMap::from([(0, (0..slots.len()).collect())]),
            slots,
            changed: tick,
            closed: false,
            closed_at: None,
            handed_over: false,
            overtaken: false,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.closed
    }

    pub(crate) fn position(&self, item: &str) -> Option<usize> {
        self.by_item.get(item).copied()
    }

    pub(crate) fn slot(&self, item: &str) -> Option<&Slot> {
        self.position(item).map(|at| &self.slots[at])
    }

    pub(crate) fn answer(&self, seq: Seq) -> Option<&GivenAnswer> {
        self.answers.get(&seq)
    }

    /// The answers that stand, by task.
    pub(crate) fn standing(&self) -> impl Iterator<Item = &GivenAnswer> {
        self.slots.iter().flat_map(|slot| &slot.standing).map(|seq| &self.answers[seq])
    }

    /// The answers that stand, the oldest first. Cheaper than by task: nothing is looked up.
    pub(crate) fn standing_by_age(&self) -> impl DoubleEndedIterator<Item = &GivenAnswer> {
        self.answers.values().filter(|given| given.standing == AnswerStatus::Stands)
    }

    /// Returns whether every task has all wanted answers.
    pub(crate) fn is_complete(&self, wanted: usize) -> bool {
        self.answered(wanted) == self.slots.len()
    }

    /// The number of tasks with at least this many answers.
    pub(crate) fn answered(&self, at_least: usize) -> usize {
        self.by_answers.range(at_least..).map(|(_, slots)| slots.len()).sum()
    }

    /// The leased task that a person may answer: the latest, if there are several.
    pub(crate) fn in_hand(&self, person: PersonId, wanted: usize, now: Millis) -> Option<usize> {
        self.kept(person, now).find(|&at| self.may_answer(at, person, wanted, now))
    }

    /// The tasks leased by a person, whether or not they may answer them, the latest first.
    pub(crate) fn kept(&self, person: PersonId, now: Millis) -> impl Iterator<Item = usize> {
        let hand = self.hands.get(&person).into_iter().flatten().rev().copied();
        let live = move |at: &usize| {
            self.slots[*at].lease_of(person).is_some_and(|lease| lease.is_live(now))
        };
        hand.filter(live)
    }

    /// Returns whether a person holds a task that has room for their answer. If more people hold it
    /// than are wanted, because the wanted number was lowered, the first ones may answer.
    pub(crate) fn may_answer(
        &self,
        at: usize,
        person: PersonId,
        wanted: usize,
        now: Millis,
    ) -> bool {
        let slot = &self.slots[at];
        let Some(own) = slot.lease_of(person) else { return false };
        let before = |lease: &&Lease| {
            let first = !own.is_live(now) || (lease.since, lease.person) < (own.since, person);
            lease.person != person && lease.is_live(now) && first
        };
        slot.standing.len() + slot.leases.iter().filter(before).count() < wanted
    }

    /// Returns whether the round is closed and not handed over yet.
    pub(crate) fn waits_for_hand_over(&self) -> bool {
        !self.is_open() && !self.handed_over
    }

    /// The tasks of the batch: all but the gold.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.gold.is_none())
    }

    /// Returns whether these are the tasks of the batch.
    pub(crate) fn is_about(&self, tasks: &[Arc<Task>]) -> bool {
        same_picks(self.asked().map(|slot| &*slot.task), tasks.iter().map(|task| &**task))
    }

    /// The rank of a task. Where gold is mixed in, it is the place in the queue.
    pub(crate) fn rank(&self, at: usize) -> usize {
        if self.has_gold { at + 1 } else { self.slots[at].task.rank }
    }

    /// The batch that the round was opened with.
    pub(crate) fn batch(&self) -> Batch {
        let tasks = self.asked().map(|slot| Task::clone(&slot.task)).collect();
        Batch { round: self.number as usize, tasks }
    }

    /// The most wanted task that a person could take: not answered by them, and with fewer answers
    /// and leases than wanted.
    pub(crate) fn free(&self, person: PersonId, wanted: usize, now: Millis) -> Option<usize> {
        // Search each of the few sets from its front, and take the best rank over all answer
        // counts.
        let first = |(answers, slots): (&usize, &BTreeSet<usize>)| {
            let free = |&&at: &&usize| {
                let slot = &self.slots[at];
                answers + slot.held_by_others(person, now) < wanted
                    && !self.has_answered(slot, person)
                    && slot.flagged == 0
            };
            slots.iter().find(free).copied()
        };
        self.by_answers.range(..wanted).filter_map(first).min()
    }

    pub(crate) fn has_answered(&self, slot: &Slot, person: PersonId) -> bool {
        slot.standing.iter().any(|seq| self.answers[seq].person == person)
    }

    /// The last answer of a person to a task, if it was withdrawn or returned.
    pub(crate) fn taken_back(&self, at: usize, person: PersonId) -> Option<&GivenAnswer> {
        let mut said = self.slots[at].said.iter().rev().map(|seq| &self.answers[seq]);
        let last = said.find(|given| given.person == person)?;
        match last.standing {
            AnswerStatus::Undone | AnswerStatus::Returned(_) => Some(last),
            AnswerStatus::Stands | AnswerStatus::Replaced => None,
        }
    }

    /// Applies an event of this round. `looked_at` says whether its answer needs review.
    pub(crate) fn apply(&mut self, event: &Event, looked_at: bool) {
        match &event.kind {
            EventKind::Leased { item, person, until } => {
                if let Some(at) = self.position(item) {
                    self.lease(at, lease(event, *person, *until));
                }
            }
            EventKind::LetGo { item, person } => {
                if let Some(at) = self.position(item) {
                    self.let_go(at, *person);
                }
            }
            EventKind::Suggested { item, captions } => {
                if let Some(at) = self.position(item) {
                    self.slots[at].suggested = captions.clone().into();
                }
            }
            EventKind::Answered { item, person, said, seconds, replaces } => {
                let Some(at) = self.position(item) else { return };
                let old = replaces.and_then(|old| self.answers.get(&old));
                let first = old.map(|old| (old.first_at, old.first_tick));
                let (first_at, first_tick) = first.unwrap_or((event.at, event.tick));
                if let Some(old) = replaces {
                    self.fall(*old, AnswerStatus::Replaced);
                }
                let edited_by = event.by.filter(|by| by != person);
                let review = match edited_by {
                    Some(by) => Review::Corrected(by),
                    None if looked_at => Review::Waiting,
                    None => Review::NotWanted,
                };
                if review == Review::Waiting {
                    self.waiting.insert(event.seq);
                }
                let given = GivenAnswer {
                    seq: event.seq,
                    slot: at,
                    person: *person,
                    edited_by,
                    at: event.at,
                    first_at,
                    first_tick,
                    seconds: *seconds,
                    said: Arc::clone(said),
                    suggested: Arc::clone(&self.slots[at].suggested),
                    standing: AnswerStatus::Stands,
                    review,
                    dismissed: false,
                };
                self.answers.insert(event.seq, given);
                self.slots[at].said.push(event.seq);
                self.recount(at, |standing| standing.push(event.seq));
                self.let_go(at, *person);
                self.changed = event.tick;
                self.handed_over = false;
            }
            EventKind::Dismissed { answer, .. } => {
                if let Some(given) = self.answers.get_mut(answer) {
                    given.dismissed = true;
                }
            }
            EventKind::Accepted { answer, .. } => self.accept(event, *answer),
            EventKind::Flagged { item, person, note } => {
                if let Some(at) = self.position(item) {
                    self.raise_flag(event, at, *person, note);
                }
            }
            EventKind::Resolved { flag, note, until, .. } => {
                self.resolve_flag(event, *flag, note, *until);
            }
            EventKind::Undone { answer, .. } => {
                self.fall(*answer, AnswerStatus::Undone);
                self.changed = event.tick;
            }
            EventKind::Returned { answer, note, until, .. } => {
                if let Some((at, person)) = self.fall(*answer, AnswerStatus::Returned(note.clone()))
                {
                    let lease = lease(event, person, *until);
                    self.lease(at, Lease { returned: true, ..lease });
                }
                self.changed = event.tick;
            }
            _ => {}
        }
    }

    /// Begins a lease, or extends the one of the same person.
    pub(super) fn lease(&mut self, at: usize, new: Lease) {
        let (person, now) = (new.person, new.since);
        let leases = &mut self.slots[at].leases;
        match leases.iter_mut().find(|lease| lease.person == person) {
            Some(lease) => {
                // A person who returns after the lease expired starts anew.
                if !lease.is_live(now) {
                    lease.since = now;
                }
                lease.until = new.until;
            }
            None => {
                leases.retain(|lease| lease.is_live(now));
                leases.push(new);
            }
        }
        let hand = self.hands.entry(person).or_default();
        if hand.last() != Some(&at) {
            hand.retain(|&other| other != at);
            hand.push(at);
        }
    }

    pub(super) fn let_go(&mut self, at: usize, person: PersonId) {
        self.slots[at].leases.retain(|lease| lease.person != person);
        if let Some(hand) = self.hands.get_mut(&person) {
            hand.retain(|&other| other != at);
        }
    }

    /// Makes an answer not stand any more. Returns its task and its author.
    fn fall(&mut self, answer: Seq, standing: AnswerStatus) -> Option<(usize, PersonId)> {
        let given = self.answers.get_mut(&answer)?;
        given.standing = standing;
        self.waiting.remove(&answer);
        let (at, person) = (given.slot, given.person);
        self.recount(at, |standing| standing.retain(|&seq| seq != answer));
        Some((at, person))
    }

    fn recount(&mut self, at: usize, change: impl FnOnce(&mut Vec<Seq>)) {
        let standing = &mut self.slots[at].standing;
        let before = standing.len();
        change(standing);
        let after = standing.len();
        if before != after {
            if let Some(slots) = self.by_answers.get_mut(&before) {
                slots.remove(&at);
            }
            self.by_answers.entry(after).or_default().insert(at);
        }
    }
}

/// The lease that begins with an event and lasts until that time, in ticks.
pub(super) fn lease(event: &Event, person: PersonId, until: Millis) -> Lease {
    let until = event.tick + (until - event.at);
    Lease { person, since: event.tick, until, returned: false }
}
