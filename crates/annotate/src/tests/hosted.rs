//! The app in a host: over a real socket, with the host's shutdown and log.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use nextpair_data::Side;
use nextpair_data::dataset::Dataset;
use nextpair_data::import::import_scenes;
use nextpair_data::queue::Answer;
use nextpair_data::scenes;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::world::on_sqlite;
use crate::{Batch, HandOver, Log, Project, Server, Settings, Source};

/// A source without batches.
struct NoBatches;

impl Source for NoBatches {
    fn batch(&self) -> Result<Option<Batch>, Box<dyn Error + Send + Sync>> {
        Ok(None)
    }

    fn hand_over(&self, _: &Batch, _: &[Answer]) -> Result<HandOver, Box<dyn Error + Send + Sync>> {
        Ok(HandOver::Taken)
    }
}

/// A running app, and the ways to end it.
struct RunningApp {
    address: SocketAddr,
    lead: String,
    shutdown: oneshot::Sender<()>,
    cut_off: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), crate::Error>>,
}

async fn open(folder: &Path) -> Result<Server, crate::Error> {
    let data = folder.join("scenes");
    if !data.exists() {
        let scenes = scenes::Settings { images: 20, ..scenes::Settings::default() };
        import_scenes(&scenes, &data, &()).unwrap();
    }
    let dataset = Dataset::open(&data).unwrap();
    let project = Project { dataset, pool: Side::Image, source: Box::new(NoBatches) };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let database = folder.join("db").join("answers.db");
    let settings = Settings {
        invite: vec!["ann".to_owned()],
        ..Settings::new(format!("sqlite:{}", database.display()))
    };
    Server::open(listener, project, &settings).await
}

fn run(server: Server) -> RunningApp {
    let (shutdown, told) = oneshot::channel::<()>();
    let (cut_off, told_again) = oneshot::channel::<()>();
    let address = server.address();
    let invitations = server.invitations();
    let names: Vec<&str> = invitations.iter().map(|invited| invited.name.as_str()).collect();
    assert_eq!(names, ["lead", "ann"]);
    let prefix = format!("http://{address}/join/");
    let lead = invitations[0].link.strip_prefix(&prefix).unwrap().to_owned();
    let ended = tokio::spawn(server.run(
        async {
            told.await.unwrap();
        },
        async {
            told_again.await.unwrap();
        },
    ));
    RunningApp { address, lead, shutdown, cut_off, ended }
}

fn hosted(test: impl AsyncFn(&Path)) {
    let folder: TempDir = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("db")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(test(folder.path()));
}

async fn health(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Starts a request whose body does not arrive, and waits until it is in progress.
async fn unfinished(app: &RunningApp) -> TcpStream {
    let mut stream = TcpStream::connect(app.address).await.unwrap();
    let (address, token) = (app.address, &app.lead);
    let head = format!(
        "POST /api/check HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The app asks for the body.
    let mut begun = [0; 12];
    stream.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 100");
    stream
}

/// Waits for the end of a connection, however it comes.
async fn end(mut stream: TcpStream) {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
}

#[test]
fn a_host_ends_the_app() {
    hosted(async |folder| {
        let app = run(open(folder).await.unwrap());
        assert!(health(app.address).await.starts_with("HTTP/1.1 200"));
        app.shutdown.send(()).unwrap();
        app.ended.await.unwrap().unwrap();
        assert!(TcpStream::connect(app.address).await.is_err(), "nobody listens");
        // The database is closed: SQLite leaves one file behind and not three.
        assert_eq!(std::fs::read_dir(folder.join("db")).unwrap().count(), 1);
        // And it can be opened again, also in the same process.
        let again = run(open(folder).await.unwrap());
        again.shutdown.send(()).unwrap();
        again.ended.await.unwrap().unwrap();
    });
}

#[test]
fn a_host_need_not_wait_for_requests() {
    hosted(async |folder| {
        let app = run(open(folder).await.unwrap());
        let slow = unfinished(&app).await;
        app.shutdown.send(()).unwrap();
        tokio::task::yield_now().await;
        assert!(!app.ended.is_finished(), "somebody has not got their answer");
        app.cut_off.send(()).unwrap();
        app.ended.await.unwrap().unwrap();
        end(slow).await;
    });
}

#[test]
fn a_host_may_drop_the_app() {
    hosted(async |folder| {
        let app = run(open(folder).await.unwrap());
        let slow = unfinished(&app).await;
        app.ended.abort();
        assert!(app.ended.await.unwrap_err().is_cancelled());
        end(slow).await;
        assert!(TcpStream::connect(app.address).await.is_err());
    });
}

#[test]
fn lines_go_to_the_host() {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    on_sqlite(
        Side::Image,
        |settings| {
            let lines = Arc::clone(&lines);
            settings.log = Log::new(move |line| lines.lock().unwrap().push(line.to_owned()));
        },
        async |world| {
            let skip = json!({ "round": 1, "unanswered": "release" });
            world.post("lead", "/api/lead/close", skip).await.ok();
            world.look().await;
        },
    );
    assert_eq!(
        *lines.lock().unwrap(),
        [
            "round 1 is closed, and its answers are handed over: 0 answered, 0 refused, 5 back in the pool"
        ]
    );
}
