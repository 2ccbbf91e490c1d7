//! Settings for starting the app.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;
use crate::log::Log;

/// Settings of the app: access, and the answers wanted for every item.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The public address, if it is not the listener's: `https://captions.example.org`.
    pub public_url: Option<String>,
    /// `sqlite:PATH` or `postgres://...`.
    pub database: String,
    /// Whether people need a link. Without links everyone is a lead; refused unless the address is
    /// loopback.
    pub sign_in: bool,
    /// Names of annotators who get a link right away.
    pub invite: Vec<String>,
    /// Names of reviewers who get a link right away.
    pub reviewers: Vec<String>,
    /// The share of answers, from 0 to 1, that a reviewer or a lead is to look at before they are
    /// finished. Without it, the share stays what it was, at first 0.
    pub review: Option<f64>,
    /// Captions wanted per annotator and item.
    pub captions: usize,
    /// Annotators wanted per item.
    pub annotators: usize,
    /// How long a task is reserved for an inactive person.
    pub lease: Duration,
    /// The language of the captions, as its English name or ISO 639 code.
    pub language: Option<String>,
    /// The price of a caption; the lead may change it.
    pub price: Option<f64>,
    /// How long a complete round stays open for changes; `None` means until the lead closes it.
    pub grace: Option<Duration>,
    /// The folder for images that people upload for texts. Without it, and for pools of images,
    /// there are no uploads.
    pub uploads: Option<PathBuf>,
    /// A folder of images that people uploaded before and that are in use: shown, never changed.
    pub taken_uploads: Option<PathBuf>,
    /// Limits on uploads.
    pub quota: Quota,
    /// A folder of images, besides those of the dataset, to choose from for texts.
    pub images: Option<PathBuf>,
    /// What annotators should know before they begin, in Markdown. A lead may change it later, and
    /// keeps their version until this text changes.
    pub guidelines: Option<String>,
    /// Captions that a program wrote, by item, for pools of images: people see them as
    /// suggestions, and accept or change them.
    pub suggestions: BTreeMap<String, Vec<String>>,
    /// Known answers by item: captions, or, for texts, ids of images. Such gold items are mixed into every round, where
    /// annotators cannot tell them from others; answers to them are scored and never exported.
    pub gold: BTreeMap<String, Vec<String>>,
    /// How many of them there are for each task of a round, at most.
    pub gold_share: f64,
    /// Receives the lines that the app logs.
    pub log: Log,
}

/// Limits on the bytes of uploaded images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Most bytes per person, over all rounds. Deleted images count.
    pub per_person: u64,
    /// Most bytes of all people together, including other files in the folder at the start.
    pub in_all: u64,
    /// Bytes of the disk to keep free: answers may be stored on it as well.
    pub keep_free: u64,
}

impl Default for Quota {
    fn default() -> Self {
        Quota { per_person: 512 << 20, in_all: 8 << 30, keep_free: 1 << 30 }
    }
}

/// Most captions, or annotators, per item; more are a mistake.
const MOST_PER_ITEM: usize = 20;
/// A shorter lease would end before anyone has looked at the task.
const SHORTEST_LEASE: Duration = Duration::from_secs(1);

impl Settings {
    /// The defaults of the command line: people sign in, one caption of one annotator per item,
    /// complete rounds close after a minute. Nothing is logged, and there are no uploads.
    pub fn new(database: impl Into<String>) -> Self {
        Settings {
            public_url: None,
            database: database.into(),
            sign_in: true,
            invite: Vec::new(),
            reviewers: Vec::new(),
            review: None,
            captions: 1,
            annotators: 1,
            lease: Duration::from_secs(600),
            language: None,
            price: None,
            grace: Some(Duration::from_secs(60)),
            uploads: None,
            taken_uploads: None,
            quota: Quota::default(),
            images: None,
            guidelines: None,
            suggestions: BTreeMap::new(),
            gold: BTreeMap::new(),
            gold_share: 0.1,
            log: Log::default(),
        }
    }

    /// Returns an error if an app at this address would make no sense, or would let strangers in.
    /// [`Server::open`](crate::Server::open) checks this as well; a host that binds an address
    /// itself can check before.
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
            if count == 0 || count > MOST_PER_ITEM {
                return wrong(format!(
                    "{count} {what} for an item; 1 to {MOST_PER_ITEM} are possible"
                ));
            }
        }
        if self.lease < SHORTEST_LEASE {
            return wrong(format!("tasks are kept for at least {SHORTEST_LEASE:?}"));
        }
        if let Some(share) = self.review.filter(|share| !is_share(*share)) {
            return wrong(format!("the share {share} of answers to review is not from 0 to 1"));
        }
        if !is_share(self.gold_share) {
            return wrong(format!("the share {} of gold is not from 0 to 1", self.gold_share));
        }
        if let Some(text) = &self.guidelines {
            check_guidelines(text)
                .map_err(|what| Error::Settings(format!("guidelines: {what}")))?;
        }
        match self.price.filter(|price| !(price.is_finite() && *price >= 0.0)) {
            Some(price) => wrong(format!("the price {price} is not a price")),
            None => Ok(()),
        }
    }
}

/// Returns whether this is a share.
pub(crate) fn is_share(share: f64) -> bool {
    (0.0..=1.0).contains(&share)
}

/// Longest guidelines, in bytes: more than anybody reads.
const LONGEST_GUIDELINES: usize = 64 << 10;

/// Trims guidelines, and returns an error if they are too long or contain control characters.
pub(crate) fn check_guidelines(text: &str) -> Result<String, String> {
    let text = text.trim().replace("\r\n", "\n");
    if text.len() > LONGEST_GUIDELINES {
        return Err(format!("{} bytes of text; {LONGEST_GUIDELINES} are possible", text.len()));
    }
    match text.chars().find(|letter| letter.is_control() && !matches!(letter, '\n' | '\t')) {
        Some(odd) => Err(format!("the control character {odd:?} is in the text")),
        None => Ok(text),
    }
}

/// Returns whether this is a URL without a path, so that links can be built from it.
fn is_origin(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.map(|rest| rest.strip_suffix('/').unwrap_or(rest)).unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    !host.is_empty() && host.bytes().all(plain)
}
