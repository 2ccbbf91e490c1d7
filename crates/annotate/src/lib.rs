//! The annotation app: it shows picks to people with the reasons for picking them, and collects
//! their answers.
//!
//! A [`Server`] runs in any tokio program: the host gives the listener, the [`Project`] with the
//! [`Source`] of its batches, and a future that ends it. The app starts no runtime, traps no
//! signals and prints nothing: its lines go to [`Settings::log`].
//!
//! ```no_run
//! # async fn host(project: nextpair_annotate::Project) -> Result<(), Box<dyn std::error::Error>> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let settings = nextpair_annotate::Settings::new("sqlite:answers.db");
//! let shutdown = async { /* a signal, a channel, a timer */ };
//! let server = nextpair_annotate::Server::open(listener, project, &settings).await?;
//! server.run(shutdown, std::future::pending()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Inside, the whole history is a list of events (`event.rs`) in a database (`store.rs`), and `state.rs` computes the state from them.
//! `access.rs` decides who may do what.
//!
//! # How an answer is stored
//!
//! 1. **A request** (`connections.rs`, `routes.rs`). A connection takes a slot and has deadlines; memory of requests in flight is counted.
//! 2. **An act** (`state/acts.rs`) is decided one after the other, without a database. A refused act changes nothing; others become events.
//! 3. **The writer** (`writer.rs`) takes all acts that have come in and a turn at the database. It learns what other processes stored, decides the acts,
//!    stores their events in one transaction, and only then acknowledges. If storing fails, its state goes back, and the next turn has a new connection.
//! 4. **Rounds** (`rounds.rs`) open, close when they are complete, and hand answers over to the [`Source`].
#![forbid(unsafe_code)]

mod access;
mod app;
mod caption_hints;
mod catalog;
pub mod connections;
mod error;
mod event;
mod gold;
mod host_names;
mod in_flight;
mod log;
mod metrics;
mod rounds;
mod routes;
mod search;
mod server;
mod settings;
mod source;
mod state;
mod store;
mod stream;
#[cfg(test)]
mod tests;
mod uploads;
mod word_overlap;
mod writer;

pub use error::Error;
pub use host_names::answers_to;
pub use log::Log;
pub use server::{Invitation, Project, Server};
pub use settings::{Quota, Settings};
pub use source::{Batch, HandOver, Source};
