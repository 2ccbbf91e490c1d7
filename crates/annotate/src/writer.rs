//! The single writer: it performs acts one after the other and stores many at a time.
//!
//! While a batch is being stored, the next one gathers, so that a hundred people cost one write to
//! the disk and not a hundred. Whoever asked hears of it when it is safe, and so does everybody
//! else: people see the state as it is stored, the writer's own is ahead of it by the batch in
//! hand. Where storing fails, the writer goes back to the stored state.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::app::Clock;
use crate::error::{Error, Refusal};
use crate::event::{Millis, Moment, PersonId};
use crate::log::Log;
use crate::state::{Act, Done, Record, State, Terms};
use crate::store::{EventLog, Head, News, Store, StoreError};

/// Acts that are stored together at most.
const TOGETHER: usize = 512;
/// Acts that wait at most; more are turned away.
const WAITING: usize = 4096;
/// After so long without an act it is time to see what others did.
const IDLE: Duration = Duration::from_secs(1);
/// How long others are left to take a turn.
const ROOM: Duration = Duration::from_millis(3);
/// A write this recent shows that the database can be written to.
const LATELY: Millis = 1000;
/// How long a probe may take.
const PROBE: Duration = Duration::from_secs(5);

/// An act that somebody wants performed, and the channel to tell them.
struct Order {
    by: Option<PersonId>,
    act: Act,
    at: Moment,
    reply: oneshot::Sender<Result<Done, Refusal>>,
}

