//! Kills the annotation app and its database while people answer, and strains both.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nextpair_engine::Draws;

use super::disk;
use crate::bench::build_nextpair;
use crate::crowd::{Crowd, Fate, Habits, Log, Server, World, check};
use crate::servers::{self, Postgres};

const FOLDER: &str = "target/crowd";
const PEOPLE: usize = 30;
/// A little of each habit, faster than real people.
const HABITS: Habits =
    Habits { think: Duration::from_millis(15), twice: 0.05, undo: 0.05, skip: 0.05, dawdle: 0.002 };
/// In minutes: a lease of seconds, so that leases end during the test.
const LEASE: &str = "0.05";
/// Maximum time between two kills, once answers come in again.
const BETWEEN: Duration = Duration::from_millis(300);
/// Maximum time without any progress.
const PATIENCE: Duration = Duration::from_secs(60);

/// Kills the app `kills` times on SQLite and on PostgreSQL, alone and with a second process.
/// Crashes PostgreSQL `crashes` times, and strains disks and clocks as often.
pub(crate) fn run(kills: usize, crashes: usize) -> Result<()> {
    servers::ensure_installed()?;
    let binary = build_nextpair()?.canonicalize()?;
    let postgres = Postgres::start()?;
    let kill = |server: &mut Server| {
        server.kill()?;
        server.start_again()
    };
    let sqlite = "sqlite:captions.sqlite";
    storm("kills on SQLite", &binary, sqlite, kills, kill)?;
    storm("kills on PostgreSQL", &binary, &postgres.create_database("kills")?, kills, kill)?;
    let crash = |_: &mut Server| postgres.restart();
    let database = postgres.create_database("crashes")?;
    storm("crashes of PostgreSQL", &binary, &database, crashes, crash)?;
    together("two processes on SQLite", &binary, sqlite, kills)?;
    let database = postgres.create_database("together")?;
    together("two processes on PostgreSQL", &binary, &database, kills)?;
    disk::strain(&binary, &postgres, crashes)
}

/// Makes the disk fail under the app, at every call or at this number of calls.
pub(crate) fn run_disk(sessions: Option<usize>) -> Result<()> {
    let binary = build_nextpair()?.canonicalize()?;
    disk::fail_calls(&binary, sessions)?;
    disk::fail_starts(&binary, sessions)
}

/// Lets people answer at two processes in turn while one or the other is killed.
fn together(name: &str, binary: &Path, database: &str, kills: usize) -> Result<()> {
    let world = World::make(&Path::new(FOLDER).join("soak"), 2_000 + 700 * kills)?;
    let start = || Server::start(binary, &world, database, PEOPLE, &["--lease", "1"]);
    let mut servers = [start()?, start()?];
    let crowd = Crowd::new(Habits { dawdle: 0.0, ..HABITS }, PATIENCE);
    let mut draws = Draws::new(kills as u64);
    let began = Instant::now();
    let people = servers[0].annotators().into_iter();
    let people = people.map(|(name, client)| (name, client.and_at(servers[1].address())));
    let ((), logs) = crowd.work(people.collect(), |crowd| {
        strike_often(crowd, kills, |kill| {
            std::thread::sleep(BETWEEN.mul_f64(draws.unit()));
            let server = &mut servers[kill % 2];
            server.kill()?;
            server.start_again()
        })
    })?;
    // Leases outlast the test, so no answer may come too late.
    let refused = logs.iter().flat_map(|log| &log.sent).filter(|sent| sent.fate == Fate::Refused);
    let refused = refused.count();
    ensure!(refused == 0, "{name}: {refused} answers of people who had the task were refused");
    report(&format!("{kills} kills, {name}"), &mut servers[0], &logs, began)
}

/// Calls `strike` several times, each time after an acknowledged answer. Stops the crowd when
/// answers come in after the last one.
pub(super) fn strike_often(
    crowd: &Crowd,
    times: usize,
    mut strike: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    for time in 0..times {
        answers_come_in(crowd)?;
        strike(time)?;
    }
    answers_come_in(crowd)?;
    crowd.stop();
    Ok(())
}

/// Prints the result. Returns an error unless all acknowledged answers are stored.
pub(super) fn report(name: &str, server: &mut Server, logs: &[Log], began: Instant) -> Result<()> {
    let answers = verify(server, logs).with_context(|| name.to_owned())?;
    let retries: usize = logs.iter().map(|log| log.retries).sum();
    let seconds = began.elapsed().as_secs_f64();
    println!("{name}: all {answers} answers, {retries} retries, {seconds:.0} s");
    Ok(())
}

/// Checks the stored answers, not those in memory, against the logs. Returns their number.
pub(super) fn verify(server: &mut Server, logs: &[Log]) -> Result<usize> {
    server.kill()?;
    server.start_again()?;
    check(&server.export()?, logs, 1)
}

/// Lets people answer while something strikes again and again, then checks the stored answers.
fn storm(
    name: &str,
    binary: &Path,
    database: &str,
    strikes: usize,
    mut strike: impl FnMut(&mut Server) -> Result<()>,
) -> Result<()> {
    // More tasks than people can answer between strikes.
    let world = World::make(&Path::new(FOLDER).join("soak"), 2_000 + 700 * strikes)?;
    let mut server = Server::start(binary, &world, database, PEOPLE, &["--lease", LEASE])?;
    let crowd = Crowd::new(HABITS, PATIENCE);
    let mut draws = Draws::new(strikes as u64);
    let began = Instant::now();
    let ((), logs) = crowd.work(server.annotators(), |crowd| {
        strike_often(crowd, strikes, |_| {
            std::thread::sleep(BETWEEN.mul_f64(draws.unit()));
            strike(&mut server)
        })
    })?;
    report(&format!("{strikes} {name}"), &mut server, &logs, began)
}

/// Waits for an acknowledged answer.
pub(super) fn answers_come_in(crowd: &Crowd) -> Result<()> {
    let (began, before) = (Instant::now(), crowd.acknowledged());
    while crowd.acknowledged() == before {
        ensure!(crowd.working() > 0, "nobody works any more: tasks ran out, or everybody failed");
        ensure!(began.elapsed() < PATIENCE, "no answer was acknowledged in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
