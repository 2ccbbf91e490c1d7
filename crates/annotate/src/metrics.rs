//! Counters for Prometheus.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::state::{State, Terms};

/// Upper bounds of the latency buckets, in milliseconds.
const MILLIS: [u64; 9] = [1, 2, 5, 10, 20, 50, 100, 500, 2000];

/// Counts since the start.
#[derive(Default)]
pub(crate) struct Metrics {
    /// Responses by the first digit of their status.
    responses: [AtomicU64; 6],
    /// Submits by latency; the last bucket is unbounded.
    submits: [AtomicU64; MILLIS.len() + 1],
    submit_micros: AtomicU64,
}

impl Metrics {
    pub(crate) fn responded(&self, status: u16) {
        self.responses[usize::from(status / 100).min(5)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn submitted(&self, time: Duration) {
        let millis = time.as_secs_f64() * 1000.0;
        let bucket = MILLIS.iter().position(|&end| millis <= end as f64).unwrap_or(MILLIS.len());
        self.submits[bucket].fetch_add(1, Ordering::Relaxed);
        self.submit_micros.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
    }

    /// All counters in Prometheus' text format.
    pub(crate) fn text(&self, state: &State, terms: Terms, waiting: usize) -> String {
        let mut text = String::new();
        let mut line = |line: String| writeln!(text, "{line}").expect("a string takes everything");
        line("# TYPE nextpair_responses_total counter".to_owned());
        for (digit, count) in self.responses.iter().enumerate().skip(2) {
            let count = count.load(Ordering::Relaxed);
            line(format!("nextpair_responses_total{{status=\"{digit}xx\"}} {count}"));
        }
        line("# TYPE nextpair_submit_seconds histogram".to_owned());
        let mut count = 0;
        for (at, bucket) in self.submits.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            let end =
                MILLIS.get(at).map_or("+Inf".to_owned(), |&end| format!("{}", end as f64 / 1000.0));
            line(format!("nextpair_submit_seconds_bucket{{le=\"{end}\"}} {count}"));
        }
        let sum = self.submit_micros.load(Ordering::Relaxed) as f64 / 1e6;
        line(format!("nextpair_submit_seconds_sum {sum}\nnextpair_submit_seconds_count {count}"));
        let round = state.round();
        let gauges = [
            ("events_total", "counter", state.seq as usize),
            ("acts_waiting", "gauge", waiting),
            ("people", "gauge", state.people.values().filter(|person| !person.removed).count()),
            ("round", "gauge", round.map_or(0, |round| round.number as usize)),
            ("tasks", "gauge", round.map_or(0, |round| round.slots.len())),
            ("tasks_done", "gauge", round.map_or(0, |round| round.answered(terms.annotators))),
        ];
        for (name, kind, value) in gauges {
            line(format!("# TYPE nextpair_{name} {kind}\nnextpair_{name} {value}"));
        }
        text
    }
}
