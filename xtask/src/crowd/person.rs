//! One simulated annotator.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use nextpair_engine::Draws;
use serde_json::{Value, json};
use ureq::http::Method;

use super::Crowd;
use super::client::{Client, Reply};

/// Time between polls for new tasks.
const WAIT: Duration = Duration::from_millis(100);
/// How long after the end of a lease a dawdler answers.
const LATE: Duration = Duration::from_millis(200);

/// Habits of annotators. Numbers are shares of their answers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Habits {
    /// Mean time to answer.
    pub(crate) think: Duration,
    /// Answers sent twice at the same moment.
    pub(crate) twice: f64,
    /// Answers undone and given again.
    pub(crate) undo: f64,
    /// Skips with a reason instead of a caption.
    pub(crate) skip: f64,
    /// Answers sent only after the lease has ended.
    pub(crate) dawdle: f64,
}

/// The log of a person.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) name: String,
    pub(crate) sent: Vec<Sent>,
    pub(crate) holds: Vec<Hold>,
    /// Times of acknowledged submits, in microseconds.
    pub(crate) submits: Vec<u64>,
    /// Number of attempts without a reply, or with the reply "later".
    pub(crate) retries: usize,
}

/// A sent answer.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) item: String,
    pub(crate) said: Said,
    pub(crate) fate: Fate,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    Caption(String),
    Skip(String),
}

/// The reply to an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fate {
    /// Acknowledged, with the number of the answer.
    Stands(i64),
    /// Acknowledged and undone, with both acknowledged.
    Undone,
    /// Refused: the lease had ended.
    Refused,
}

/// A task held by a person, in milliseconds since 1970: from receiving it until answering it or
/// until the lease ended.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) item: String,
    pub(crate) from: u64,
    pub(crate) until: u64,
}

pub(super) struct Person<'a> {
    client: Client,
    crowd: &'a Crowd,
    draws: Draws,
    log: Log,
    acts: usize,
}

impl<'a> Person<'a> {
    pub(super) fn new(name: String, client: Client, crowd: &'a Crowd, draws: Draws) -> Self {
        let log =
            Log { name, sent: Vec::new(), holds: Vec::new(), submits: Vec::new(), retries: 0 };
        Person { client, crowd, draws, log, acts: 0 }
    }

    /// Works until all tasks are done or the crowd stops.
    pub(super) fn work(mut self) -> Result<Log> {
        let mut next = Value::Null;
        while !self.crowd.stopped() {
            if next["task"].is_null() {
                next = self.act("/api/next", None)?.json()?;
            }
            match (next["task"].is_null(), next["none"].as_str()) {
                (false, _) => next = self.answer(&next["task"])?,
                (true, Some("done" | "closed")) => break,
                (true, Some(_)) => std::thread::sleep(WAIT),
                (true, None) => bail!("neither a task nor a reason: {next}"),
            }
        }
        Ok(self.log)
    }

    /// Answers a task. Returns the next task from the app.
    fn answer(&mut self, task: &Value) -> Result<Value> {
        let item = task["item"].as_str().context("a task without an item")?.to_owned();
        let lease_until = task["lease_until"].as_u64().context("a task without a lease")?;
        let from = now();
        // The time varies from answer to answer.
        std::thread::sleep(self.crowd.habits.think.mul_f64(2.0 * self.draws.unit()));
        if self.chance(self.crowd.habits.dawdle) {
            self.dawdle(lease_until);
        }
        self.log.holds.push(Hold { item: item.clone(), from, until: now().min(lease_until) });

        let said = self.think_of(&item);
        let key = self.key();
        let body = json!({ "key": key, "item": item, "said": match &said {
            Said::Caption(text) => json!({ "captions": [text] }),
            Said::Skip(reason) => json!({ "skip": reason }),
        }});
        let reply = if self.chance(self.crowd.habits.twice) {
            self.submit_twice(&body)?
        } else {
            self.act("/api/answers", Some(&body))?
        };
        if reply.status == 409 {
            self.log.sent.push(Sent { item, said, fate: Fate::Refused });
            return Ok(Value::Null);
        }
        self.log.submits.push(reply.took.as_micros() as u64);
        self.crowd.count_acknowledged();
        let mut reply = reply.json()?;
        let answer = reply["answer"].as_i64().context("an answer without a number")?;
        self.log.sent.push(Sent { item, said, fate: Fate::Stands(answer) });
        if !self.crowd.stopped() && self.chance(self.crowd.habits.undo) {
            let lease =
                task["lease_ms"].as_u64().context("a task without the length of its lease")?;
            return self.undo(answer, Duration::from_millis(lease));
        }
        Ok(reply["next"].take())
    }

