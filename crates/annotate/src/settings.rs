//! Decisions of whoever starts the app.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;
use crate::log::Log;

/// Settings of the app: who gets in, and the answers wanted for every item.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address that people reach it by, where that is not the listener's:
    /// `https://captions.example.org`.
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
    /// The price of a caption; the lead may change it.
    pub price: Option<f64>,
    /// How long a complete round stays open for second thoughts; without, until the lead closes it.
    pub grace: Option<Duration>,
    /// Where images go that people upload for texts; without, and for pools of images, none are
    /// taken.
    pub uploads: Option<PathBuf>,
    /// How much of them is taken.
    pub quota: Quota,
    /// A folder of images, beside those of the dataset, that people may choose from for texts.
    pub images: Option<PathBuf>,
    /// Takes the lines that the app writes while it runs.
    pub log: Log,
}

/// The bytes of images that people may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Of each person, over all rounds. Deleted images count.
    pub per_person: u64,
    /// Of all people together, with whatever else is in the folder at the start.
    pub in_all: u64,
    /// Bytes of the disk that stay free: answers may lie on it as well.
    pub keep_free: u64,
}

impl Default for Quota {
    fn default() -> Self {
        Quota { per_person: 512 << 20, in_all: 8 << 30, keep_free: 1 << 30 }
    }
}

/// More captions, or annotators, for one item are a mistake.
const MOST: usize = 20;
/// A task that is kept for less time is gone before anybody has looked at it.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

impl Settings {
    /// The settings of the command line's defaults: people sign in, one caption of one annotator
    /// for every item, complete rounds close after a minute. Nothing is logged, and no images are
    /// taken.
    pub fn new(database: impl Into<String>) -> Self {
        Settings {
            public_url: None,
            database: database.into(),
            sign_in: true,
            invite: Vec::new(),
            captions: 1,
            annotators: 1,
            lease: Duration::from_secs(600),
            language: None,
            price: None,
            grace: Some(Duration::from_secs(60)),
            uploads: None,
            quota: Quota::default(),
            images: None,
            log: Log::default(),
        }
    }

    /// Fails if an app at this address would make no sense, or would let strangers in.
    /// [`Server::open`](crate::Server::open) checks as well; a host that binds an address itself can
    /// check before.
    pub fn check(&self, address: SocketAddr) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::Settings(what));
        if !self.sign_in && !address.ip().is_loopback() {
            return wrong(format!(
                "{address} can be reached from elsewhere: people must sign in there"
            ));
        }
        if !self.sign_in && self.public_url.is_some() {
            return wrong("with a public address people must sign in".to_owned());
        }
        if let Some(url) = self.public_url.as_deref().filter(|url| !is_origin(url)) {
            return wrong(format!(
                "the public address {url:?} is not like https://name or https://name:port"
            ));
        }
        if address.ip().is_unspecified() && self.public_url.is_none() {
            return wrong(format!(
                "{address} is every address there is: say by which people reach it"
            ));
        }
        for (count, what) in [(self.captions, "captions"), (self.annotators, "annotators")] {
            if count == 0 || count > MOST {
                return wrong(format!("{count} {what} for an item; 1 to {MOST} are possible"));
            }
        }
        if self.lease < SHORTEST_LEASE {
            return wrong(format!("tasks are kept for at least {SHORTEST_LEASE:?}"));
        }
        match self.price.filter(|price| !(price.is_finite() && *price >= 0.0)) {
            Some(price) => wrong(format!("the price {price} is not a price")),
            None => Ok(()),
        }
    }
}

/// Whether this is an address without a path, so that links can be made of it.
fn is_origin(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.map(|rest| rest.strip_suffix('/').unwrap_or(rest)).unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    !host.is_empty() && host.bytes().all(plain)
}
