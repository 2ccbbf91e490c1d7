//! Kills the annotation app, and the database below it, while people answer, and strains both.

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
/// A little of everything, and faster than people are.
const HABITS: Habits =
    Habits { think: Duration::from_millis(15), twice: 0.05, undo: 0.05, skip: 0.05, dawdle: 0.002 };
/// Seconds, not minutes, so that leases end while it lasts.
const LEASE: &str = "0.05";
/// The longest time between two kills, once answers come in again.
const BETWEEN: Duration = Duration::from_millis(300);
/// How long nothing may go on at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// Kills the app that often on SQLite and on PostgreSQL, alone and with a second process, lets
/// PostgreSQL itself crash `crashes` times below it, and strains disks and clocks that often.
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

/// Lets the disk fail below the app, at every call or at so many.
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
    // Tasks are kept for longer than this lasts, so that nobody's answer comes too late.
    let refused = logs.iter().flat_map(|log| &log.sent).filter(|sent| sent.fate == Fate::Refused);
    let refused = refused.count();
    ensure!(refused == 0, "{name}: {refused} answers of people who had the task were refused");
    report(&format!("{kills} kills, {name}"), &mut servers[0], &logs, began)
}

/// Strikes so many times, each time after somebody's answer was acknowledged, and lets everybody
/// stop when answers come in after the last.
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

/// Says what became of everybody's answers; an error unless all are stored that were acknowledged.
pub(super) fn report(name: &str, server: &mut Server, logs: &[Log], began: Instant) -> Result<()> {
    let answers = verify(server, logs).with_context(|| name.to_owned())?;
    let retries: usize = logs.iter().map(|log| log.retries).sum();
    let seconds = began.elapsed().as_secs_f64();
    println!("{name}: all {answers} answers, {retries} retries, {seconds:.0} s");
    Ok(())
}

/// Holds what is stored, not what a process remembers, against what people were promised: the
/// number of answers.
pub(super) fn verify(server: &mut Server, logs: &[Log]) -> Result<usize> {
    server.kill()?;
    server.start_again()?;
    check(&server.export()?, logs, 1)
}

/// Lets people answer, strikes again and again, and holds what is left against what they were
/// promised.
fn storm(
    name: &str,
    binary: &Path,
    database: &str,
    strikes: usize,
    mut strike: impl FnMut(&mut Server) -> Result<()>,
) -> Result<()> {
    // More than can be answered in between.
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

/// Waits until somebody's answer is acknowledged.
pub(super) fn answers_come_in(crowd: &Crowd) -> Result<()> {
    let (began, before) = (Instant::now(), crowd.acknowledged());
    while crowd.acknowledged() == before {
        ensure!(crowd.working() > 0, "nobody works any more: tasks ran out, or everybody failed");
        ensure!(began.elapsed() < PATIENCE, "no answer was acknowledged in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
