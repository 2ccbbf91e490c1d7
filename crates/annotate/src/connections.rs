//! Connections: their number, and their timeouts. Any router can be served with them.
//!
//! A connection takes a slot; the limit on open files determines how many there are. When all are
//! taken, the connection that has been idle longest is closed, so that clients who open connections
//! and send nothing do not lock others out. Every wait has a limit: the head of a request must arrive in
//! time (which also limits how long a connection may be idle), bodies have a deadline of their own
//! (`routes/extract.rs`, `uploads.rs`), and a response that the client does not read is given up.

mod write_timeout;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nextpair_data::system;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::in_flight::held;
use write_timeout::WriteTimeout;

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most connections at once.
    pub connections: usize,
    /// Time limit for the head of a request, counted from when one could arrive.
    pub head: Duration,
    /// How long a client may go without reading any of a response.
    pub stall: Duration,
}

/// Open files besides those of connections: the database, the log, the dataset.
const OTHER_FILES: u64 = 64;
/// Files per connection: a socket, and perhaps a file that is sent or received.
const FILES: u64 = 2;
/// More connections than this are useless.
const MOST_CONNECTIONS: u64 = 1024;
/// With fewer, a single page that opens six at a time takes a large part of them.
const FEWEST_CONNECTIONS: u64 = 16;
/// Buffer size in bytes for a request or a response.
const BUFFER: usize = 32 * 1024;
/// Grace period: a connection that is closed to make room may send what it has answered.
const CLOSE_GRACE: Duration = Duration::from_millis(100);
/// Pause after the system refused a connection, for instance because too many files are open.
const PAUSE: Duration = Duration::from_millis(200);

impl Bounds {
    /// The limits of this process.
    pub fn of_process() -> Self {
        Bounds {
            connections: connections(system::open_files()),
            head: Duration::from_secs(30),
            stall: Duration::from_secs(30),
        }
    }
}

/// The number of connections for a limit on open files.
fn connections(files: Option<u64>) -> usize {
    let files = files.unwrap_or(1024).saturating_sub(OTHER_FILES);
    (files / FILES).clamp(FEWEST_CONNECTIONS, MOST_CONNECTIONS) as usize
}

/// Serves until `shutdown` completes, and then until every request in progress is answered.
/// Dropping the future closes all connections.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    shutdown: impl Future<Output = ()>,
) {
    let slots = Arc::new(Semaphore::new(bounds.connections));
    let idle = Arc::new(IdleConnections::default());
    let (stop, stopping) = watch::channel(());
    // Dropped with this future, and with it every connection.
    let mut connections = JoinSet::new();
    let accept = async {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(_) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let slot = match Arc::clone(&slots).try_acquire_owned() {
                Ok(slot) => slot,
                Err(_) => {
                    idle.make_room();
                    let slot = Arc::clone(&slots).acquire_owned().await;
                    idle.waiting().wanted = 0;
                    slot.expect("the slots are never closed")
                }
            };
            let connection = Connection {
                router: router.clone(),
                peer,
                bounds,
                place: IdlePlace::new(&idle),
                stopping: stopping.clone(),
                _slot: slot,
            };
            while connections.try_join_next().is_some() {}
            connections.spawn(connection.serve(stream));
        }
    };
    tokio::select! {
        () = accept => {}
        () = shutdown => {}
    }
    drop(listener);
    let _ = stop.send(());
    while connections.join_next().await.is_some() {}
}

/// One connection.
struct Connection {
    router: Router,
    peer: SocketAddr,
    bounds: Bounds,
    place: Arc<IdlePlace>,
    stopping: watch::Receiver<()>,
    _slot: OwnedSemaphorePermit,
}

