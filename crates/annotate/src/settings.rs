//! What whoever starts the app decides.

use std::net::SocketAddr;
use std::time::Duration;

/// How the app is served, and what is wanted of annotators.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen. Port 0 takes a free one.
    pub address: SocketAddr,
    /// What people reach it by, where that is not the address: `https://captions.example.org`.
    pub public_url: Option<String>,
    /// `sqlite:PATH` or `postgres://...`.
    pub database: String,
    /// Whether people need a link. Without, everybody is a lead; refused unless the address is
    /// loopback.
    pub sign_in: bool,
    /// People who get a link right away: names of annotators.
    pub invite: Vec<String>,
    /// Captions wanted of every annotator for an item.
    pub captions: usize,
    /// Annotators wanted for an item.
    pub annotators: usize,
    /// How long a task is kept for somebody who does not say anything.
    pub lease: Duration,
    /// The language that captions are to be in, as its English name or ISO 639 code.
    pub language: Option<String>,
    /// The price of a caption, until the lead changes it.
    pub price: Option<f64>,
    /// How long a complete round stays open for second thoughts; without, until the lead closes it.
    pub grace: Option<Duration>,
}
