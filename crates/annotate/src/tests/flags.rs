//! Tests of flags: put aside, answered by the lead, and back with whoever asked.

use std::time::Duration;

use serde_json::{Value, json};

use super::world::{MINUTE, Reply, World, on_both};

async fn flag(world: &World, who: &str, key: &str, item: &str, note: &str) -> Reply {
    world.post(who, "/api/flags", json!({ "key": key, "item": item, "note": note })).await
}

async fn flags(world: &World) -> Vec<Value> {
    world.get("lead", "/api/lead/flags").await.ok()["flags"].as_array().unwrap().clone()
}

async fn resolve(world: &World, who: &str, key: &str, flag: &Value, note: &str) -> Reply {
    let path = format!("/api/lead/flags/{flag}/resolve");
    world.post(who, &path, json!({ "key": key, "note": note })).await
}

#[test]
fn a_flagged_task_waits_for_the_lead() {
    on_both(
        |settings| settings.grace = Some(Duration::from_secs(60)),
        async |world| {
            let item = world.next("ann").await.unwrap();
            let draft = json!({ "item": item, "draft": { "captions": ["A s"], "image": null } });
            world.ask(&world.as_("ann"), "PUT /api/drafts", Some(draft)).await.ok();
            assert_eq!(flag(&world, "ann", "key-flag-0", &item, "  ").await.refusal().0, 422);
            let next = flag(&world, "ann", "key-flag-1", &item, "Is it a star?").await.ok();
            assert_ne!(next["task"]["item"], json!(item), "she goes on with the next one");
            assert_eq!(flag(&world, "ann", "key-flag-1", &item, "Is it a star?").await.status, 200);
            // Nobody is handed it, also after a restart, and nobody can flag what is not theirs.
            let again = world.again().await;
            assert_ne!(again.next("ben").await.unwrap(), item);
            let other = flag(&world, "ben", "key-flag-2", &item, "Mine?").await;
            assert_eq!(other.refusal(), (409, "lease_lost".into()));
            for _ in 0..4 {
                world.caption("ann", "A star .").await;
                world.pass(11 * MINUTE);
            }
            world.look().await;
            assert_eq!(world.next("ann").await.unwrap_err(), "waiting");
            assert_eq!(world.get("lead", "/api/lead/overview").await.ok()["flags"], 1);

            let seen = flags(&world).await;
            assert_eq!((seen.len(), &seen[0]["note"]), (1, &json!("Is it a star?")));
            assert_eq!((&seen[0]["item"], &seen[0]["resolved"]), (&json!(item), &Value::Null));
            let number = &seen[0]["flag"];
            assert_eq!(resolve(&world, "ann", "key-not-lead", number, "x").await.refusal().0, 403);
            for _ in 0..2 {
                assert_eq!(
                    resolve(&world, "lead", "key-of-lead", number, "Yes.").await.status,
                    204
                );
            }
            let late = resolve(&world, "lead", "key-too-late", number, "No.").await;
            assert_eq!(late.refusal(), (409, "resolved".into()));
            assert_eq!(
                resolve(&world, "lead", "key-nothing", &json!(999), "").await.refusal().0,
                404
            );
            assert_eq!(flags(&world).await[0]["resolved"]["note"], "Yes.");
            // It is kept for whoever asked, with the answer and what was typed.
            assert_eq!(world.next("ben").await.unwrap_err(), "waiting");
            let task = world.ask(&world.as_("ann"), "POST /api/next", None).await.ok();
            assert_eq!(task["task"]["item"], json!(item));
            assert_eq!(task["task"]["reply"], "Yes.");
            assert_eq!(task["task"]["draft"]["captions"][0], "A s");
            world.caption("ann", "A star, surely .").await;
            assert!(world.get("lead", "/api/lead/overview").await.ok()["closes_at"].is_i64());
            let history = world.get("lead", &format!("/api/lead/history?item={item}")).await.ok();
            let what: Vec<&str> = history["events"]
                .as_array()
                .unwrap()
                .iter()
                .map(|event| event["what"].as_str().unwrap())
                .collect();
            assert_eq!(what, ["leased", "flagged", "resolved", "answered"]);
            assert_eq!(*world.again().await.app.state(), *world.app.state());
        },
    );
}

#[test]
fn an_answer_can_be_flagged_and_stays() {
    on_both(
        |settings| settings.grace = Some(Duration::from_secs(60)),
        async |world| {
            for _ in 0..5 {
                world.caption("ann", "A star .").await;
            }
            let item = world.batch(1, 5).tasks[2].id.clone();
            flag(&world, "ann", "key-of-flag", &item, "Not sure.").await.ok();
            let twice = flag(&world, "ann", "key-of-more", &item, "Still.").await;
            assert_eq!(twice.refusal(), (409, "already_flagged".into()));
            assert_eq!(world.export().await.len(), 5);
            world.pass(5 * MINUTE);
            world.look().await;
            assert!(world.run.taken.lock().unwrap().is_empty(), "the lead has not seen it");
            let number = flags(&world).await[0]["flag"].clone();
            resolve(&world, "lead", "key-resolves", &number, "").await;
            assert_eq!(world.next("ann").await.unwrap_err(), "done");
            world.pass(MINUTE);
            world.look().await;
            assert_eq!(world.run.taken.lock().unwrap().len(), 1);
            let closed = flag(&world, "ann", "key-closed", &item, "Late.").await;
            assert_eq!(closed.refusal(), (409, "round_closed".into()));
        },
    );
}
