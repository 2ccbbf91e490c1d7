//! A project for tests: generated scenes, a source of batches, and a clock that tests set.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use nextpair_data::Side;
use nextpair_data::dataset::Dataset;
use nextpair_data::import::import_scenes;
use nextpair_data::queue::{Answer, Near, Task, Why};
use nextpair_data::scenes;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

use crate::app::App;
use crate::event::{Millis, Moment};
use crate::{Batch, HandOver, Project, Quota, Settings, Source, rounds, routes};

/// The address on which the app believes that it listens.
const ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 1], 7878);
/// The time at which every test begins.
pub(super) const BEGIN: Millis = 1_800_000_000_000;
pub(super) const MINUTE: Millis = 60_000;

/// A fake run.
#[derive(Default)]
pub(super) struct Run {
    pub(super) batch: Mutex<Option<Batch>>,
    pub(super) taken: Mutex<Vec<(usize, Vec<Answer>)>>,
    pub(super) broken: Mutex<Option<String>>,
    /// Whether no batch follows.
    pub(super) finished: Mutex<bool>,
    /// Whether it got its answers elsewhere.
    pub(super) closed: Mutex<bool>,
}

/// The app's view of the run.
struct RunSource(Arc<Run>);

type Failure = Box<dyn Error + Send + Sync>;

impl Source for RunSource {
    fn batch(&self) -> Result<Option<Batch>, Failure> {
        Ok(self.0.batch.lock().unwrap().clone())
    }

    fn is_finished(&self) -> bool {
        *self.0.finished.lock().unwrap()
    }

    fn hand_over(&self, batch: &Batch, answers: &[Answer]) -> Result<HandOver, Failure> {
        if let Some(what) = self.0.broken.lock().unwrap().clone() {
            return Err(what.into());
        }
        if *self.0.closed.lock().unwrap() {
            return Ok(HandOver::TooLate);
        }
        self.0.taken.lock().unwrap().push((batch.round, answers.to_vec()));
        Ok(HandOver::Taken)
    }
}

/// A project under test, with its clock, its run and its clients.
pub(super) struct World {
    pub(super) folder: Arc<TempDir>,
    pub(super) app: Arc<App>,
    pub(super) run: Arc<Run>,
    pub(super) settings: Settings,
    clock: Arc<TestClock>,
    router: Router,
}

/// The settable clock.
#[derive(Debug)]
struct TestClock {
    wall: AtomicI64,
    tick: AtomicI64,
}

impl TestClock {
    fn at(wall: Millis) -> Arc<Self> {
        Arc::new(TestClock { wall: AtomicI64::new(wall), tick: AtomicI64::new(wall) })
    }
}

/// How a client authenticates.
#[derive(Clone, Debug)]
pub(super) enum Credentials {
    Nothing,
    Token(String),
    /// A cookie, and perhaps a CSRF token.
    Cookie(String, Option<String>),
}

/// A response of the app.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) bytes: Vec<u8>,
}

impl Reply {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The status and the code of a refusal.
    pub(super) fn refusal(&self) -> (u16, String) {
        let code = self.json()["code"].as_str().unwrap_or("").to_owned();
        (self.status.as_u16(), code)
    }

    pub(super) fn ok(self) -> Value {
        assert!(self.status.is_success(), "{} {}", self.status, self.text());
        if self.bytes.is_empty() { Value::Null } else { self.json() }
    }
}

/// Runs a test on SQLite and on PostgreSQL.
pub(super) fn on_both(change: impl Fn(&mut Settings), test: impl AsyncFn(World)) {
    for postgres in [false, true] {
        on(postgres, Side::Image, &change, &test);
    }
}

/// Runs a test on SQLite.
pub(super) fn on_sqlite(pool: Side, change: impl Fn(&mut Settings), test: impl AsyncFn(World)) {
    on(false, pool, &change, &test);
}

