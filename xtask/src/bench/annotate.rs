//! The annotation app under load: annotators answer, the lead watches, then all answers are
//! checked.

mod together;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::options::positive;
use super::report::Record;
use super::{memory, ours};
use crate::crowd::{Client, Crowd, Fate, Habits, Log, Sent, Server, World, check};
use crate::servers::{self, Postgres};

const FOLDER: &str = "target/crowd";
const PATIENCE: Duration = Duration::from_secs(60);
/// Polling interval of the lead's page.
const POLL: Duration = Duration::from_secs(2);
/// Duration of a measurement with annotators who think.
const WATCHED: Duration = Duration::from_secs(20);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Tasks
    #[arg(long, value_name = "N", default_value = "20000", value_parser = positive)]
    tasks: usize,
    /// Annotators
    #[arg(long, value_name = "N", default_value = "200", value_parser = positive)]
    annotators: usize,
    /// Events in the database before two processes are measured
    #[arg(long, value_name = "N", default_value = "300000", value_parser = positive)]
    events: usize,
    /// Folder of the record; bench/results, or target/bench-results when something is not the standard
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The result with one database and one way of working.
struct Outcome {
    database: &'static str,
    pace: &'static str,
    answers: usize,
    seconds: f64,
    /// Times of submits in milliseconds, sorted.
    submits: Vec<f64>,
    /// 99th percentile inside the app in milliseconds, as an upper bound from its own histogram.
    inside: f64,
    overviews: Vec<f64>,
    retries: usize,
    /// Number of refused answers to tasks that the annotator held.
    refused: usize,
    peak_bytes: u64,
    /// Seconds until the app listened again after a kill.
    start: f64,
}

pub(super) fn run(options: &Options) -> Result<()> {
    servers::ensure_installed()?;
    let binary = ours::build()?.canonicalize()?;
    let postgres = Postgres::start()?;
    // A few of each, to provoke errors.
    let hasty = Habits { twice: 0.01, undo: 0.01, skip: 0.02, ..Habits::default() };
    let thinking = Habits { think: Duration::from_secs(2), ..hasty };
    let mut outcomes = Vec::new();
    for database in ["SQLite", "PostgreSQL"] {
        let url = |name: &str| match database {
            "SQLite" => Ok("sqlite:captions.sqlite".to_owned()),
            _ => postgres.create_database(name),
        };
        for (pace, habits) in [("as fast as they can", hasty), ("every 2 s", thinking)] {
            eprintln!("{database}, {} annotators, {pace}", options.annotators);
            let url = url(&format!("bench_{}", outcomes.len()))?;
            let world = World::make(&Path::new(FOLDER).join("bench"), options.tasks)?;
            let server = Server::start(&binary, &world, &url, options.annotators, &[])?;
            let limit = (!habits.think.is_zero()).then_some(WATCHED);
            let mut outcome = measure(server, habits, limit, options.tasks)?;
            (outcome.database, outcome.pace) = (database, pace);
            println!("{}", outcome.row());
            outcomes.push(outcome);
        }
        eprintln!("{database}, two processes after {} events", options.events);
        let mut outcome = together::measure(&binary, &url("together")?, options, thinking)?;
        (outcome.database, outcome.pace) = (database, "every 2 s, two processes, long history");
        println!("{}", outcome.row());
        outcomes.push(outcome);
    }
    record(options, &outcomes)
}

/// Lets the crowd work until all tasks are done or the time is over. The result counts only if
/// every answer is stored once under its author's name, also after a kill.
fn measure(
    mut server: Server,
    habits: Habits,
    limit: Option<Duration>,
    tasks: usize,
) -> Result<Outcome> {
    let lead = server.lead()?;
    let crowd = Crowd::new(habits, PATIENCE);
    let began = Instant::now();
    let watch = |crowd: &Crowd| watch(crowd, &lead, limit);
    let ((overviews, seconds), logs) = crowd.work(server.annotators(), watch)?;
    let seconds = limit.map_or(seconds, |_| began.elapsed().as_secs_f64());

    let inside = within(&lead.get("/metrics", PATIENCE)?.text, 0.99)?;
    let answers = check(&server.export()?, &logs, 1)?;
    ensure!(limit.is_some() || answers == tasks, "{answers} answers to {tasks} tasks");
    let peak_bytes = memory::peak(server.id());
    server.kill()?;
    let killed = Instant::now();
    server.start_again()?;
    let start = killed.elapsed().as_secs_f64();
    check(&server.export()?, &logs, 1).context("after a kill")?;
    Ok(Outcome { answers, seconds, inside, peak_bytes, start, ..Outcome::of(&logs, overviews) })
}

