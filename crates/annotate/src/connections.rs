//! Connections: how many there may be, and how long somebody may say nothing on one.
//!
//! A connection takes a slot; there are as many as the process may have files open for. When all
//! are taken, whoever has waited longest without a request in progress makes room, so that people
//! who open connections and say nothing on them keep nobody out. Nothing waits without end: heads
//! of requests must be whole in some time (and an idle connection gets its next one in that time),
//! bodies are read under a deadline of their own (`routes/body.rs`, `uploads.rs`), and an answer
//! that nobody reads is given up.

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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::in_flight::held;
use write_timeout::WriteTimeout;

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Connections at once.
    pub(crate) connections: usize,
    /// How long the head of a request may take, from when one could come.
    pub(crate) head: Duration,
    /// How long a client may take nothing of an answer.
    pub(crate) stall: Duration,
}

/// Files that are open beside those of connections: the database, the log, the dataset.
const OTHER_FILES: u64 = 64;
/// A connection is a socket, and maybe a file that is sent or received.
const FILES: u64 = 2;
/// More connections than this are not of use to anybody.
const MOST: u64 = 1024;
/// With fewer, a page that opens six at a time is on its own.
const LEAST: u64 = 16;
/// Bytes that are buffered of a request or an answer.
const BUFFER: usize = 32 * 1024;
/// How long somebody who makes room may take to read what they got before.
const FAREWELL: Duration = Duration::from_millis(100);
/// A pause after the system refused a connection, for instance because too many files are open.
const PAUSE: Duration = Duration::from_millis(200);

impl Bounds {
    /// Those for this process.
    pub(crate) fn of_process() -> Self {
        Bounds {
            connections: connections(open_files()),
            head: Duration::from_secs(30),
            stall: Duration::from_secs(30),
        }
    }
}

/// The connections of a process that may have this many files open.
fn connections(files: Option<u64>) -> usize {
    let files = files.unwrap_or(1024).saturating_sub(OTHER_FILES);
    (files / FILES).clamp(LEAST, MOST) as usize
}

/// The files that this process may have open, where that is known and limited.
fn open_files() -> Option<u64> {
    #[cfg(unix)]
    return rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    #[cfg(not(unix))]
    None
}

/// Serves until `shutdown`, and then until every request that was begun is answered. Whoever drops
/// the future ends all connections.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    shutdown: impl Future<Output = ()>,
) {
    let slots = Arc::new(Semaphore::new(bounds.connections));
    let idle = Arc::new(Idle::default());
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
                place: Place::new(&idle),
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
    place: Arc<Place>,
    stopping: watch::Receiver<()>,
    _slot: OwnedSemaphorePermit,
}

impl Connection {
    async fn serve(mut self, stream: TcpStream) {
        // Answers are small and wait for nothing.
        let _ = stream.set_nodelay(true);
        let unsent = Arc::clone(&self.place.unsent);
        let io = TokioIo::new(WriteTimeout::new(stream, self.bounds.stall, unsent));
        let (router, peer, place) = (self.router.clone(), self.peer, Arc::clone(&self.place));
        let service = service_fn(move |mut request: Request<Incoming>| {
            let busy = Busy::new(&place);
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
        // What goes wrong between two requests concerns nobody; what goes wrong within one, its
        // client knows.
        tokio::select! {
            // First of all: a request that has come is begun before anybody is sent away.
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
        // A request that came in the last moment is answered, and what was answered is sent.
        let mut farewell = self.place.is_busy() || self.place.unsent.load(Ordering::Relaxed);
        while farewell {
            let ended = tokio::time::timeout(FAREWELL, connection.as_mut()).await;
            farewell = ended.is_err() && self.place.is_busy();
        }
    }
}

/// Connections without a request in progress.
#[derive(Default)]
struct Idle(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// Numbers places.
    last: u64,
    /// Whoever has waited longest comes first.
    places: BTreeMap<u64, Arc<Place>>,
    /// Connections that are to leave as soon as they are not busy any more.
    wanted: usize,
}

impl Idle {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().expect("nothing panics with it in hand")
    }

    /// Sends away whoever has waited longest, or, where everybody is busy, the next one who is not.
    fn make_room(&self) {
        let mut waiting = self.waiting();
        match waiting.places.pop_first() {
            Some((_, place)) => place.leave.notify_one(),
            None => waiting.wanted += 1,
        }
    }
}

/// The place of a connection among those that wait.
struct Place {
    idle: Arc<Idle>,
    /// Its number, while it waits.
    number: Mutex<Option<u64>>,
    /// Whether something of an answer is still to be sent.
    unsent: Arc<AtomicBool>,
    leave: Notify,
}

impl Place {
    fn new(idle: &Arc<Idle>) -> Arc<Self> {
        let (number, unsent, leave) = (Mutex::new(None), Arc::default(), Notify::new());
        let place = Arc::new(Place { idle: Arc::clone(idle), number, unsent, leave });
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

/// A request is in progress on a connection, until its answer is handed out.
struct Busy(Arc<Place>);

impl Busy {
    fn new(place: &Arc<Place>) -> Self {
        place.wait_no_more();
        Busy(Arc::clone(place))
    }
}

impl Drop for Busy {
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
