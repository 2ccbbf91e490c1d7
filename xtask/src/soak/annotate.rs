//! Kills the annotation app, and the database below it, while people answer.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nextpair_engine::Draws;

use crate::bench::build_nextpair;
use crate::crowd::{Crowd, Habits, Server, World, check};
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

/// Kills the app that often on SQLite and on PostgreSQL, and lets PostgreSQL itself crash
/// `crashes` times below it.
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
    storm("crashes of PostgreSQL", &binary, &postgres.create_database("crashes")?, crashes, crash)
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
        for _ in 0..strikes {
            answers_come_in(crowd)?;
            std::thread::sleep(BETWEEN.mul_f64(draws.unit()));
            strike(&mut server)?;
        }
        answers_come_in(crowd)?;
        crowd.stop();
        Ok(())
    })?;
    // What counts is what is stored, not what the process remembers.
    server.kill()?;
    server.start_again()?;
    let answers = check(&server.export()?, &logs, 1).with_context(|| name.to_owned())?;
    let retries: usize = logs.iter().map(|log| log.retries).sum();
    let seconds = began.elapsed().as_secs_f64();
    println!("{strikes} {name}: all {answers} answers, {retries} retries, {seconds:.0} s");
    Ok(())
}

/// Waits until somebody's answer is acknowledged.
fn answers_come_in(crowd: &Crowd) -> Result<()> {
    let (began, before) = (Instant::now(), crowd.acknowledged());
    while crowd.acknowledged() == before {
        ensure!(crowd.working() > 0, "nobody works any more: tasks ran out, or everybody failed");
        ensure!(began.elapsed() < PATIENCE, "no answer was acknowledged in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
