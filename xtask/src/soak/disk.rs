//! Disks that fail, fill up or are slow below the annotation app, clocks that jump, and clients that
//! never finish what they ask for.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::annotate::{answers_come_in, report, strike_often, verify};
use super::faults::{BROKEN, FULL, Fault, Faults, OPENS, SYNCS, WRITES};
use crate::crowd::{Crowd, Habits, Server, World};
use crate::servers::Postgres;

const FOLDER: &str = "target/crowd";
const SQLITE: &str = "sqlite:captions.sqlite";
const SQLITE_FILES: &str = "captions.sqlite";
/// Answers of a session in which one call fails, and those who give them.
const ANSWERS: usize = 200;
const FEW: usize = 4;
/// How long nothing may go on at all.
const PATIENCE: Duration = Duration::from_secs(60);
const DAY: i64 = 24 * 60 * 60 * 1000;
/// Clients that never finish what they ask for.
const SLOW: usize = 300;
/// People at a disk that is full or slow.
const PEOPLE: usize = 20;
const HABITS: Habits =
    Habits { think: Duration::from_millis(20), twice: 0.05, undo: 0.05, skip: 0.05, dawdle: 0.0 };

/// How the n-th call fails: once, for good until so many calls later, and in the middle of a write.
fn fault(number: u64) -> Fault {
    let kinds = WRITES | SYNCS | OPENS;
    let (calls, error, tear) = match number % 3 {
        0 => (1, FULL, true),
        1 => (1, BROKEN, false),
        _ => (40, FULL, false),
    };
    Fault { from: number, calls, error, kinds, tear }
}

/// Plays the same session again and again, every time with another call to the disk that fails:
/// the first `sessions` of all, evenly spread, or every one. Acknowledged is stored, always.
pub(super) fn fail_calls(binary: &Path, sessions: Option<usize>) -> Result<()> {
    let faults = Faults::new(&Path::new(FOLDER).join("faults"), SQLITE_FILES)?;
    let began = Instant::now();
    faults.clear()?;
    let (_, calls) = session(binary, &faults, None)?;
    let (mut played, mut retries) = (0, 0);
    for number in spread(calls, sessions) {
        let (again, _) = session(binary, &faults, Some(fault(number)))
            .with_context(|| format!("call {number} of {calls} fails: {:?}", fault(number)))?;
        (played, retries) = (played + 1, retries + again);
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{played} of {calls} calls failed, one or forty a session: all {ANSWERS} answers in every \
         session, {retries} retries, {seconds:.0} s"
    );
    Ok(())
}

/// Starts the app again and again at a database with answers in it, every time with another call
/// that fails. Whether or not it starts, the next start finds everything.
pub(super) fn fail_starts(binary: &Path, starts: Option<usize>) -> Result<()> {
    let faults = Faults::new(&Path::new(FOLDER).join("faults"), SQLITE_FILES)?;
    let began = Instant::now();
    let world = World::make(&Path::new(FOLDER).join("session"), ANSWERS)?;
    faults.clear()?;
    let mut server = Server::start_in(faults.environment(), binary, &world, SQLITE, FEW, &[])?;
    let crowd = Crowd::new(Habits::default(), PATIENCE);
    let ((), logs) = crowd.work(server.annotators(), everybody_is_done)?;
    server.kill()?;
    faults.clear()?;
    server.start_again()?;
    let calls = faults.calls()?;
    let (mut tried, mut failed) = (0, 0);
    for number in spread(calls, starts) {
        server.kill()?;
        faults.set_fault(fault(number))?;
        (tried, failed) = (tried + 1, failed + usize::from(server.start_again().is_err()));
        faults.clear()?;
        let answers = verify(&mut server, &logs).with_context(|| format!("call {number}"))?;
        ensure!(answers == ANSWERS, "{answers} answers to {ANSWERS} tasks");
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{tried} of {calls} calls failed at a start, which {failed} starts said: all {ANSWERS} \
         answers after each, {seconds:.0} s"
    );
    Ok(())
}

/// Numbers of calls, evenly spread: at most so many, or all of them.
fn spread(calls: u64, most: Option<usize>) -> impl Iterator<Item = u64> {
    let stride = most.map_or(1, |most| calls.div_ceil(most as u64).max(1));
    (1..=calls).step_by(stride as usize)
}