impl Connection {
    async fn serve(mut self, stream: TcpStream) {
        // Responses are small and should not be delayed.
        let _ = stream.set_nodelay(true);
        let unsent = Arc::clone(&self.place.unsent);
        let io = TokioIo::new(WriteTimeout::new(stream, self.bounds.stall, unsent));
        let (router, peer, place) = (self.router.clone(), self.peer, Arc::clone(&self.place));
        let service = service_fn(move |mut request: Request<Incoming>| {
            let busy = RequestGuard::new(&place);
            request.extensions_mut().insert(ConnectInfo(peer));
            let answer = TowerToHyperService::new(router.clone()).call(request.map(Body::new));
            async move {
                let response: Response<Body> = answer.await?;
                Ok::<_, Infallible>(response.map(|body| held(body, busy)))
            }
        });
        let mut builder = http1::Builder::new();
        let builder = builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.bounds.head)
            .max_buf_size(BUFFER);
        let mut connection = pin!(builder.serve_connection(io, service));
        // An error between two requests is harmless; one within a request shows at its client.
        tokio::select! {
            // This branch comes first: a request that has arrived starts before the connection is
            // closed.
            biased;
            _ = connection.as_mut() => return,
            _ = self.stopping.changed() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
                return;
            }
            () = self.place.leave.notified() => {}
        }
        connection.as_mut().graceful_shutdown();
        // Answer a request that arrived at the last moment, and send what was answered.
        let mut farewell = self.place.is_busy() || self.place.unsent.load(Ordering::Relaxed);
        while farewell {
            let ended = tokio::time::timeout(CLOSE_GRACE, connection.as_mut()).await;
            farewell = ended.is_err() && self.place.is_busy();
        }
    }
}

/// Connections without a request in progress.
#[derive(Default)]
struct IdleConnections(Mutex<IdleQueue>);

#[derive(Default)]
struct IdleQueue {
    /// The last number given to a place.
    last: u64,
    /// Idle connections, the longest idle first.
    places: BTreeMap<u64, Arc<IdlePlace>>,
    /// Number of connections to close as soon as they become idle.
    wanted: usize,
}

impl IdleConnections {
    fn waiting(&self) -> MutexGuard<'_, IdleQueue> {
        self.0.lock().expect("nothing panics with it in hand")
    }

    /// Closes the connection that has been idle longest or, if all are busy, the next to become
    /// idle.
    fn make_room(&self) {
        let mut waiting = self.waiting();
        match waiting.places.pop_first() {
            Some((_, place)) => place.leave.notify_one(),
            None => waiting.wanted += 1,
        }
    }
}

/// A connection's entry in the queue of idle ones.
struct IdlePlace {
    idle: Arc<IdleConnections>,
    /// Its number while it is idle.
    number: Mutex<Option<u64>>,
    /// Whether part of a response is still to be sent.
    unsent: Arc<AtomicBool>,
    leave: Notify,
}

impl IdlePlace {
    fn new(idle: &Arc<IdleConnections>) -> Arc<Self> {
        let (number, unsent, leave) = (Mutex::new(None), Arc::default(), Notify::new());
        let place = Arc::new(IdlePlace { idle: Arc::clone(idle), number, unsent, leave });
        place.wait();
        place
    }

    fn number(&self) -> MutexGuard<'_, Option<u64>> {
        self.number.lock().expect("nothing panics with it in hand")
    }

    fn is_busy(&self) -> bool {
        self.number().is_none()
    }

    fn wait(self: &Arc<Self>) {
        let mut waiting = self.idle.waiting();
        waiting.last += 1;
        let number = waiting.last;
        *self.number() = Some(number);
        match waiting.wanted.checked_sub(1) {
            Some(less) => {
                waiting.wanted = less;
                self.leave.notify_one();
            }
            None => drop(waiting.places.insert(number, Arc::clone(self))),
        }
    }

    fn wait_no_more(&self) {
        let number = self.number().take();
        if let Some(number) = number {
            self.idle.waiting().places.remove(&number);
        }
    }
}

/// Marks a request in progress on a connection, until its response is sent.
struct RequestGuard(Arc<IdlePlace>);

impl RequestGuard {
    fn new(place: &Arc<IdlePlace>) -> Self {
        place.wait_no_more();
        RequestGuard(Arc::clone(place))
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.wait();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.place.wait_no_more();
    }
}

#[cfg(test)]
mod tests;