/// Polls like the lead's page until the crowd is done or the time is over. Returns the milliseconds
/// of every poll, and the total seconds.
fn watch(crowd: &Crowd, lead: &Client, limit: Option<Duration>) -> Result<(Vec<f64>, f64)> {
    let began = Instant::now();
    let mut polls = Vec::new();
    let mut due = began;
    while crowd.working() > 0 {
        if limit.is_some_and(|limit| began.elapsed() > limit) {
            crowd.stop();
        }
        if Instant::now() >= due {
            let took = lead.get("/api/lead/overview", PATIENCE)?.took;
            polls.push(took.as_secs_f64() * 1e3);
            due += POLL;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok((polls, began.elapsed().as_secs_f64()))
}

impl Outcome {
    /// Collects the measurements of annotators and of the lead.
    fn of(logs: &[Log], overviews: Vec<f64>) -> Self {
        let in_order = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times
        };
        let submits = logs.iter().flat_map(|log| &log.submits);
        let refused = |sent: &&Sent| sent.fate == Fate::Refused;
        Outcome {
            database: "",
            pace: "",
            answers: 0,
            seconds: 0.0,
            submits: in_order(submits.map(|&micros| micros as f64 / 1e3).collect()),
            inside: f64::NAN,
            overviews: in_order(overviews),
            retries: logs.iter().map(|log| log.retries).sum(),
            refused: logs.iter().flat_map(|log| &log.sent).filter(refused).count(),
            peak_bytes: 0,
            start: f64::NAN,
        }
    }

    fn row(&self) -> String {
        let Outcome { database, pace, answers, seconds, submits, overviews, .. } = self;
        let at = |times: &[f64], share| quantile(times, share);
        format!(
            "| {database} | {pace} | {answers} | {seconds:.1} | {:.0} | {:.1} | {:.1} | {:.1} | \
             {:.1} | {} | {:.1} | {:.1} | {} | {} | {:.0} | {:.2} |",
            *answers as f64 / seconds,
            at(submits, 0.5),
            at(submits, 0.9),
            at(submits, 0.99),
            at(submits, 1.0),
            self.inside,
            at(overviews, 0.5),
            at(overviews, 1.0),
            self.retries,
            self.refused,
            self.peak_bytes as f64 / (1 << 20) as f64,
            self.start,
        )
    }

    fn json(&self) -> Value {
        let quantiles = |times: &[f64]| {
            let shares = [0.5, 0.9, 0.99, 0.999, 1.0];
            json!(shares.map(|share| (share, quantile(times, share))))
        };
        json!({ "database": self.database, "pace": self.pace, "answers": self.answers,
                "seconds": self.seconds, "submit_ms": quantiles(&self.submits),
                "p99_inside_the_app_at_most_ms": self.inside,
                "overview_ms": quantiles(&self.overviews), "retries": self.retries,
                "refused": self.refused, "peak_bytes": self.peak_bytes, "start_after_kill_seconds": self.start })
    }
}

/// Returns a quantile of submits from the app's own histogram: the upper end of its bucket, in
/// milliseconds.
fn within(metrics: &str, share: f64) -> Result<f64> {
    let buckets = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix("nextpair_submit_seconds_bucket{le=\"")?;
        let (end, count) = rest.split_once("\"} ")?;
        Some((end.parse().unwrap_or(f64::INFINITY), count.parse::<f64>().ok()?))
    });
    let buckets: Vec<(f64, f64)> = buckets.collect();
    let all = buckets.last().context("no histogram of submits in /metrics")?.1;
    let first = buckets.iter().find(|(_, count)| *count >= share * all);
    first.map(|(end, _)| end * 1e3).context("a histogram that does not add up")
}

/// Returns a quantile of sorted times.
fn quantile(times: &[f64], share: f64) -> f64 {
    let at = (times.len() as f64 * share).ceil() as usize;
    times.get(at.max(1) - 1).copied().unwrap_or(f64::NAN)
}

/// Prints the table and writes it to a file.
fn record(options: &Options, outcomes: &[Outcome]) -> Result<()> {
    let mut text = format!(
        "{} tasks, {} annotators on the same machine, a lead who \
         looks every 2 s. Every acknowledged answer was found once and under its author's name, \
         before and after a kill of the server. With two processes, every other request goes to \
         the other one, after {} events. Times are milliseconds unless said otherwise, \
         as annotators see them: they share the cores with the app.\n\n",
        options.tasks, options.annotators, options.events
    );
    writeln!(
        text,
        "| database | answers | count | seconds | a second | submit, median | p90 | p99 | most | \
         p99 inside the app, at most | lead's overview, median | most | retries | refused | peak MiB | start after a kill, s |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    )?;
    for outcome in outcomes {
        writeln!(text, "{}", outcome.row())?;
    }
    println!("{text}");
    let facts = json!({ "tasks": options.tasks, "annotators": options.annotators, "events": options.events,
                        "outcomes": outcomes.iter().map(Outcome::json).collect::<Vec<_>>() });
    let record = Record { name: "annotate", facts, notes: Vec::new(), text };
    record.write(options.out.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_read() {
        let bucket =
            |end: &str, count| format!("nextpair_submit_seconds_bucket{{le=\"{end}\"}} {count}\n");
        let text = bucket("0.01", 90) + &bucket("0.02", 99) + &bucket("+Inf", 100);
        assert_eq!(within(&text, 0.5).unwrap(), 10.0);
        assert_eq!(within(&text, 0.99).unwrap(), 20.0);
        assert_eq!(within(&text, 1.0).unwrap(), f64::INFINITY);
        assert!(within("", 0.5).is_err());
    }

    #[test]
    fn quantiles_are_times_that_were_measured() {
        let times: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(
            [0.0, 0.5, 0.99, 1.0].map(|share| quantile(&times, share)),
            [1., 50., 99., 100.]
        );
        assert!(quantile(&[], 0.5).is_nan());
    }
}
