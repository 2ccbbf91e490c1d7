//! The one who writes: acts are performed one after the other and stored many at a time.
//!
//! While a batch is being stored, the next one gathers, so that a hundred people cost one write to
//! the disk and not a hundred. Whoever asked hears of it when it is safe.

use std::sync::{Arc, RwLock, RwLockReadGuard};

use tokio::sync::{mpsc, oneshot};

use crate::event::{Millis, PersonId};
use crate::refusal::{Error, Refusal};
use crate::state::{Act, Done, Record, State, Terms};
use crate::store::{Store, Unstored};

/// Acts that are stored together at most.
const TOGETHER: usize = 512;
/// Acts that wait at most; more are turned away.
const WAITING: usize = 4096;
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
        store.catch_up(&mut state).await?;
        let state = Arc::new(RwLock::new(state));
        let (orders, incoming) = mpsc::channel(WAITING);
        let desk = Desk { store, terms, state: Arc::clone(&state), stale: false };
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
}

impl Desk {
    async fn work(mut self, mut incoming: mpsc::Receiver<Order>) {
        let mut orders = Vec::with_capacity(TOGETHER);
        while incoming.recv_many(&mut orders, TOGETHER).await > 0 {
            let done = self.perform(&orders).await;
            for (order, done) in orders.drain(..).zip(done) {
                // Somebody who is gone will ask again.
                let _ = order.reply.send(done);
            }
        }
    }

    /// Performs all orders and stores what happened.
    async fn perform(&mut self, orders: &[Order]) -> Vec<Result<Done, Refusal>> {
        for _ in 0..TRIES {
            if self.stale && !self.read_again().await {
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
                    eprintln!("the database failed: {what}");
                    self.stale = true;
                    break;
                }
            }
        }
        let refusal = Refusal::unavailable("the database does not answer; try again");
        orders.iter().map(|_| Err(refusal.clone())).collect()
    }

    /// Forgets what may not be stored.
    async fn read_again(&mut self) -> bool {
        let mut fresh = State::default();
        match self.store.catch_up(&mut fresh).await {
            Ok(()) => {
                *self.state.write().expect("nobody panics while they read") = fresh;
                self.stale = false;
                true
            }
            Err(error) => {
                eprintln!("the database failed: {error}");
                false
            }
        }
    }
}
