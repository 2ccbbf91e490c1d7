//! Simulated annotators for the annotation app: many at once, forgetful, impatient, and each with
//! a private log of what they were promised.

mod check;
mod client;
mod person;
mod server;
mod world;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use nextpair_engine::Draws;

pub(crate) use check::check;
pub(crate) use client::Client;
pub(crate) use person::{Habits, Log};
pub(crate) use server::Server;
pub(crate) use world::World;

use person::Person;

/// People at work: how they work, when they are to stop, what they were promised so far.
pub(crate) struct Crowd {
    pub(crate) habits: Habits,
    /// How long a person goes on without getting an answer.
    pub(crate) patience: Duration,
    /// Whether to stop after the act that is under way.
    stop: AtomicBool,
    acknowledged: AtomicUsize,
}

impl Crowd {
    pub(crate) fn new(habits: Habits, patience: Duration) -> Self {
        let (stop, acknowledged) = (AtomicBool::new(false), AtomicUsize::new(0));
        Crowd { habits, patience, stop, acknowledged }
    }

    /// Lets everybody whom the server invited work until everything is done, or until `meanwhile`
    /// fails or tells them to stop; then gives what `meanwhile` made and every log.
    pub(crate) fn work<T>(
        &self,
        server: &Server,
        meanwhile: impl FnOnce(&Crowd) -> Result<T>,
    ) -> Result<(T, Vec<Log>)> {
        std::thread::scope(|scope| {
            let work = |number: usize, name: &str, client: Client| {
                let draws = Draws::new(number as u64);
                let person = Person::new(name.to_owned(), client, self, draws);
                scope.spawn(move || person.work())
            };
            let people = server.people().iter().enumerate();
            let threads: Vec<_> = people
                .map(|(number, (name, token))| {
                    (name, work(number, name, Client::new(server.address(), token)))
                })
                .collect();
            let made = meanwhile(self);
            if made.is_err() {
                self.stop();
            }
            let mut logs = Vec::new();
            for (name, thread) in threads {
                let log = thread.join().map_err(|_| anyhow!("panicked"));
                logs.push(log.and_then(|log| log).with_context(|| name.clone())?);
            }
            Ok((made?, logs))
        })
    }

    /// Tells everybody to stop after what they are doing.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// How many answers were acknowledged so far.
    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    fn count_acknowledged(&self) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
    }
}