fn everybody_is_done(crowd: &Crowd) -> Result<()> {
    while crowd.working() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// One session: retries, and calls to the disk.
fn session(binary: &Path, faults: &Faults, fault: Option<Fault>) -> Result<(usize, u64)> {
    let world = World::make(&Path::new(FOLDER).join("session"), ANSWERS)?;
    faults.clear()?;
    let mut server =
        Server::start_in(faults.environment(), binary, &world, SQLITE, FEW, &["--lease", "1"])?;
    // From here on, calls are counted.
    faults.clear()?;
    fault.map_or(Ok(()), |fault| faults.set_fault(fault))?;
    let crowd = Crowd::new(Habits::default(), PATIENCE);
    let ((), logs) = crowd.work(server.annotators(), everybody_is_done)?;
    let calls = faults.calls()?;
    faults.clear()?;
    let answers = verify(&mut server, &logs)?;
    ensure!(answers == ANSWERS, "{answers} answers to {ANSWERS} tasks");
    Ok((logs.iter().map(|log| log.retries).sum(), calls))
}

/// Lets people answer while the disk is full for a moment, `times` times, while it is slow, while the
/// clock jumps a day ahead and back, and among clients that never finish.
pub(super) fn strain(binary: &Path, postgres: &Postgres, times: usize) -> Result<()> {
    let folder = Path::new(FOLDER).join("faults");
    let sqlite = Faults::new(&folder, SQLITE_FILES)?;
    let no_space = Fault { from: 1, calls: u64::MAX, error: FULL, kinds: WRITES, tear: false };
    let fill = |faults: &Faults, crowd: &Crowd| -> Result<()> {
        answers_come_in(crowd)?;
        faults.set_fault(no_space)?;
        std::thread::sleep(Duration::from_millis(150));
        faults.clear()
    };
    let full = |crowd: &Crowd, _: &str| fill(&sqlite, crowd);
    under("full disks on SQLite", binary, SQLITE, &sqlite, times, full)?;
    let slow = |crowd: &Crowd, _: &str| {
        sqlite.delay_syncs(200_000)?;
        answers_come_in(crowd)?;
        sqlite.clear()
    };
    under("slow disks on SQLite", binary, SQLITE, &sqlite, times, slow)?;
    let jump = |crowd: &Crowd, _: &str| {
        for ahead in [DAY, 0, -DAY, 0] {
            sqlite.shift_clock(ahead)?;
            answers_come_in(crowd)?;
        }
        Ok(())
    };
    under("clock jumps on SQLite", binary, SQLITE, &sqlite, times, jump)?;
    let half_asked = |crowd: &Crowd, address: &str| {
        let held = ask_in_halves(address)?;
        answers_come_in(crowd)?;
        drop(held);
        Ok(())
    };
    under("crowds of slow clients on SQLite", binary, SQLITE, &sqlite, times, half_asked)?;
    // Below PostgreSQL itself: tables that cannot grow are errors, a log that cannot be written
    // brings the server down.
    for (name, files) in [("tables", "base/"), ("log", "pg_wal/")] {
        let faults = Faults::new(&std::env::temp_dir().join("nextpair-faults"), files)?;
        faults.clear()?;
        postgres.restart_in(faults.environment())?;
        let database = postgres.create_database(&format!("full_{name}"))?;
        let fill = |crowd: &Crowd, _: &str| {
            fill(&faults, crowd)?;
            postgres.ensure_running(faults.environment())
        };
        let title = format!("full disks for the {name} of PostgreSQL");
        under(&title, binary, &database, &sqlite, times, fill)?;
    }
    postgres.restart()
}

/// Connections that ask for something and never get to its end: some stop in the head, some in the
/// body.
fn ask_in_halves(address: &str) -> Result<Vec<TcpStream>> {
    let host = address.strip_prefix("http://").context("an address without http")?;
    let head = format!("POST /api/answers HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4000\r\n");
    let mut held = Vec::new();
    for number in 0..SLOW {
        let mut connection = TcpStream::connect(host)?;
        let end = if number % 2 == 0 { "" } else { "\r\n{\"key\":" };
        connection.write_all(format!("{head}{end}").as_bytes())?;
        held.push(connection);
    }
    Ok(held)
}

/// Lets people answer below one kind of strain, and holds what is left against what they were
/// promised.
fn under(
    name: &str,
    binary: &Path,
    database: &str,
    faults: &Faults,
    times: usize,
    mut strain: impl FnMut(&Crowd, &str) -> Result<()>,
) -> Result<()> {
    faults.clear()?;
    let world = World::make(&Path::new(FOLDER).join("soak"), 3_000 + 1_500 * times)?;
    let mut server = Server::start_in(faults.environment(), binary, &world, database, PEOPLE, &[])?;
    let crowd = Crowd::new(HABITS, PATIENCE);
    let began = Instant::now();
    let ((), logs) = crowd.work(server.annotators(), |crowd| {
        strike_often(crowd, times, |_| strain(crowd, server.address()))
    })?;
    report(&format!("{times} {name}"), &mut server, &logs, began)
}
