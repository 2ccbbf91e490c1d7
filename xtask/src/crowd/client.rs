//! An HTTP client of the annotation app.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use ureq::http::{Method, Request};

/// Time between attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// Timeout of a reply.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a valid reply.
const LARGEST_ANSWER: u64 = 1 << 30;

/// A persistent connection with the token of an invitation.
pub(crate) struct Client {
    agent: ureq::Agent,
    /// Processes to ask in turn, like a balancer.
    addresses: Vec<String>,
    asked: AtomicUsize,
    token: String,
}

/// A reply of the app.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) text: String,
    /// Time of the successful attempt.
    pub(crate) took: Duration,
    /// Number of failed attempts.
    pub(crate) retries: usize,
}

impl Client {
    /// Creates a client. The address has no trailing slash.
    pub(crate) fn new(address: &str, token: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .build();
        let (addresses, asked) = (vec![address.to_owned()], AtomicUsize::new(0));
        Client { agent: config.into(), addresses, asked, token: token.to_owned() }
    }

    /// Sends every other request to another process.
    pub(crate) fn and_at(mut self, address: &str) -> Self {
        self.addresses.push(address.to_owned());
        self
    }

    /// Returns a client of the same person in another window, with its own connections.
    pub(crate) fn another(&self) -> Self {
        Client { addresses: self.addresses.clone(), ..Client::new("", &self.token) }
    }

    /// Sends a request once.
    pub(crate) fn ask(&self, method: &Method, path: &str, body: Option<&Value>) -> Result<Reply> {
        let turn = self.asked.fetch_add(1, Ordering::Relaxed) % self.addresses.len();
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.addresses[turn]))
            .header("authorization", format!("Bearer {}", self.token));
        let began = Instant::now();
        let mut response = match body {
            Some(body) => {
                let json = request.header("content-type", "application/json");
                self.agent.run(json.body(body.to_string())?)?
            }
            None => self.agent.run(request.body(())?)?,
        };
        let status = response.status().as_u16();
        let text = response.body_mut().with_config().limit(LARGEST_ANSWER).read_to_string()?;
        Ok(Reply { status, text, took: began.elapsed(), retries: 0 })
    }

    /// Repeats a request while the app is down, fails, or wants fewer requests.
    pub(crate) fn insist(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        patience: Duration,
    ) -> Result<Reply> {
        let began = Instant::now();
        let mut retries = 0;
        loop {
            let failed = match self.ask(method, path, body) {
                Ok(reply) if reply.status != 429 && reply.status < 500 => {
                    return Ok(Reply { retries, ..reply });
                }
                Ok(reply) => format!("{}: {}", reply.status, reply.text),
                Err(error) => format!("{error:#}"),
            };
            ensure!(began.elapsed() < patience, "{method} {path}: no answer, at last {failed}");
            retries += 1;
            std::thread::sleep(PAUSE);
        }
    }

    /// Gets a page that must exist.
    pub(crate) fn get(&self, path: &str, patience: Duration) -> Result<Reply> {
        let reply = self.insist(&Method::GET, path, None, patience)?;
        ensure!(reply.status == 200, "GET {path}: {}: {}", reply.status, reply.text);
        Ok(reply)
    }
}

impl Reply {
    /// Parses the reply as JSON.
    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.text).with_context(|| format!("not JSON: {}", self.text))
    }
}