fn on(postgres: bool, pool: Side, change: &impl Fn(&mut Settings), test: &impl AsyncFn(World)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let database = if postgres {
            new_database().await
        } else {
            format!("sqlite:{}", folder.path().join("annotate ?.db").display())
        };
        let scenes = scenes::Settings { images: 30, ..scenes::Settings::default() };
        import_scenes(&scenes, &folder.path().join("scenes"), &()).unwrap();
        let mut settings = Settings {
            invite: vec!["ann".to_owned(), "ben".to_owned()],
            grace: None,
            quota: Quota { keep_free: 0, ..Quota::default() },
            ..Settings::new(database)
        };
        change(&mut settings);
        let world = World::open(folder, settings, Arc::default(), (pool, BEGIN)).await;
        *world.run.batch.lock().unwrap() = Some(world.batch(1, 5));
        rounds::update(&world.app).await.unwrap();
        test(world).await;
    });
}

/// Creates a database of our own on the test server.
async fn new_database() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let server = std::env::var("NEXTPAIR_TEST_POSTGRES")
        .expect("run `cargo xtask test`, or set NEXTPAIR_TEST_POSTGRES to a server's address");
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("nextpair_{}_{number}", std::process::id());
    sqlx::any::install_default_drivers();
    let pool = sqlx::AnyPool::connect(&server).await.unwrap();
    for statement in [format!("DROP DATABASE IF EXISTS {name}"), format!("CREATE DATABASE {name}")]
    {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&pool).await.unwrap();
    }
    let (base, _) = server.rsplit_once('/').unwrap();
    format!("{base}/{name}")
}

async fn open(
    folder: &TempDir,
    settings: &Settings,
    run: &Arc<Run>,
    (pool, clock): (Side, &Arc<TestClock>),
) -> Result<Arc<App>, crate::Error> {
    let dataset = Dataset::open(&folder.path().join("scenes")).unwrap();
    let project = Project { dataset, pool, source: Box::new(RunSource(Arc::clone(run))) };
    let time = Arc::clone(clock);
    let now = Arc::new(move || {
        let (wall, tick) = (&time.wall, &time.tick);
        Moment { wall: wall.load(Ordering::SeqCst), tick: tick.load(Ordering::SeqCst) }
    });
    App::open(project, settings, SocketAddr::from(ADDRESS), now).await
}

impl World {
    async fn open(
        folder: Arc<TempDir>,
        settings: Settings,
        run: Arc<Run>,
        (pool, wall): (Side, Millis),
    ) -> Self {
        let clock = TestClock::at(wall);
        let app = open(&folder, &settings, &run, (pool, &clock)).await.unwrap();
        let router = routes::router(&app);
        World { folder, app, run, settings, clock, router }
    }

    /// Tries to open the project again.
    pub(super) async fn open_again(&self, pool: Side) -> Result<Arc<App>, crate::Error> {
        open(&self.folder, &self.settings, &self.run, (pool, &self.clock)).await
    }

    /// Another process that serves the same project, or the same one after a restart.
    pub(super) async fn again(&self) -> World {
        let (folder, run) = (Arc::clone(&self.folder), Arc::clone(&self.run));
        let now = (self.app.pool, self.clock.wall.load(Ordering::SeqCst));
        World::open(folder, self.settings.clone(), run, now).await
    }

    /// The first items of the training split as a batch, each confusable with two others.
    pub(super) fn batch(&self, round: usize, count: usize) -> Batch {
        let items = self.app.catalog.dataset().items();
        let train = items.in_split(Some("train"));
        let why = |at: usize| {
            let item = items.get(train[at % train.len()]);
            let (similarity, threshold, surplus) = (0.75, 0.5, 0.25);
            let (id, caption) = (Some(item.id), item.captions.first().cloned());
            Why { id, caption, similarity, threshold, surplus, ..Why::default() }
        };
        let near = |at: usize| {
            let of_pool = |next: usize| Near::Pool {
                index: (at + next) as u32,
                id: items.get(train[(at + next) % train.len()]).id,
                share: 0.5,
            };
            let item = items.get(train[(at + 2) % train.len()]);
            let (id, caption) = (Some(item.id), item.captions.first().cloned());
            let paired = Near::Paired { pair: 1, pair_id: "1".into(), id, caption, cosine: 0.5 };
            vec![paired, of_pool(3), of_pool(4)]
        };
        let task = |at: usize| Task {
            rank: at + 1,
            id: items.get(train[(round - 1) * count + at]).id,
            score: 1.0 / (at + 1) as f64,
            hits: Some(2),
            why: vec![why(at + 7), why(at + 8)],
            near: near(at),
            ..Task::default()
        };
        Batch { round, tasks: (0..count).map(task).collect() }
    }

