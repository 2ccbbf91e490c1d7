//! The single writer: it performs acts one after the other and stores many at a time.
//!
//! While one batch is being stored, the next one gathers, so that a hundred people cost one write
//! to the disk and not a hundred. An act is acknowledged, and becomes visible to everyone, only
//! when it is stored. The writer's own state is ahead of the visible one by the current batch. If
//! storing fails, the writer returns to the stored state.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::app::Clock;
use crate::error::{Error, Refusal};
use crate::event::{Millis, Moment, PersonId};
use crate::log::Log;
use crate::state::{Act, ActResult, Record, State, Terms};
use crate::store::{EventLog, Head, Store, StoreError, Updates};

/// Most acts stored together.
const LARGEST_BATCH: usize = 512;
/// Most acts that may wait; more are refused.
const LONGEST_QUEUE: usize = 4096;
/// An idle writer loads the acts of other processes this often.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Pause that lets other processes take a turn.
const TURN_PAUSE: Duration = Duration::from_millis(3);
/// A write this recent shows that the database is writable.
const RECENT: Millis = 1000;
/// Time limit for a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// An act to perform, and the channel for its outcome.
struct PendingAct {
    by: Option<PersonId>,
    act: Act,
    at: Moment,
    reply: oneshot::Sender<Result<ActResult, Refusal>>,
}

/// The handle of the writing task: takes acts, and shows the stored state.
#[derive(Clone)]
pub(crate) struct Writer {
    orders: mpsc::Sender<PendingAct>,
    state: Arc<RwLock<State>>,
    /// The tick of the last write.
    stored: Arc<AtomicI64>,
    /// Whether something could not be stored, and no event was stored since.
    failing: Arc<AtomicBool>,
    stop: Arc<Notify>,
    work: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Writer {
    /// Reads the whole history and starts the writing task.
    pub(crate) async fn start(
        store: &Store,
        terms: Terms,
        clock: Clock,
        log: Log,
    ) -> Result<Self, Error> {
        let (mut state, mut head) = (State::default(), Head::default());
        let now = clock();
        let mut events = store.event_log();
        loop {
            let updates = events.updates(&head).await.map_err(|error| store.error(&error))?;
            if updates.head == head {
                break;
            }
            head = updates.head.clone();
            state.learn(&with_ticks(updates, |at| now.tick_of(at)));
        }
        let (orders, incoming) = mpsc::channel(LONGEST_QUEUE);
        let (stored, stop) = (Arc::new(AtomicI64::new(Millis::MIN)), Arc::new(Notify::new()));
        let failing = Arc::new(AtomicBool::new(false));
        let ahead = state.clone();
        let state = Arc::new(RwLock::new(state));
        let write_loop = WriteLoop {
            events,
            log,
            terms,
            clock,
            state: Arc::clone(&state),
            ahead,
            head,
            read: now.tick,
            company: false,
            stored: Arc::clone(&stored),
            failing: Arc::clone(&failing),
            complaint: String::new(),
        };
        let work = tokio::spawn(write_loop.work(incoming, Arc::clone(&stop)));
        let work = Arc::new(Mutex::new(Some(work)));
        Ok(Writer { orders, state, stored, failing, stop, work })
    }

    /// Performs an act, and returns when it is stored.
    pub(crate) async fn act(
        &self,
        by: Option<PersonId>,
        act: Act,
        at: Moment,
    ) -> Result<ActResult, Refusal> {
        let (reply, answer) = oneshot::channel();
        let order = PendingAct { by, act, at, reply };
        let busy = || Refusal::unavailable("too much at once; try again");
        self.orders.try_send(order).map_err(|_| busy())?;
        answer.await.map_err(|_| Refusal::unavailable("the service is stopping"))?
    }

    /// The stored state, as far as this process knows it.
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect("nothing panics while it changes the state")
    }

    /// Completes when the writing task has ended, which must not happen before [`Self::close`].
    pub(crate) async fn stopped(&self) {
        self.orders.closed().await;
    }

    /// Returns whether events can be stored: tries a write, unless one has just succeeded. After a
    /// failure it tries to store an event, because a smaller write may succeed where answers do not.
    pub(crate) async fn works(&self, now: Moment) -> bool {
        let event = self.failing.load(Ordering::Relaxed);
        if !event && self.stored.load(Ordering::Relaxed) > now.tick - RECENT {
            return !self.orders.is_closed();
        }
        let probe = tokio::time::timeout(PROBE_TIMEOUT, self.act(None, Act::Probe { event }, now));
        matches!(probe.await, Ok(Ok(_)))
    }

    /// The number of waiting acts.
    pub(crate) fn waiting(&self) -> usize {
        LONGEST_QUEUE - self.orders.capacity()
    }

    /// Finishes the current batch and closes the database.
    pub(crate) async fn close(&self) {
        self.stop.notify_one();
        let work = self.work.lock().expect("nothing panics with it in hand").take();
        if let Some(work) = work {
            // Its errors were already reported.
            let _ = work.await;
        }
    }
}

