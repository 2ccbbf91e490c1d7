//! Tests of opening, closing and handing over rounds.

use nextpair_data::Side;
use nextpair_data::queue::AnswerContent;
use serde_json::{Value, json};

use super::world::{MINUTE, World, on_both, on_sqlite};
use crate::rounds;

fn as_is(_: &mut crate::Settings) {}

async fn put(world: &World, path: &str, body: Value) {
    world.ask(&world.as_("lead"), &format!("PUT {path}"), Some(body)).await.ok();
}

async fn close(world: &World, body: Value) -> super::world::Reply {
    world.post("lead", "/api/lead/close", body).await
}

#[test]
fn a_pause_lets_people_finish() {
    on_both(as_is, async |world| {
        let item = world.next("ann").await.unwrap();
        put(&world, "/api/lead/pause", json!({ "paused": true })).await;
        assert_eq!(world.next("ben").await.unwrap_err(), "paused");
        let next = world.submit("ann", "key-paused", &item, "A star .").await.ok();
        assert_eq!(next["next"]["none"], "paused");
        assert_eq!(world.get("ann", "/api/me").await.ok()["paused"], true);
        put(&world, "/api/lead/pause", json!({ "paused": false })).await;
        assert!(world.next("ben").await.is_ok());
    });
}

#[test]
fn a_lead_closes_a_round_and_the_run_gets_what_people_said() {
    on_both(as_is, async |world| {
        let answer = world.caption("ann", "A star .").await;
        let dark = world.next("ben").await.unwrap();
        let skip = json!({ "key": "key-skip", "item": dark, "said": { "skip": "dark" } });
        world.post("ben", "/api/answers", skip).await.ok();
        let item = world.next("ann").await.unwrap();
        assert_eq!(
            close(&world, json!({ "round": 1 })).await.refusal(),
            (409, "unanswered".into())
        );
        assert_eq!(
            close(&world, json!({ "round": 2, "unanswered": "release" })).await.refusal().0,
            409
        );
        let skip = json!({ "round": 1, "unanswered": "release" });
        assert_eq!(close(&world, skip.clone()).await.ok()["state"], "closed");
        assert_eq!(close(&world, skip).await.ok()["state"], "closed", "once more is no harm");
        let late = world.submit("ann", "key-late-1", &item, "Late .").await;
        assert_eq!(late.refusal(), (409, "round_closed".into()));
        let undo = world
            .post("ann", &format!("/api/answers/{answer}/undo"), json!({ "key": "undo-late" }))
            .await;
        assert_eq!(undo.refusal(), (409, "round_closed".into()));
        assert_eq!(world.next("ann").await.unwrap_err(), "closed");
        // The run cannot be reached at first.
        *world.run.broken.lock().unwrap() = Some("the folder is locked".into());
        let wrong = rounds::update(&world.app).await.unwrap_err().to_string();
        assert!(wrong.contains("safe") && wrong.contains("the folder is locked"), "{wrong}");
        *world.run.broken.lock().unwrap() = None;
        // Another process can do it later.
        let again = world.again().await;
        again.look().await;
        again.look().await;
        {
            let taken = world.run.taken.lock().unwrap();
            assert_eq!(taken.len(), 1, "once");
            let (round, answers) = &taken[0];
            assert_eq!((*round, answers.len()), (1, 2), "three go back to the pool");
            assert_eq!(answers[0].said, AnswerContent::Caption("A star .".into()));
            assert_eq!(answers[0].annotator.as_deref(), Some("ann"));
            assert_eq!(answers[1].said, AnswerContent::Skip("dark".into()));
        }
        // The next batch of the run opens the next round.
        *world.run.batch.lock().unwrap() = None;
        again.look().await;
        assert_eq!(again.next("ann").await.unwrap_err(), "closed");
        *world.run.batch.lock().unwrap() = Some(world.batch(2, 5));
        again.look().await;
        assert_eq!(again.next("ann").await.unwrap(), world.batch(2, 5).tasks[0].id);
        let me = again.get("ann", "/api/me").await.ok();
        assert_eq!((&me["round"]["number"], &me["answered"]), (&json!(2), &json!(0)));
        let first = again.get("lead", "/api/lead/export?format=jsonl&round=1").await;
        assert_eq!(first.text().matches("\"status\":\"unanswered\"").count(), 3);
        assert_eq!(first.text().lines().count(), 5);
    });
}

