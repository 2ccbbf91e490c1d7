//! The annotation app embedded in another program, which supplies the listener, the shutdown signal
//! and the picks, and receives the answers:
//!
//! ```text
//! cargo run --release -p nextpair-annotate --example embedded
//! ```
//!
//! Here a client answers both picks over HTTP; people would open their link in a browser.
#![allow(clippy::print_stdout, reason = "an example talks to a terminal")]

use std::error::Error;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use nextpair_annotate::{Batch, HandOver, Log, Project, Server, Settings, Source};
use nextpair_data::Side;
use nextpair_data::dataset::Dataset;
use nextpair_data::import::import_scenes;
use nextpair_data::queue::{Answer, Task};
use nextpair_data::scenes;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

type Failure = Box<dyn Error + Send + Sync>;

/// One batch in memory, whose answers go to a channel.
struct InMemory {
    batch: Batch,
    answers: mpsc::Sender<Vec<Answer>>,
}

impl Source for InMemory {
    fn batch(&self) -> Result<Option<Batch>, Failure> {
        Ok(Some(self.batch.clone()))
    }

    fn hand_over(&self, _: &Batch, answers: &[Answer]) -> Result<HandOver, Failure> {
        self.answers.send(answers.to_vec())?;
        Ok(HandOver::Taken)
    }
}

fn main() -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let (sender, receiver) = mpsc::channel();
    let dataset = pictures(folder.path())?;
    let batch = Batch { round: 1, tasks: vec![task(&dataset, 1), task(&dataset, 2)] };
    let source = Box::new(InMemory { batch, answers: sender });
    let project = Project { dataset, pool: Side::Image, source };
    let settings = Settings {
        invite: vec!["Ann".to_owned()],
        // A complete round closes at once.
        grace: Some(Duration::ZERO),
        log: Log::new(|line| println!("{line}")),
        ..Settings::new(format!("sqlite:{}", folder.path().join("answers.db").display()))
    };
    // Any runtime, listener and shutdown future will do.
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let server = Server::open(listener, project, &settings).await?;
        println!("the app is at http://{}/", server.address());
        let ann = server.invitations().iter().find(|invitation| invitation.name == "Ann");
        let link = ann.ok_or("Ann was not invited")?.link.clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let client = tokio::task::spawn_blocking(move || {
            annotate(&link)?;
            let answers = receiver.recv()?;
            let _ = stop.send(());
            Ok::<_, Failure>(answers)
        });
        // This also completes if the client fails, which drops the sender.
        let shutdown = async {
            let _ = stopped.await;
        };
        server.run(shutdown, std::future::pending()).await?;
        let answers = client.await??;
        for Answer { id, said, .. } in &answers {
            println!("{id}: {said:?}");
        }
        assert_eq!(answers.len(), 2);
        Ok(())
    })
}

/// A dataset of generated pictures.
fn pictures(folder: &Path) -> Result<Dataset, Failure> {
    let folder = folder.join("scenes");
    import_scenes(&scenes::Settings { images: 30, ..scenes::Settings::default() }, &folder, &())?;
    Ok(Dataset::open(&folder)?)
}

/// A pick. A strategy would add its reasons.
fn task(dataset: &Dataset, rank: usize) -> Task {
    let id = dataset.items().get(rank).id;
    Task { rank, id, score: 1.0 / rank as f64, ..Task::default() }
}

/// Answers every task as the person whom this link signs in.
fn annotate(link: &str) -> Result<(), Failure> {
    let (app, token) = link.split_once("/join/").ok_or("not a link")?;
    let health: Value = ureq::get(format!("{app}/health")).call()?.body_mut().read_json()?;
    assert_eq!(health["status"], "ok");
    let post = |path: &str, body: Value| -> Result<Value, Failure> {
        let request = ureq::post(format!("{app}{path}"));
        let request = request.header("Authorization", format!("Bearer {token}"));
        Ok(request.send_json(body)?.body_mut().read_json()?)
    };
    let mut next = post("/api/next", json!({}))?;
    while let Some(item) = next["task"]["item"].as_str() {
        let said = json!({ "captions": [format!("A picture called {item} .")] });
        let answer = json!({ "key": format!("answer-{item}"), "item": item, "said": said });
        next = post("/api/answers", answer)?["next"].take();
    }
    Ok(())
}

#[test]
fn it_ends_with_both_answers() {
    main().unwrap();
}