/// The writing task.
struct WriteLoop {
    events: EventLog,
    log: Log,
    terms: Terms,
    clock: Clock,
    /// The stored state.
    state: Arc<RwLock<State>>,
    /// The stored state and, while a batch is decided, its changes.
    ahead: State,
    /// The last known event.
    head: Head,
    /// The tick at which events were last read.
    read: Millis,
    /// Whether another process has just written something.
    company: bool,
    stored: Arc<AtomicI64>,
    failing: Arc<AtomicBool>,
    /// The last failure logged, to log it only once.
    complaint: String,
}

impl WriteLoop {
    async fn work(mut self, mut incoming: mpsc::Receiver<PendingAct>, stop: Arc<Notify>) {
        let mut orders = Vec::with_capacity(LARGEST_BATCH);
        loop {
            let came =
                tokio::time::timeout(POLL_INTERVAL, incoming.recv_many(&mut orders, LARGEST_BATCH));
            let came = tokio::select! {
                came = came => came,
                () = stop.notified() => break,
            };
            match came {
                Ok(0) => break,
                Ok(_) => {
                    let done = self.perform(&orders).await;
                    for (order, done) in orders.drain(..).zip(done) {
                        // A disconnected client will retry.
                        let _ = order.reply.send(done);
                    }
                    if self.company {
                        // A process that waits for SQLite's lock polls it, so leave it some time.
                        tokio::time::sleep(TURN_PAUSE).await;
                    }
                }
                // Idle: another process may have written something.
                Err(_) => self.look().await,
            }
        }
        self.events.close().await;
    }

    /// Performs all orders and stores their events.
    async fn perform(&mut self, orders: &[PendingAct]) -> Vec<Result<ActResult, Refusal>> {
        let mut tried = self.try_perform(orders).await;
        if matches!(tried, Err(StoreError::Lost(_))) {
            // Restarting the database ends connections; the next one may work.
            tried = self.try_perform(orders).await;
        }
        match tried {
            Ok(done) => {
                self.complaint.clear();
                done
            }
            Err(error) => {
                self.failing.store(true, Ordering::Relaxed);
                self.complain(error.what());
                let refusal = Refusal::unavailable("nothing can be stored now; try again");
                orders.iter().map(|_| Err(refusal.clone())).collect()
            }
        }
    }

    async fn try_perform(
        &mut self,
        orders: &[PendingAct],
    ) -> Result<Vec<Result<ActResult, Refusal>>, StoreError> {
        let WriteLoop { events, ahead, terms, clock, head, read, .. } = self;
        let (mut done, mut learned, mut decided) = (Vec::new(), Record::default(), None);
        let turn = events.turn(head, |updates| {
            let now = clock();
            decided = Some(now.tick);
            let updates = with_ticks(updates, |at| now.tick_since(at, *read));
            ahead.learn(&updates);
            learned = updates;
            let mut record = Record::default();
            let each = orders.iter().map(|order| {
                ahead.perform(order.by, order.act.clone(), *terms, order.at, &mut record)
            });
            done = each.collect();
            record
        });
        match turn.await {
            Ok((head, record)) => {
                self.head = head;
                self.read = decided.unwrap_or(self.read);
                self.company = !learned.is_empty();
                if !record.events.is_empty() {
                    self.failing.store(false, Ordering::Relaxed);
                }
                if !record.is_empty() {
                    self.stored.store((self.clock)().tick, Ordering::Relaxed);
                }
                learned.add(record);
                self.publish(&learned);
                Ok(done)
            }
            Err(error) => {
                if decided.is_some() {
                    // Drop the old state first, so that two large ones are never in memory.
                    self.ahead = State::default();
                    let state =
                        self.state.read().expect("nothing panics while it changes the state");
                    self.ahead = state.clone();
                }
                Err(error)
            }
        }
    }

    /// Loads the acts of other processes.
    async fn look(&mut self) {
        loop {
            let updates = self.events.updates(&self.head).await;
            let now = (self.clock)();
            match updates {
                Ok(updates) if updates.head == self.head => {
                    self.read = now.tick;
                    return self.complaint.clear();
                }
                Ok(updates) => {
                    self.head = updates.head.clone();
                    let record = with_ticks(updates, |at| now.tick_since(at, self.read));
                    self.ahead.learn(&record);
                    self.publish(&record);
                }
                Err(error) => return self.complain(error.what()),
            }
        }
    }

    /// Makes a stored record visible to everyone.
    fn publish(&self, record: &Record) {
        self.state.write().expect("nobody panics while they read").learn(record);
    }

    fn complain(&mut self, what: &str) {
        if what != self.complaint {
            self.log.line(format_args!("the database failed: {what}"));
            self.complaint = what.to_owned();
        }
    }
}

/// The record of other processes, with the ticks of its events.
fn with_ticks(updates: Updates, tick: impl Fn(Millis) -> Millis) -> Record {
    let mut record = updates.record;
    for event in &mut record.events {
        event.tick = tick(event.at);
    }
    record
}
