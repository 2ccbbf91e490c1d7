//! Attacks on the app under a memory limit and with few open files: it keeps answering other people
//! and stays below 1 GiB.
#![cfg(target_os = "linux")]

mod bombs;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::app::App;
use crate::world::nextpair;

/// Memory of a small container.
const MEMORY: u64 = 1 << 30;
/// Width and height of an image of 24 MiB.
const LARGE: (u32, u32) = (4096, 2048);
/// Size of the largest upload the app takes.
const LARGEST: usize = 32 << 20;

/// An app that takes uploads, with a [`LARGE`] image in a folder beside it.
struct Desk {
    folder: tempfile::TempDir,
    app: App,
}

impl Desk {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = nextpair(folder.path(), "import scenes ds --images 80");
        assert_eq!(made.code, Some(0), "{}", made.stderr);
        let at = |name: &str| folder.path().join(name);
        fs::write(at("queue.jsonl"), "{\"rank\":1,\"id\":\"scene-000001\",\"score\":1.0}\n")
            .unwrap();
        fs::create_dir(at("beside")).unwrap();
        fs::write(at("beside/large.bmp"), bombs::bmp(LARGE.0, LARGE.1)).unwrap();
        fs::write(at("beside/two\nlines.bmp"), bombs::bmp(30, 30)).unwrap();
        symlink("/dev/zero", at("beside/zero.png")).unwrap();
        assert!(Command::new("mkfifo").arg(at("beside/pipe.jpg")).status().unwrap().success());
        symlink(at("beside/pipe.jpg"), at("beside/link.jpg")).unwrap();
        let words = "queue.jsonl --dataset ds --pool-side text --images beside --free-disk 0";
        // Without root, only address space can be limited. Every malloc arena reserves addresses
        // that it never uses, so allow few of them.
        let limits =
            format!("export MALLOC_ARENA_MAX=2 && ulimit -v {} && ulimit -n 256", MEMORY / 1024);
        let app = App::start_under(folder.path(), &limits, words, "Ann");
        Desk { folder, app }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.app.address.trim_start_matches("http://")).unwrap();
        // Neither the app nor this test may hang.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Returns the head of a request from `who`.
    fn head(&self, who: &str, line: &str, length: usize) -> String {
        let token = self.app.link(who).rsplit_once('/').unwrap().1;
        format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        )
    }

    /// Sends a request as the lead, who attacks nothing. Returns the status and the body.
    fn ask(&self, line: &str, body: &[u8]) -> (u16, Vec<u8>) {
        self.ask_as("lead", line, body)
    }

    fn ask_as(&self, who: &str, line: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = self.connect();
        stream.write_all(self.head(who, line, body.len()).as_bytes()).unwrap();
        // A server that refuses a request stops reading it.
        let _ = stream.write_all(body);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer");
        let status = String::from_utf8_lossy(&bytes[9..12]).parse().unwrap();
        (status, bytes[end + 4..].to_vec())
    }

    fn json(&self, who: &str, line: &str, body: &[u8]) -> (u16, Value) {
        let (status, bytes) = self.ask_as(who, line, body);
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Asserts that the app answers and that its memory never exceeded the limit.
    fn is_well(&self) {
        assert_eq!(self.ask("GET /health", b"").0, 200);
        assert_eq!(self.json("lead", "GET /api/me", b"").1["uploads"], json!(true));
        let status = fs::read_to_string(format!("/proc/{}/status", self.app.pid())).unwrap();
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let most: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(most * 1024 < MEMORY, "{most} kB");
    }
}

#[test]
fn unfinished_uploads_take_no_memory() {
    let desk = Desk::open();
    let most: Vec<u8> = vec![7; LARGEST - 1];
    let unfinished: Vec<TcpStream> = (0..32)
        .map(|_| {
            let mut stream = desk.connect();
            let _ = stream.write_all(desk.head("Ann", "POST /api/uploads", LARGEST).as_bytes());
            let _ = stream.write_all(&most);
            stream
        })
        .collect();
    desk.is_well();
    // A person may have only two uploads under way.
    let (status, refused) = desk.json("Ann", "POST /api/uploads", b"x");
    assert!(matches!(status, 429 | 503), "{status} {refused}");
    drop(unfinished);
    desk.is_well();
}