    /// Sleeps past the end of a lease, unless the crowd stops.
    fn dawdle(&mut self, lease_until: u64) {
        let end = lease_until + LATE.as_millis() as u64;
        while now() < end && !self.crowd.stopped() {
            std::thread::sleep(WAIT / 4);
        }
    }

    /// Sends an answer from two windows at once. It must count once.
    fn submit_twice(&mut self, body: &Value) -> Result<Reply> {
        let (other, patience) = (self.client.another(), self.crowd.patience);
        let submit =
            |client: &Client| client.insist(&Method::POST, "/api/answers", Some(body), patience);
        let (reply, second) = std::thread::scope(|scope| {
            let second = scope.spawn(|| submit(&other));
            (submit(&self.client), second.join())
        });
        let second = second.map_err(|_| anyhow::anyhow!("the second window panicked"))??;
        let reply = self.understood("/api/answers", reply?)?;
        let second = self.understood("/api/answers", second)?;
        ensure!(reply.status == second.status, "sent twice: {} and {}", reply.text, second.text);
        if reply.status == 200 {
            let (first, second) = (reply.json()?, second.json()?);
            ensure!(first["answer"] == second["answer"], "two answers: {first} and {second}");
        }
        Ok(reply)
    }

    /// Undoes the last answer. Its task is then ours again, unless a server that was killed took longer than a lease to
    /// say so.
    fn undo(&mut self, answer: i64, lease: Duration) -> Result<Value> {
        let body = json!({ "key": self.key() });
        let began = Instant::now();
        let reply = self.act(&format!("/api/answers/{answer}/undo"), Some(&body))?;
        if reply.status == 409 {
            return Ok(Value::Null);
        }
        let last = self.log.sent.last_mut().context("nothing to undo")?;
        last.fate = Fate::Undone;
        let next = reply.json()?;
        let ours = next["task"]["item"] == last.item.as_str();
        ensure!(ours || began.elapsed() >= lease, "undone, but in hand is {next}");
        Ok(next)
    }

    /// Repeats a request until it is answered. Returns an error for unexpected replies.
    fn act(&mut self, path: &str, body: Option<&Value>) -> Result<Reply> {
        let reply = self.client.insist(&Method::POST, path, body, self.crowd.patience)?;
        self.understood(path, reply)
    }

    fn understood(&mut self, path: &str, reply: Reply) -> Result<Reply> {
        self.log.retries += reply.retries;
        ensure!([200, 409].contains(&reply.status), "{path}: {}: {}", reply.status, reply.text);
        Ok(reply)
    }

    /// Makes up words that are unique across people, runs and time.
    fn think_of(&mut self, item: &str) -> Said {
        self.acts += 1;
        let text = format!("{} looks at {item}, act {}", self.log.name, self.acts);
        if self.chance(self.crowd.habits.skip) { Said::Skip(text) } else { Said::Caption(text) }
    }

    fn key(&mut self) -> String {
        format!("{:016x}", self.draws.bits())
    }

    fn chance(&mut self, share: f64) -> bool {
        self.draws.unit() < share
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}