    pub(super) fn pass(&self, time: Millis) {
        self.clock.tick.fetch_add(time, Ordering::SeqCst);
        self.jump(time);
    }

    /// Sets the wall clock.
    pub(super) fn jump(&self, time: Millis) {
        self.clock.wall.fetch_add(time, Ordering::SeqCst);
    }

    pub(super) async fn look(&self) {
        rounds::update(&self.app).await.unwrap();
    }

    pub(super) fn token(&self, name: &str) -> String {
        let person = self.app.state().named(name).unwrap().id;
        let link = self.app.link(person).unwrap().0;
        link.rsplit_once('/').unwrap().1.to_owned()
    }

    pub(super) fn as_(&self, name: &str) -> Credentials {
        Credentials::Token(self.token(name))
    }

    /// Sends a request to the app.
    pub(super) async fn ask(&self, shows: &Credentials, line: &str, body: Option<Value>) -> Reply {
        let bytes = body.map(|body| body.to_string().into_bytes());
        self.send(shows, line, bytes, "application/json", "127.0.0.1:7878").await
    }

    pub(super) async fn send(
        &self,
        shows: &Credentials,
        line: &str,
        body: Option<Vec<u8>>,
        kind: &str,
        host: &str,
    ) -> Reply {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, host);
        match shows {
            Credentials::Nothing => {}
            Credentials::Token(token) => {
                request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
            }
            Credentials::Cookie(cookie, csrf) => {
                request = request
                    .header(header::COOKIE, format!("x=y; {}={cookie}", self.app.signer.cookie()));
                if let Some(csrf) = csrf {
                    request = request.header("X-CSRF-Token", csrf);
                }
            }
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        self.call(request.body(Body::from(body.unwrap_or_default())).unwrap()).await
    }

    pub(super) async fn call(&self, request: Request<Body>) -> Reply {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec();
        Reply { status: parts.status, headers: parts.headers, bytes }
    }

    pub(super) async fn post(&self, who: &str, path: &str, body: Value) -> Reply {
        self.ask(&self.as_(who), &format!("POST {path}"), Some(body)).await
    }

    pub(super) async fn get(&self, who: &str, path: &str) -> Reply {
        self.ask(&self.as_(who), &format!("GET {path}"), None).await
    }

    /// The current item of a person, or the reason why there is none.
    pub(super) async fn next(&self, who: &str) -> Result<String, String> {
        let next = self.ask(&self.as_(who), "POST /api/next", None).await.ok();
        match next["task"]["item"].as_str() {
            Some(item) => Ok(item.to_owned()),
            None => Err(next["none"].as_str().unwrap().to_owned()),
        }
    }

    pub(super) async fn submit(&self, who: &str, key: &str, item: &str, caption: &str) -> Reply {
        let body = json!({ "key": key, "item": item, "said": { "captions": [caption] } });
        self.post(who, "/api/answers", body).await
    }

    /// Takes the next task and captions it; returns the number of the answer.
    pub(super) async fn caption(&self, who: &str, caption: &str) -> i64 {
        let item = self.next(who).await.unwrap();
        let key = format!("key-{who}-{}", self.app.state().seq);
        self.submit(who, &key, &item, caption).await.ok()["answer"].as_i64().unwrap()
    }

    /// All answers that stand: person, item and text.
    pub(super) async fn export(&self) -> Vec<(String, String, String)> {
        let lines = self.get("lead", "/api/lead/export?format=jsonl").await;
        assert_eq!(lines.status, 200);
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let line = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            if line["status"].is_string() {
                return None;
            }
            let said = ["caption", "image", "skip"].map(|key| text(&line[key])).concat();
            Some((text(&line["annotator"]), text(&line["id"]), said))
        };
        lines.text().lines().filter_map(line).collect()
    }
}
