//! Simulated annotators for the annotation app: many at once, forgetful and impatient. Each one
//! logs what the app acknowledged.

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
pub(crate) use person::{Fate, Habits, Log, Sent};
pub(crate) use server::Server;
pub(crate) use world::World;

use person::Person;

/// A crowd of annotators: their habits, when to stop, and the number of acknowledged answers.
pub(crate) struct Crowd {
    habits: Habits,
    /// How long a person keeps trying without a reply.
    patience: Duration,
    /// Whether to stop after the current request.
    stop: AtomicBool,
    acknowledged: AtomicUsize,
    working: AtomicUsize,
}

impl Crowd {
    pub(crate) fn new(habits: Habits, patience: Duration) -> Self {
        let (stop, acknowledged) = (AtomicBool::new(false), AtomicUsize::new(0));
        Crowd { habits, patience, stop, acknowledged, working: AtomicUsize::new(0) }
    }

    /// Lets people work until all tasks are done, or until `meanwhile` fails or stops them. Returns
    /// the result of `meanwhile`, and all logs.
    pub(crate) fn work<T>(
        &self,
        people: Vec<(String, Client)>,
        meanwhile: impl FnOnce(&Crowd) -> Result<T>,
    ) -> Result<(T, Vec<Log>)> {
        self.working.store(people.len(), Ordering::Relaxed);
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (number, (name, client)) in people.into_iter().enumerate() {
                let person = Person::new(name.clone(), client, self, Draws::new(number as u64));
                let work = || {
                    let log = person.work();
                    self.working.fetch_sub(1, Ordering::Relaxed);
                    log
                };
                threads.push((name, scope.spawn(work)));
            }
            let made = meanwhile(self);
            if made.is_err() {
                self.stop();
            }
            let mut logs = Vec::new();
            for (name, thread) in threads {
                let log = thread.join().map_err(|_| anyhow!("panicked"));
                logs.push(log.and_then(|log| log).with_context(|| name.clone()));
            }
            // An error of `meanwhile` is the likelier cause.
            Ok((made?, logs.into_iter().collect::<Result<_>>()?))
        })
    }

    /// Tells everyone to stop after the current request.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the number of acknowledged answers so far.
    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    fn count_acknowledged(&self) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of people still working.
    pub(crate) fn working(&self) -> usize {
        self.working.load(Ordering::Relaxed)
    }
}
