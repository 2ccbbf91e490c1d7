//! The report of an experiment, served while it runs.
//!
//! A [`Server`] runs in any tokio program: the host gives the listener and a future that ends it. It looks at the
//! experiment when a browser asks, takes no lock, and writes nothing.
//!
//! ```no_run
//! # async fn host() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let options = nextpair::report::Options::default();
//! let server = nextpair::watch::Server::open(listener, "runs/mine".as_ref(), options)?;
//! let shutdown = async { /* a signal, a channel, a timer */ };
//! server.run(shutdown).await;
//! # Ok(())
//! # }
//! ```

mod live;

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use nextpair_annotate::answers_to;
use nextpair_annotate::connections::{Bounds, serve};
use nextpair_report::Options;
use tokio::net::TcpListener;

use live::Live;

/// Time limit after a shutdown for answering requests in progress.
const PATIENCE: Duration = Duration::from_secs(1);

/// Allow nothing. The page has a policy of its own, which lets in what it consists of.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

/// Headers of every response, unless it has its own.
const HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Why an experiment cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The experiment cannot be read, or the settings of the report are wrong.
    #[error(transparent)]
    Report(#[from] nextpair_report::Error),
    /// The listener has no address.
    #[error("the listener: {0}")]
    Listener(std::io::Error),
}

/// An experiment that can be read, at a listener whose connections are not served yet.
pub struct Server {
    live: Arc<Live>,
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Reads the experiment, which need not have begun to train.
    ///
    /// # Errors
    /// If there is no experiment, or it cannot be read.
    pub fn open(listener: TcpListener, experiment: &Path, options: Options) -> Result<Self, Error> {
        let address = listener.local_addr().map_err(Error::Listener)?;
        let live = Arc::new(Live::open(experiment, options)?);
        Ok(Server { live, listener, address })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` completes, and answers the requests in progress for a second more.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Server { live, listener, address } = self;
        let (told, drain) = tokio::sync::oneshot::channel();
        let shutdown = async {
            shutdown.await;
            let _ = told.send(());
        };
        let out_of_patience = async {
            // The sender is dropped unsent only with the serving future.
            let _ = drain.await;
            tokio::time::sleep(PATIENCE).await;
        };
        tokio::select! {
            () = serve(listener, router(live, address), Bounds::of_process(), shutdown) => {}
            () = out_of_patience => {}
        }
    }
}

fn router(live: Arc<Live>, address: SocketAddr) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/status", get(status))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there is nothing here\n") })
        .layer(from_fn_with_state(address, finish))
        .with_state(live)
}

/// Refuses foreign host names (DNS rebinding), and adds the headers to every response.
async fn finish(State(address): State<SocketAddr>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let mut response = if answers_to(address.ip(), host.unwrap_or_default()) {
        next.run(request).await
    } else {
        (StatusCode::FORBIDDEN, "this service does not answer to this name\n").into_response()
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// The report as it was made last.
async fn page(State(live): State<Arc<Live>>) -> Response {
    // Begins to make the first one.
    let looked = live.look().await;
    match (live.page().await, looked) {
        (Some(page), _) => {
            let policy = [(header::CONTENT_SECURITY_POLICY, page.policy.clone())];
            (policy, Html(page.html.clone())).into_response()
        }
        (None, Err(what)) => (StatusCode::INTERNAL_SERVER_ERROR, what + "\n").into_response(),
        (None, Ok(_)) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// What is going on.
async fn status(State(live): State<Arc<Live>>) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    match live.look().await {
        Ok(news) => (json, news.to_string()).into_response(),
        Err(what) => (StatusCode::INTERNAL_SERVER_ERROR, what + "\n").into_response(),
    }
}