/// The handle of the writing task: takes acts, and shows the state as it is stored.
#[derive(Clone)]
pub(crate) struct Writer {
    orders: mpsc::Sender<Order>,
    state: Arc<RwLock<State>>,
    /// The tick of the last time that something was stored.
    stored: Arc<AtomicI64>,
    stop: Arc<Notify>,
    work: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Writer {
    /// Reads everything that happened so far and begins to write.
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
            let news = events.news(&head).await.map_err(|error| store.error(&error))?;
            if news.head == head {
                break;
            }
            head = news.head.clone();
            state.learn(&with_ticks(news, |at| now.tick_of(at)));
        }
        let (orders, incoming) = mpsc::channel(WAITING);
        let (stored, stop) = (Arc::new(AtomicI64::new(Millis::MIN)), Arc::new(Notify::new()));
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
            complaint: String::new(),
        };
        let work = tokio::spawn(write_loop.work(incoming, Arc::clone(&stop)));
        Ok(Writer { orders, state, stored, stop, work: Arc::new(Mutex::new(Some(work))) })
    }

    /// Performs an act, and returns when it is stored.
    pub(crate) async fn act(
        &self,
        by: Option<PersonId>,
        act: Act,
        at: Moment,
    ) -> Result<Done, Refusal> {
        let (reply, answer) = oneshot::channel();
        let order = Order { by, act, at, reply };
        let busy = || Refusal::unavailable("too much at once; try again");
        self.orders.try_send(order).map_err(|_| busy())?;
        answer.await.map_err(|_| Refusal::unavailable("the service is stopping"))?
    }

    /// The state as it is stored, as far as it is known here.
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect("nothing panics while it changes the state")
    }

    /// Completes when the writing task has ended, which must not happen before [`Self::close`].
    pub(crate) async fn stopped(&self) {
        self.orders.closed().await;
    }

    /// Whether the database can be written to: tries it, unless something was stored just now.
    pub(crate) async fn works(&self, now: Moment) -> bool {
        if self.stored.load(Ordering::Relaxed) > now.tick - LATELY {
            return !self.orders.is_closed();
        }
        let probe = tokio::time::timeout(PROBE, self.act(None, Act::Probe, now));
        matches!(probe.await, Ok(Ok(_)))
    }

    /// The number of acts that wait.
    pub(crate) fn waiting(&self) -> usize {
        WAITING - self.orders.capacity()
    }

    /// Finishes the batch in hand and lets go of the database.
    pub(crate) async fn close(&self) {
        self.stop.notify_one();
        let work = self.work.lock().expect("nothing panics with it in hand").take();
        if let Some(work) = work {
            // Whether it ended well was said before.
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
    /// The state as it is stored.
    state: Arc<RwLock<State>>,
    /// The same and, while a batch is decided, what it adds.
    ahead: State,
    /// The last event that is known.
    head: Head,
    /// The tick at which events were last read.
    read: Millis,
    /// Another process has just written something.
    company: bool,
    stored: Arc<AtomicI64>,
    /// The last failure that was logged: once is enough.
    complaint: String,
}

impl WriteLoop {
    async fn work(mut self, mut incoming: mpsc::Receiver<Order>, stop: Arc<Notify>) {
        let mut orders = Vec::with_capacity(TOGETHER);
        loop {
            let came = tokio::time::timeout(IDLE, incoming.recv_many(&mut orders, TOGETHER));
            let came = tokio::select! {
                came = came => came,
                () = stop.notified() => break,
            };
            match came {
                Ok(0) => break,
                Ok(_) => {
                    let done = self.perform(&orders).await;
                    for (order, done) in orders.drain(..).zip(done) {
                        // Somebody who is gone will ask again.
                        let _ = order.reply.send(done);
                    }
                    if self.company {
                        // Whoever waits for the lock of SQLite asks now and then, not all the time.
                        tokio::time::sleep(ROOM).await;
                    }
                }
                // Nothing to do: another process may have done something.
                Err(_) => self.look().await,
            }
        }
        self.events.close().await;
    }

    /// Performs all orders and stores what happened.
    async fn perform(&mut self, orders: &[Order]) -> Vec<Result<Done, Refusal>> {
        let mut tried = self.try_perform(orders).await;
        if matches!(tried, Err(StoreError::Lost(_))) {
            // A connection ends when the database is started anew; the next one may be better.
            tried = self.try_perform(orders).await;
        }
        match tried {
            Ok(done) => {
                self.complaint.clear();
                done
            }
            Err(error) => {
                self.complain(error.what());
                let refusal = Refusal::unavailable("nothing can be stored now; try again");
                orders.iter().map(|_| Err(refusal.clone())).collect()
            }
        }
    }

    async fn try_perform(
        &mut self,
        orders: &[Order],
    ) -> Result<Vec<Result<Done, Refusal>>, StoreError> {
        let WriteLoop { events, ahead, terms, clock, head, read, .. } = self;
        let (mut done, mut learned, mut decided) = (Vec::new(), Record::default(), None);
        let turn = events.turn(head, |news| {
            let now = clock();
            decided = Some(now.tick);
            let news = with_ticks(news, |at| now.tick_since(at, *read));
            ahead.learn(&news);
            learned = news;
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
                if !record.is_empty() {
                    self.stored.store((self.clock)().tick, Ordering::Relaxed);
                }
                learned.add(record);
                self.publish(&learned);
                Ok(done)
            }
            Err(error) => {
                if decided.is_some() {
                    // Not two of them at a time: there may be much.
                    self.ahead = State::default();
                    let state =
                        self.state.read().expect("nothing panics while it changes the state");
                    self.ahead = state.clone();
                }
                Err(error)
            }
        }
    }

    /// Learns of the acts of other processes.
    async fn look(&mut self) {
        loop {
            let news = self.events.news(&self.head).await;
            let now = (self.clock)();
            match news {
                Ok(news) if news.head == self.head => {
                    self.read = now.tick;
                    return self.complaint.clear();
                }
                Ok(news) => {
                    self.head = news.head.clone();
                    let record = with_ticks(news, |at| now.tick_since(at, self.read));
                    self.ahead.learn(&record);
                    self.publish(&record);
                }
                Err(error) => return self.complain(error.what()),
            }
        }
    }

    /// Shows everybody what is stored.
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

/// The record of other processes, with the ticks at which its events happened.
fn with_ticks(news: News, tick: impl Fn(Millis) -> Millis) -> Record {
    let mut record = news.record;
    for event in &mut record.events {
        event.tick = tick(event.at);
    }
    record
}
