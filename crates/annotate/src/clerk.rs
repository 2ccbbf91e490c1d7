//! The one who writes: acts are performed one after the other and stored many at a time.
//!
//! While a batch is being stored, the next one gathers, so that a hundred people cost one write to
//! the disk and not a hundred. Whoever asked hears of it when it is safe.

use std::sync::{Arc, RwLock, RwLockReadGuard};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::event::{Millis, PersonId};
use crate::refusal::{Error, Refusal};
use crate::state::{Act, Done, Record, State, Terms};
use crate::store::{Store, Unstored};

/// Acts that are stored together at most.
const TOGETHER: usize = 512;
/// Acts that wait at most; more are turned away.
const WAITING: usize = 4096;
/// After so long without an act it is time to see what others did.
const IDLE: Duration = Duration::from_secs(1);
/// How often another process may be faster before we give up.
const TRIES: usize = 20;

/// Something that somebody wants done, and how to tell them.
struct Order {
    by: Option<PersonId>,
    act: Act,
    at: Millis,
    reply: oneshot::Sender<Result<Done, Refusal>>,
}

/// The way to the one who writes.
#[derive(Clone)]
pub(crate) struct Clerk {
    orders: mpsc::Sender<Order>,
    state: Arc<RwLock<State>>,
}

impl Clerk {
    /// Reads everything that happened so far and begins to write.
    pub(crate) async fn start(store: Store, terms: Terms) -> Result<Self, Error> {
        let mut state = State::default();
        state.learn(store.news(0, 0).await?);
        let state = Arc::new(RwLock::new(state));
        let (orders, incoming) = mpsc::channel(WAITING);
        let desk = Desk {
            store,
            terms,
            state: Arc::clone(&state),
            stale: false,
            complaint: String::new(),
        };
        tokio::spawn(desk.work(incoming));
        Ok(Clerk { orders, state })
    }

    /// Does something, and returns when it is stored.
    pub(crate) async fn act(
        &self,
        by: Option<PersonId>,
        act: Act,
        at: Millis,
    ) -> Result<Done, Refusal> {
        let (reply, answer) = oneshot::channel();
        let order = Order { by, act, at, reply };
        let busy = || Refusal::unavailable("too much at once; try again");
        self.orders.try_send(order).map_err(|_| busy())?;
        answer.await.map_err(|_| Refusal::unavailable("the service is stopping"))?
    }

    /// What is known now.
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect("nothing panics while it changes the state")
    }

    /// Returns when nothing can be written any more, which is not to happen.
    pub(crate) async fn stopped(&self) {
        self.orders.closed().await;
    }

    /// Whether something can be written.
    pub(crate) fn works(&self) -> bool {
        !self.orders.is_closed()
    }

    /// How many acts wait.
    pub(crate) fn waiting(&self) -> usize {
        WAITING - self.orders.capacity()
    }
}

struct Desk {
    store: Store,
    terms: Terms,
    state: Arc<RwLock<State>>,
    /// The state may not be what is stored.
    stale: bool,
    /// What was last said about the database: once is enough.
    complaint: String,
}

impl Desk {
    async fn work(mut self, mut incoming: mpsc::Receiver<Order>) {
        let mut orders = Vec::with_capacity(TOGETHER);
        loop {
            let came = incoming.recv_many(&mut orders, TOGETHER);
            match tokio::time::timeout(IDLE, came).await {
                Ok(0) => break,
                Ok(_) => {
                    let done = self.perform(&orders).await;
                    for (order, done) in orders.drain(..).zip(done) {
                        // Somebody who is gone will ask again.
                        let _ = order.reply.send(done);
                    }
                }
                // Nothing to do: another process may have done something.
                Err(_) => drop(self.read().await),
            }
        }
    }

    /// Performs all orders and stores what happened.
    async fn perform(&mut self, orders: &[Order]) -> Vec<Result<Done, Refusal>> {
        for _ in 0..TRIES {
            if self.stale && self.read().await.is_err() {
                break;
            }
            let mut record = Record::default();
            let done: Vec<_> = {
                let mut state = self.state.write().expect("nobody panics while they read");
                let each = orders.iter().map(|order| {
                    let (by, act) = (order.by, order.act.clone());
                    state.perform((by, act), (self.terms, order.at), &mut record)
                });
                each.collect()
            };
            if record.is_empty() {
                return done;
            }
            match self.store.append(&record).await {
                Ok(()) => return done,
                Err(Unstored::Overtaken) => self.stale = true,
                Err(Unstored::Failed(what)) => {
                    self.complain(what);
                    self.stale = true;
                    break;
                }
            }
        }
        let refusal = Refusal::unavailable("the database does not answer; try again");
        orders.iter().map(|_| Err(refusal.clone())).collect()
    }

    /// Reads what happened meanwhile, or everything where the state may be wrong.
    async fn read(&mut self) -> Result<(), Error> {
        let (seq, round) = match self.stale {
            true => (0, 0),
            false => {
                let state = self.state.read().expect("nothing panics while it changes the state");
                (state.seq, state.round().map_or(0, |round| round.number))
            }
        };
        let news = self.store.news(seq, round).await;
        let news = news.inspect_err(|error| self.complain(error.to_string()))?;
        self.complaint.clear();
        let mut state = self.state.write().expect("nobody panics while they read");
        if self.stale {
            *state = State::default();
        }
        state.learn(news);
        self.stale = false;
        Ok(())
    }

    fn complain(&mut self, what: String) {
        if what != self.complaint {
            say!("the database failed: {what}");
            self.complaint = what;
        }
    }
}