#[test]
fn a_complete_round_closes_by_itself() {
    on_both(
        |settings| settings.grace = Some(std::time::Duration::from_secs(60)),
        async |world| {
            let mut last = 0;
            for number in 0..5 {
                last = world.caption("ann", &format!("{number} stars .")).await;
            }
            assert_eq!(world.next("ann").await.unwrap_err(), "done");
            world.pass(MINUTE / 2);
            world.look().await;
            // People change their minds.
            world
                .post("ann", &format!("/api/answers/{last}/undo"), json!({ "key": "undo-last" }))
                .await
                .ok();
            world.pass(2 * MINUTE);
            world.look().await;
            assert!(world.run.taken.lock().unwrap().is_empty());
            assert!(world.get("lead", "/api/lead/overview").await.ok()["closes_at"].is_null());
            world.caption("ann", "Many stars .").await;
            assert!(world.get("lead", "/api/lead/overview").await.ok()["closes_at"].is_i64());
            world.pass(MINUTE - 1);
            world.look().await;
            assert!(world.run.taken.lock().unwrap().is_empty());
            world.pass(1);
            world.look().await;
            let taken = world.run.taken.lock().unwrap().clone();
            assert_eq!((taken[0].0, taken[0].1.len()), (1, 5));
            assert_eq!(taken[0].1[4].said, AnswerContent::Caption("Many stars .".into()));
        },
    );
}

#[test]
fn a_run_that_goes_on_elsewhere_is_followed() {
    on_both(as_is, async |world| {
        world.caption("ann", "A star .").await;
        *world.run.batch.lock().unwrap() = Some(world.batch(2, 5));
        world.look().await;
        assert_eq!(world.get("ann", "/api/me").await.ok()["round"]["number"], 2);
        assert!(world.run.taken.lock().unwrap().is_empty());
        assert_eq!(world.export().await.len(), 1, "nothing is lost");
        // Other picks for a known round, or a run that started anew, are not mixed in.
        let mut other = world.batch(2, 5);
        other.tasks.reverse();
        for (batch, expected) in [(other, "round 2"), (world.batch(1, 5), "round 1 waits")] {
            *world.run.batch.lock().unwrap() = Some(batch);
            let wrong = rounds::update(&world.app).await.unwrap_err().to_string();
            assert!(wrong.contains(expected) && wrong.contains("another database"), "{wrong}");
        }
    });
}

#[test]
fn a_closed_round_says_so() {
    on_both(as_is, async |world| {
        world.caption("ann", "A star .").await;
        let me = world.get("ann", "/api/me").await.ok();
        assert_eq!((&me["round"]["closed_at"], &me["finished"]), (&Value::Null, &json!(false)));
        close(&world, json!({ "round": 1, "unanswered": "release" })).await.ok();
        let closed_at = json!(super::world::BEGIN);
        world.pass(MINUTE);
        *world.run.finished.lock().unwrap() = true;
        // Who comes late, by their first request or their tenth, is told the same.
        for world in [&world, &world.again().await] {
            assert_eq!(world.next("ben").await.unwrap_err(), "closed");
            let me = world.get("ben", "/api/me").await.ok();
            assert_eq!((&me["round"]["state"], &me["finished"]), (&json!("closed"), &json!(true)));
            assert_eq!(me["round"]["closed_at"], closed_at);
        }
        world.look().await;
        let overview = world.get("lead", "/api/lead/overview").await.ok();
        assert_eq!(overview["round"]["handed_over"], true);
        assert_eq!(overview["finished"], true);
    });
}

