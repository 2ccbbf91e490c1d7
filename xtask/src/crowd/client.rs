//! Somebody's connection to the annotation app.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use ureq::http::{Method, Request};

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// An answer that takes longer is a failure to answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Larger answers are damage, not answers.
const LARGEST_ANSWER: u64 = 1 << 30;

/// A connection that is kept, and the token of an invitation.
pub(crate) struct Client {
    agent: ureq::Agent,
    /// Processes that are asked in turn, as a balancer does.
    addresses: Vec<String>,
    asked: AtomicUsize,
    token: String,
}

/// What the app said.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) text: String,
    /// Of the attempt that was answered.
    pub(crate) took: Duration,
    /// Attempts that were not.
    pub(crate) retries: usize,
}

impl Client {
    /// The address without a slash at its end.
    pub(crate) fn new(address: &str, token: &str) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .build();
        let (addresses, asked) = (vec![address.to_owned()], AtomicUsize::new(0));
        Client { agent: config.into(), addresses, asked, token: token.to_owned() }
    }

    /// Lets every other request go to another process.
    pub(crate) fn and_at(mut self, address: &str) -> Self {
        self.addresses.push(address.to_owned());
        self
    }

    /// The same person in another window: connections of its own.
    pub(crate) fn another(&self) -> Self {
        Client { addresses: self.addresses.clone(), ..Client::new("", &self.token) }
    }

    /// Asks once.
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

    /// Asks the same thing again until it is answered, as long as nobody is there, the app is in
    /// trouble or wants fewer requests.
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

    /// The text of a page that must be there.
    pub(crate) fn get(&self, path: &str, patience: Duration) -> Result<Reply> {
        let reply = self.insist(&Method::GET, path, None, patience)?;
        ensure!(reply.status == 200, "GET {path}: {}: {}", reply.status, reply.text);
        Ok(reply)
    }
}

impl Reply {
    /// The answer as a value.
    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.text).with_context(|| format!("not JSON: {}", self.text))
    }
}
