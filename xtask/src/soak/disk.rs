//! Disks that fail, fill up or are slow under the annotation app, clocks that jump, and clients
//! that never finish a request.

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
/// Number of answers in a session with one fault, and of people.
const ANSWERS: usize = 200;
const FEW: usize = 4;
/// Maximum time without any progress.
const PATIENCE: Duration = Duration::from_secs(60);
const DAY: i64 = 24 * 60 * 60 * 1000;
/// Number of clients that never finish a request.
const SLOW: usize = 300;
/// Number of people on a full or slow disk.
const PEOPLE: usize = 20;
const HABITS: Habits =
    Habits { think: Duration::from_millis(20), twice: 0.05, undo: 0.05, skip: 0.05, dawdle: 0.0 };

/// Returns the fault at the n-th call: one torn write, one failing call, or a disk full for 40
/// calls.
fn fault(number: u64) -> Fault {
    let kinds = WRITES | SYNCS | OPENS;
    let (calls, error, tear) = match number % 3 {
        0 => (1, FULL, true),
        1 => (1, BROKEN, false),
        _ => (40, FULL, false),
    };
    Fault { from: number, calls, error, kinds, tear }
}

/// Repeats a session, each time with another failing disk call: at most `sessions` of them, evenly
/// spread, or all. Acknowledged answers must always be stored.
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

/// Restarts the app on a database with answers, each time with another failing disk call. Whether
/// or not it starts, the next start must find all answers.
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

/// Returns the numbers of at most `most` calls, evenly spread, or of all.
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

/// Runs one session. Returns the number of retries and of disk calls.
fn session(binary: &Path, faults: &Faults, fault: Option<Fault>) -> Result<(usize, u64)> {
    let world = World::make(&Path::new(FOLDER).join("session"), ANSWERS)?;
    faults.clear()?;
    let mut server =
        Server::start_in(faults.environment(), binary, &world, SQLITE, FEW, &["--lease", "1"])?;
    // Count calls from here on.
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

/// Lets people answer while the disk is full for a moment (`times` times), while it is slow, while
/// the clock jumps a day ahead and back, and among clients that never finish a request.
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
    // Under PostgreSQL itself: tables that cannot grow give errors, and a log that cannot be
    // written stops the server.
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

/// Opens connections with unfinished requests. Some stop in the head, some in the body.
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

/// Lets people answer under one kind of strain, then checks the stored answers.
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