#[test]
fn exports_come_in_every_form() {
    on_both(as_is, async |world| {
        world.caption("ann", "A star, \"red\" .").await;
        let item = world.next("ben").await.unwrap();
        let skip = json!({ "key": "key-skip", "item": item, "said": { "skip": "dark" } });
        world.post("ben", "/api/answers", skip).await.ok();
        for (form, kind, expected) in [
            ("jsonl", "application/x-ndjson", "{\"id\":"),
            ("csv", "text/csv", "id,image,score"),
            ("coco", "application/json", "\"annotations\""),
            ("label-studio", "application/json", "\"predictions\""),
        ] {
            let file = world.get("lead", &format!("/api/lead/export?format={form}")).await;
            assert!(file.headers["content-type"].to_str().unwrap().starts_with(kind));
            assert!(
                file.headers["content-disposition"].to_str().unwrap().starts_with("attachment")
            );
            assert!(
                file.text().contains(expected) && file.text().contains("red"),
                "{}",
                file.text()
            );
        }
        let studio = world.get("lead", "/api/lead/export?format=label-studio").await.ok();
        assert_eq!(studio[0]["data"]["score"], studio[0]["predictions"][0]["score"]);
        assert_eq!(world.get("lead", "/api/lead/export?format=xml").await.refusal().0, 400);
        assert_eq!(world.get("lead", "/api/lead/export?format=csv&round=7").await.refusal().0, 404);
    });
}

#[test]
fn what_was_not_stored_is_not_handed_over() {
    on_sqlite(Side::Image, as_is, async |world| {
        world.caption("ann", "A star .").await;
        // Another process locks the database for a moment.
        let url = world.settings.database.replace(" ?", " %3F") + "?mode=rw";
        let pool = sqlx::AnyPool::connect(&url).await.unwrap();
        let mut blocker = pool.acquire().await.unwrap();
        sqlx::query("BEGIN EXCLUSIVE").execute(&mut *blocker).await.unwrap();
        let skip = json!({ "round": 1, "unanswered": "release" });
        let (closed, looked) =
            tokio::join!(close(&world, skip.clone()), rounds::update(&world.app));
        assert_eq!(closed.refusal(), (503, "unavailable".into()));
        assert!(world.app.state().round().unwrap().is_open());
        assert!(world.run.taken.lock().unwrap().is_empty(), "{looked:?}");
        sqlx::query("ROLLBACK").execute(&mut *blocker).await.unwrap();
        // The round is open, and new answers count.
        let second = world.caption("ben", "Two stars .").await;
        assert!(second > 0);
        close(&world, skip).await.ok();
        world.look().await;
        let taken = world.run.taken.lock().unwrap().clone();
        let captions =
            taken[0].1.iter().filter(|answer| matches!(answer.said, AnswerContent::Caption(_)));
        assert_eq!((taken.len(), captions.count()), (1, 2));
    });
}

#[test]
fn answers_that_come_too_late_do_not_stop_the_next_round() {
    on_both(as_is, async |world| {
        world.caption("ann", "A star .").await;
        close(&world, json!({ "round": 1, "unanswered": "release" })).await.ok();
        *world.run.closed.lock().unwrap() = true;
        world.look().await;
        *world.run.batch.lock().unwrap() = Some(world.batch(2, 5));
        world.look().await;
        assert_eq!(world.next("ann").await.unwrap(), world.batch(2, 5).tasks[0].id);
        assert_eq!(world.export().await.len(), 1, "they stay here");
        // A page left open on the last round gets the error that it is over.
        let old = world.batch(1, 5).tasks[1].id.clone();
        for (line, body) in [
            (
                "POST /api/answers",
                json!({ "key": "key-old-tab", "item": old, "said": { "skip": "late" } }),
            ),
            ("POST /api/renew", json!({ "item": old })),
            ("PUT /api/drafts", json!({ "item": old, "draft": { "captions": [], "image": null } })),
        ] {
            let refused = world.ask(&world.as_("ann"), line, Some(body)).await;
            assert_eq!(refused.refusal(), (409, "round_closed".into()), "{line}");
        }
    });
}