#[test]
fn a_small_file_of_many_pixels_is_refused() {
    let desk = Desk::open();
    let bomb = bombs::png(10_000, 10_000);
    assert!(bomb.len() < 5 << 20);
    let (status, refused) = desk.json("Ann", "POST /api/uploads", &bomb);
    let message = refused["message"].as_str().unwrap_or_default();
    assert_eq!(status, 415, "{message}");
    assert!(message.contains("10000 x 10000 pixels; decoding them takes"), "{message}");
    desk.is_well();
    // The largest image the app takes, in the format that needs the most memory.
    let (status, kept) = desk.json("Ann", "POST /api/uploads", &bombs::png(9_000, 6_500));
    assert_eq!(status, 200, "{kept}");
    desk.is_well();
    let uploads = fs::read_dir(desk.folder.path().join("queue.uploads")).unwrap();
    assert_eq!(uploads.count(), 1, "nothing else is left");
}

#[test]
fn unread_images_take_no_memory() {
    let desk = Desk::open();
    let unread: Vec<TcpStream> = (0..60)
        .map(|_| {
            let mut stream = desk.connect();
            let line = "GET /api/images/folder%3Alarge.bmp";
            stream.write_all(desk.head("Ann", line, 0).as_bytes()).unwrap();
            stream
        })
        .collect();
    let status = |mut stream: &TcpStream| {
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        String::from_utf8_lossy(&start[9..]).into_owned()
    };
    let answers: Vec<String> = unread.iter().map(status).collect();
    assert!(answers.iter().all(|status| status == "200" || status == "429"), "{answers:?}");
    assert_eq!(answers.iter().filter(|status| *status == "200").count(), 24, "so many for one");
    desk.is_well();
    let (status, image) = desk.ask("GET /api/images/folder%3Alarge.bmp", b"");
    assert_eq!((status, image.len()), (200, bombs::bmp(LARGE.0, LARGE.1).len()));
    drop(unread);
    desk.is_well();
}

#[test]
fn half_open_connections_keep_nobody_out() {
    let desk = Desk::open();
    let half_open: Vec<TcpStream> = (0..300)
        .map(|number| {
            let mut stream = desk.connect();
            let head = desk.head("Ann", "GET /api/me", 0);
            let part = &head[..number % (head.len() - 1)];
            // The app has closed some connections to make room.
            let _ = stream.write_all(part.as_bytes());
            stream
        })
        .collect();
    desk.is_well();
    drop(half_open);
    desk.is_well();
}

#[test]
fn only_files_with_plain_names_are_offered() {
    let desk = Desk::open();
    let found = desk.json("Ann", "GET /api/search?q=folder&limit=100", b"").1;
    let items: Vec<&str> = found["images"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|found| found["item"].as_str())
        .collect();
    let beside: Vec<&&str> = items.iter().filter(|item| item.starts_with("folder:")).collect();
    assert_eq!(beside, [&"folder:large.bmp"]);
    for odd in ["zero.png", "pipe.jpg", "link.jpg", "two%0Alines.bmp"] {
        assert_eq!(desk.ask(&format!("GET /api/images/folder%3A{odd}"), b"").0, 404, "{odd}");
    }
    // A file may be replaced after the app has started.
    let image = desk.folder.path().join("beside/large.bmp");
    for target in [Path::new("/dev/zero"), &desk.folder.path().join("beside/pipe.jpg")] {
        fs::remove_file(&image).unwrap();
        symlink(target, &image).unwrap();
        assert_eq!(desk.ask("GET /api/images/folder%3Alarge.bmp", b"").0, 404);
    }
    desk.is_well();
}
