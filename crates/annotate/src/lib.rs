//! The annotation app: picks go to people with the reasons they were picked for, answers come back.
//!
//! What happened is a list of events (`event.rs`) in a database (`store.rs`), written by one clerk
//! (`clerk.rs`) who stores many acts at a time; what is known is what the events add up to
//! (`state.rs`). `connections.rs` accepts, `routes.rs` is the table of addresses, `access.rs` says who may, `keeper.rs` opens
//! rounds, closes them and hands their answers over to the [`Source`] that the picks came from.
#![forbid(unsafe_code)]

#[macro_use]
mod log;

mod access;
mod app;
mod clerk;
mod connections;
mod event;
mod flight;
mod gallery;
mod hints;
mod keeper;
mod metrics;
mod refusal;
mod routes;
mod search;
mod settings;
mod source;
mod state;
mod store;
mod stream;
#[cfg(test)]
mod tests;
mod uploads;
mod words;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nextpair_data::Side;
use nextpair_data::dataset::Dataset;
use tokio::net::TcpListener;

pub use refusal::Error;
pub use settings::{Quota, Settings};
pub use source::{Batch, Source, Taken};

use app::{App, system_clock};
use connections::Bounds;

/// How long those who are told to stop are waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Threads that read and write files at most: each takes memory.
const BLOCKING: usize = 16;

/// What is served.
pub struct Desk {
    /// The dataset that the picks are from.
    pub dataset: Dataset,
    /// The side of the items that were picked; people give the other one.
    pub pool: Side,
    /// Where batches come from and answers go.
    pub source: Box<dyn Source>,
}

/// The app is up.
#[derive(Clone, Debug)]
pub struct Ready {
    /// Where it listens.
    pub address: SocketAddr,
    /// Names and links that sign people in: the lead's first, then those of [`Settings::invite`].
    pub links: Vec<(String, String)>,
}

/// Serves until the process is told to stop (interrupt, termination).
pub fn serve(desk: Desk, settings: &Settings, ready: impl FnOnce(&Ready)) -> Result<(), Error> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().max_blocking_threads(BLOCKING).build();
    let listen = |error| Error::Listen { address: settings.address.to_string(), error };
    runtime.map_err(listen)?.block_on(async {
        // Refused before anything listens.
        settings.check(settings.address)?;
        let listener = TcpListener::bind(settings.address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let app = App::open(desk, settings, address, system_clock()).await?;
        // What is wrong with the first batch is wrong with the whole.
        keeper::open_round(&app).await?;
        let keeper = tokio::spawn(keeper::keep(Arc::clone(&app)));
        ready(&Ready { address, links: app.links(&settings.invite) });
        let (router, bounds) = (routes::router(&app), Bounds::of_process());
        let served = connections::serve(listener, router, bounds, told_to_stop());
        let stopped = |what: &str| Err(Error::Settings(format!("{what} stopped; start again")));
        let ended = tokio::select! {
            () = served => Ok(()),
            () = patience() => Ok(()),
            () = app.clerk.stopped() => stopped("the clerk"),
            _ = keeper => stopped("the keeper"),
        };
        let close = async {
            app.clerk.close().await;
            app.store.close().await;
        };
        let _ = tokio::time::timeout(PATIENCE, close).await;
        ended
    })
}

/// Returns some time after [`told_to_stop`], or when told again: whoever does not finish their
/// request by then does not keep us. What was acknowledged is stored.
async fn patience() {
    told_to_stop().await;
    let _ = tokio::time::timeout(PATIENCE, told_to_stop()).await;
}

/// Returns when somebody wants the process to end.
async fn told_to_stop() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = interrupt => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = interrupt.await;
}
