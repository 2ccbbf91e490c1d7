//! Many clients at once, and two processes on one database.

use std::collections::HashSet;

use serde_json::json;

use super::world::{World, on_both};

/// Captions until nothing is left; returns the acknowledged answers.
async fn work(world: &World, who: &str) -> Vec<(String, String, String)> {
    let mut acknowledged = Vec::new();
    while let Ok(item) = world.next(who).await {
        let caption = format!("{who} saw {item} .");
        let key = format!("key-{who}-{}", acknowledged.len());
        let reply = world.submit(who, &key, &item, &caption).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        acknowledged.push((who.to_owned(), item, caption));
    }
    acknowledged
}

#[test]
fn two_processes_share_one_database() {
    on_both(
        |_| {},
        async |world| {
            *world.run.batch.lock().unwrap() = Some(world.batch(2, 12));
            world.look().await;
            let other = world.again().await;
            let (ann, ben) = tokio::join!(work(&world, "ann"), work(&other, "ben"));
            let acknowledged: HashSet<_> = ann.into_iter().chain(ben).collect();
            let third = world.again().await;
            let export = third.export().await;
            assert_eq!(export.len(), 12);
            assert_eq!(export.into_iter().collect::<HashSet<_>>(), acknowledged);
        },
    );
}

#[test]
fn processes_share_one_queue() {
    on_both(
        |_| {},
        async |world| {
            *world.run.batch.lock().unwrap() = Some(world.batch(2, 12));
            world.look().await;
            let worlds = [world.again().await, world];
            // A person invited through one process is known to the other.
            let new = json!({ "name": "new", "role": "annotator" });
            worlds[0].post("lead", "/api/lead/people", new).await.ok();
            let new = worlds[0].as_("new");
            assert_eq!(worlds[1].ask(&new, "GET /api/me", None).await.status, 200);
            let alternate = async |who: &str, first: usize| {
                let mut answers = 0;
                for number in 0.. {
                    let at = |step: usize| &worlds[(first + number + step) % 2];
                    let Ok(item) = at(0).next(who).await else { break };
                    let draft =
                        json!({ "item": item, "draft": { "captions": ["A"], "image": null } });
                    at(1).ask(&at(1).as_(who), "PUT /api/drafts", Some(draft)).await.ok();
                    at(0).post(who, "/api/renew", json!({ "item": item })).await.ok();
                    let key = format!("key-{who}-{number}");
                    let answer = at(1).submit(who, &key, &item, "A star .").await.ok();
                    let repeated = at(0).submit(who, &key, &item, "A star .").await.ok();
                    assert_eq!(repeated["answer"], answer["answer"]);
                    answers += 1;
                }
                answers
            };
            let (ann, ben) = tokio::join!(alternate("ann", 0), alternate("ben", 1));
            assert_eq!(ann + ben, 12);
            assert!(worlds[0].again().await.app.state().drafts.is_empty());
        },
    );
}

#[test]
fn a_restart_knows_everything() {
    on_both(
        |settings| settings.annotators = 2,
        async |world| {
            let (ann, ben) = tokio::join!(work(&world, "ann"), work(&world, "ben"));
            assert_eq!((ann.len(), ben.len()), (5, 5));
            world.look().await;
            let again = world.again().await;
            assert_eq!(*again.app.state(), *world.app.state());
        },
    );
}

#[test]
fn one_process_sees_what_another_one_did() {
    on_both(
        |_| {},
        async |world| {
            let other = world.again().await;
            let item = world.next("ann").await.unwrap();
            world.submit("ann", "key-seen", &item, "A star .").await.ok();
            let known = async || {
                while other.app.state().seq < world.app.state().seq {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(std::time::Duration::from_secs(30), known()).await.unwrap();
            assert_eq!(other.export().await, world.export().await);
            assert_eq!(*other.app.state(), *world.app.state());
        },
    );
}
