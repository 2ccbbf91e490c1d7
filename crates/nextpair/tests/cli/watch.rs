//! `nextpair watch`: what it serves, to whom, and that it disturbs nobody.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use serde_json::Value;

use crate::annotate::app::Process;
use crate::scenario::{Lab, files_below};

/// Watches an experiment on a free port. Returns the address as well.
pub(crate) fn watch(folder: &Path, words: &str) -> (Process, String) {
    let mut process = Process::start(folder, &format!("watch {words} --port 0"), "watch.log");
    let address = process.until("it listens", |said| {
        let (_, rest) = said.split_once(" is at http://")?;
        Some(rest.split_once('/')?.0.to_owned())
    });
    (process, address)
}

/// Sends a request. Returns the status and the body. No answer lets inline scripts or styles in.
fn ask(address: &str, method: &str, path: &str, host: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let policy = head.lines().find_map(|line| line.strip_prefix("content-security-policy: "));
    let policy = policy.unwrap_or_else(|| panic!("{path} has no policy: {head}"));
    assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn get(address: &str, path: &str) -> String {
    let (status, body) = ask(address, "GET", path, address);
    assert_eq!(status, 200, "{path}: {body}");
    body
}

fn status(address: &str) -> Value {
    serde_json::from_str(&get(address, "/status")).unwrap()
}

/// Returns every file with its bytes and its time.
fn files(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let read = |path: PathBuf| {
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        (path.clone(), (fs::read(path).unwrap(), modified))
    };
    files_below(folder).into_iter().map(read).collect()
}

/// Leaves only the first lines of a journal, and a part of the next one.
pub(crate) fn cut_journal(whole: &str, path: &Path, lines: usize) {
    let ends: Vec<usize> = whole.match_indices('\n').map(|(at, _)| at + 1).collect();
    let kept = lines.checked_sub(1).map_or(0, |last| ends[last]);
    fs::write(path, &whole[..(kept + 40).min(whole.len())]).unwrap();
}

#[test]
fn an_experiment_is_watched_while_it_runs() {
    let lab = Lab::new(80);
    let mut run = lab.start("run e.toml --epochs 30 --out run");
    let manifest = lab.path("run/experiment.json");
    let ended = |run: &mut std::process::Child| run.try_wait().unwrap();
    while !manifest.exists() {
        assert!(ended(&mut run).is_none_or(|status| status.success()));
        std::thread::yield_now();
    }
    let (mut process, address) = watch(&lab.path(""), "run --price 0.5 --currency EUR");
    assert!(get(&address, "/").contains("id=\"live\""));
    let last = process.until("it is finished", |_| {
        let news = status(&address);
        assert_eq!(news["all"], 5);
        (news["last"] == true).then_some(news)
    });
    assert_eq!((&last["done"], &last["activity"]), (&5.into(), &"finished".into()));
    assert!(run.wait().unwrap().success(), "nobody disturbed it");
    let page = get(&address, "/");
    for part in ["EUR", "Learning curves", "What was picked, and why", "data-last=\"true\""] {
        assert!(page.contains(part), "{part}");
    }
    // Ctrl-C ends it.
    let pid = process.pid().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(process.end().code(), Some(0));
}

#[test]
fn watching_writes_nothing_and_takes_no_lock() {
    let lab = Lab::new(60);
    lab.succeeds("run e.toml --out run");
    let whole = lab.read("run/rounds.jsonl");
    cut_journal(&whole, &lab.path("run/rounds.jsonl"), 3);
    let before = files(&lab.path("run"));
    let (_process, address) = watch(&lab.path(""), "run");
    let page = get(&address, "/");
    assert!(page.contains("3 of 5 trainings done"));
    let news = status(&address);
    assert_eq!((&news["done"], &news["last"]), (&3.into(), &false.into()));
    if cfg!(target_os = "linux") {
        assert_eq!(news["activity"], "stopped");
        // The lock of whoever runs it, held by this test.
        let lock = fs::File::open(lab.path("run/.lock")).unwrap();
        lock.lock().unwrap();
        assert_eq!(status(&address)["activity"], "running");
    }
    assert!(files(&lab.path("run")) == before, "nothing was written");
    // Goes on beside it, to the end.
    lab.succeeds("run run --resume");
    crate::annotate::driver::until("it is finished", || {
        (status(&address)["last"] == true).then_some(())
    });

    for (method, path, host, expected) in [
        ("GET", "/nothing", address.as_str(), 404),
        ("GET", "/../run/rounds.jsonl", &address, 404),
        ("POST", "/", &address, 405),
        ("DELETE", "/status", &address, 405),
        ("GET", "/", "evil.example", 403),
        ("GET", "/status", "localhost.evil.example:80", 403),
        ("GET", "/status", "[::1].evil.com", 403),
        ("GET", "/status", "[::1]:80junk", 403),
        ("GET", "/status", "localhost", 200),
    ] {
        assert_eq!(ask(&address, method, path, host).0, expected, "{method} {path} {host}");
    }
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let lab = Lab::new(60);
    lab.succeeds("run e.toml --strategies random --rounds 1 --out run");
    for (words, says) in [
        ("watch nothing --port 0", "nothing"),
        ("watch ds --port 0", "ds"),
        ("watch run --port 0 --price=-1", "not a price"),
        ("watch run --port 0 --currency doubloons", "not a currency"),
        ("watch run --port 0 --dataset nothing", "nothing"),
        ("watch run --port 0 --host no.such.host.invalid", "no.such.host.invalid"),
        ("watch run --port 0 --threads 0", "threads"),
    ] {
        lab.refused(words, says);
    }
}
