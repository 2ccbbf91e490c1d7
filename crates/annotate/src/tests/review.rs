//! Tests of review: what is sampled, who may judge, and what is finished.

use std::time::Duration;

use nextpair_data::queue::{Answer, AnswerContent};
use serde_json::{Value, json};

use super::world::{MINUTE, Reply, World, on_both};

fn all(settings: &mut crate::Settings) {
    settings.review = Some(1.0);
    settings.reviewers = vec!["eve".to_owned()];
    settings.grace = Some(Duration::from_secs(60));
}

async fn waiting(world: &World, who: &str) -> Vec<i64> {
    let list = world.get(who, "/api/review").await.ok();
    let answers = list["answers"].as_array().unwrap();
    assert_eq!(list["waiting"], answers.len());
    answers.iter().map(|answer| answer["answer"].as_i64().unwrap()).collect()
}

async fn judge(world: &World, who: &str, answer: i64, what: &str, body: Value) -> Reply {
    let mut body = body;
    body["key"] = json!(format!("key-{who}-{what}-{answer}"));
    world.post(who, &format!("/api/answers/{answer}/{what}"), body).await
}

#[test]
fn answers_are_accepted_corrected_and_returned() {
    on_both(all, async |world| {
        let mut given = Vec::new();
        for number in 0..5 {
            given.push(world.caption("ann", &format!("{number} stars .")).await);
        }
        assert_eq!(waiting(&world, "eve").await, given);
        assert_eq!(world.get("ann", "/api/review").await.refusal().0, 403);
        let mine = world.get("ann", "/api/answers").await.ok();
        assert!(mine["answers"].as_array().unwrap().iter().all(|one| one["review"].is_null()));
        world.pass(5 * MINUTE);
        world.look().await;
        assert!(world.export().await.is_empty(), "what waits is not finished");
        assert!(world.app.state().round().unwrap().is_open());

        // Annotators judge nothing, and learn nothing about the answers of others.
        for (what, body) in [("accept", json!({})), ("return", json!({ "note": "x" }))] {
            let refused = judge(&world, "ben", given[0], what, body).await.refusal().0;
            assert_eq!(refused, 403, "{what}");
        }
        let better = json!({ "said": { "captions": ["Six stars ."] } });
        assert_eq!(judge(&world, "ben", given[0], "revise", better.clone()).await.refusal().0, 404);
        for _ in 0..2 {
            judge(&world, "eve", given[0], "accept", json!({})).await.ok();
        }
        judge(&world, "eve", given[1], "revise", better.clone()).await.ok();
        judge(&world, "eve", given[2], "return", json!({ "note": "Where?" })).await.ok();
        judge(&world, "lead", given[3], "accept", json!({})).await.ok();
        let late = judge(&world, "lead", given[0], "accept", json!({})).await;
        assert_eq!(late.refusal(), (409, "reviewed".into()));
        let late = judge(&world, "eve", given[3], "revise", better).await;
        assert_eq!(late.refusal(), (409, "reviewed".into()));
        assert_eq!(waiting(&world, "eve").await, [given[4]]);
        let texts: Vec<String> = world.export().await.into_iter().map(|(.., text)| text).collect();
        assert_eq!(texts, ["0 stars .", "Six stars .", "3 stars ."]);

        // The author sees the note; the new answer waits again, and so does one they change.
        let task = world.ask(&world.as_("ann"), "POST /api/next", None).await.ok();
        assert_eq!(task["task"]["note"], "Where?");
        let again = world.caption("ann", "2 stars above a house .").await;
        let changed = json!({ "said": { "captions": ["No stars ."] } });
        let changed = judge(&world, "ann", given[0], "revise", changed).await.ok();
        let changed = changed["answer"].as_i64().unwrap();
        assert_eq!(waiting(&world, "eve").await, [given[4], again, changed]);
        let overview = world.get("lead", "/api/lead/overview").await.ok();
        assert_eq!((&overview["waiting"], &overview["closes_at"]), (&json!(3), &Value::Null));
        let states = world.get("lead", "/api/lead/answers").await.ok();
        let states = states["answers"].as_array().unwrap().clone();
        let states: Vec<&str> = states.iter().filter_map(|one| one["review"].as_str()).collect();
        assert!(states.contains(&"corrected") && states.contains(&"accepted"), "{states:?}");
        assert_eq!(*world.again().await.app.state(), *world.app.state());
        for answer in [given[4], again, changed] {
            judge(&world, "eve", answer, "accept", json!({})).await.ok();
        }
        world.pass(MINUTE);
        world.look().await;
        assert_eq!(world.run.taken.lock().unwrap()[0].1.len(), 5);
        let closed = judge(&world, "lead", again, "accept", json!({})).await;
        assert_eq!(closed.refusal(), (409, "round_closed".into()));
    });
}

#[test]
fn nobody_reviews_themselves_and_leads_need_no_review() {
    on_both(all, async |world| {
        let own = world.caption("eve", "A star .").await;
        world.caption("lead", "Two stars .").await;
        assert_eq!(waiting(&world, "lead").await, [own]);
        assert!(waiting(&world, "eve").await.is_empty());
        assert_eq!(judge(&world, "eve", own, "accept", json!({})).await.refusal().0, 404);
        judge(&world, "lead", own, "accept", json!({})).await.ok();
        assert_eq!(world.export().await.len(), 2);
    });
}

#[test]
fn a_share_is_drawn_by_item() {
    on_both(
        |settings| settings.review = Some(0.5),
        async |world| {
            let sampled = |share: f64| {
                let state = world.app.state();
                let round = state.round().unwrap();
                let ids = (0..4000).map(|number| format!("item {number}"));
                ids.filter(|id| round.is_sampled(id, share)).collect::<Vec<_>>()
            };
            let half = sampled(0.5);
            assert!((1850..2150).contains(&half.len()), "{}", half.len());
            assert!(sampled(0.2).iter().all(|id| half.contains(id)), "a larger share adds");
            assert!(sampled(0.0).is_empty() && sampled(1.0).len() == 4000);
            // Another share is for answers to come.
            let lead = world.as_("lead");
            let set = async |share: f64| {
                world.ask(&lead, "PUT /api/lead/review", Some(json!({ "share": share }))).await
            };
            set(0.0).await.ok();
            world.caption("ann", "A star .").await;
            assert_eq!(set(1.5).await.refusal().0, 422);
            set(1.0).await.ok();
            assert!(waiting(&world, "lead").await.is_empty());
            world.caption("ann", "Two stars .").await;
            assert_eq!(waiting(&world, "lead").await.len(), 1);
        },
    );
}

#[test]
fn a_round_that_is_closed_early_keeps_what_waits_for_review() {
    for unreviewed in ["keep", "accept"] {
        on_both(all, async |world| {
            let one = world.caption("ann", "A star .").await;
            world.caption("ann", "Two stars .").await;
            judge(&world, "eve", one, "accept", json!({})).await.ok();
            let close = json!({ "round": 1, "unanswered": "release" });
            let refused = world.post("lead", "/api/lead/close", close.clone()).await;
            assert_eq!(refused.refusal(), (409, "unreviewed".into()));
            let mut close = close;
            close["unreviewed"] = json!(unreviewed);
            world.post("lead", "/api/lead/close", close).await.ok();
            world.look().await;
            let taken = world.run.taken.lock().unwrap()[0].1.clone();
            let is_caption = |answer: &Answer| matches!(answer.said, AnswerContent::Caption(_));
            assert!(taken.iter().all(is_caption), "nobody refused anything");
            assert_eq!(taken.len(), if unreviewed == "accept" { 2 } else { 1 });
        });
    }
}

#[test]
fn the_review_of_a_closed_round_can_be_finished_and_its_answers_are_handed_over() {
    on_both(all, async |world| {
        let mut given = Vec::new();
        for number in 0..4 {
            given.push(world.caption("ann", &format!("{number} stars .")).await);
        }
        let close = json!({ "round": 1, "unanswered": "release", "unreviewed": "keep" });
        world.post("lead", "/api/lead/close", close).await.ok();
        world.look().await;
        assert!(world.run.taken.lock().unwrap()[0].1.is_empty(), "nothing is finished yet");
        let overview = world.get("lead", "/api/lead/overview").await.ok();
        let expected = json!({ "answered": 0, "refused": 0, "unreviewed": 4, "unanswered": 1 });
        assert_eq!((&overview["outcomes"], &overview["waiting"]), (&expected, &json!(4)));

        // The run goes on, and the answers of the first round wait on.
        *world.run.batch.lock().unwrap() = Some(world.batch(2, 5));
        world.look().await;
        let other = world.caption("ben", "A moon .").await;
        assert_eq!(waiting(&world, "eve").await, [&given[..], &[other]].concat());
        // Their author can take nothing back any more.
        let late = judge(&world, "ann", given[0], "undo", json!({})).await;
        assert_eq!(late.refusal(), (409, "round_closed".into()));
        let better = json!({ "said": { "captions": ["Six stars ."] } });
        let late = judge(&world, "ann", given[0], "revise", better.clone()).await;
        assert_eq!(late.refusal(), (409, "round_closed".into()));
        judge(&world, "eve", given[0], "accept", json!({})).await.ok();
        judge(&world, "lead", given[1], "revise", better).await.ok();
        // An answer that is returned now leaves its item in the pool.
        judge(&world, "eve", given[2], "return", json!({ "note": "Where?" })).await.ok();
        world.look().await;
        for world in [&world, &world.again().await] {
            assert_eq!(waiting(world, "eve").await, [given[3], other]);
            world.look().await;
            let taken = world.run.taken.lock().unwrap().clone();
            assert_eq!(taken.len(), 2, "once more, and not again");
            let texts: Vec<&AnswerContent> = taken[1].1.iter().map(|answer| &answer.said).collect();
            let expected =
                ["0 stars .", "Six stars ."].map(|text| AnswerContent::Caption(text.into()));
            assert_eq!((taken[1].0, texts), (1, expected.iter().collect()));
        }
        let late = judge(&world, "lead", given[0], "accept", json!({})).await;
        assert_eq!(late.refusal(), (409, "round_closed".into()));
        assert!(world.next("ann").await.is_ok());
        let lines = world.get("lead", "/api/lead/export?format=jsonl&round=1").await.text();
        let lines: Vec<Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let status: Vec<&str> = lines.iter().filter_map(|line| line["status"].as_str()).collect();
        assert_eq!(status, ["unanswered", "unreviewed", "unanswered"]);
        assert_eq!(lines.len(), 5);
        assert_eq!(*world.again().await.app.state(), *world.app.state());
    });
}

#[test]
fn an_item_that_was_asked_in_two_rounds_is_exported_once() {
    on_both(
        |_| {},
        async |world| {
            world.caption("ann", "A star .").await;
            let close = json!({ "round": 1, "unanswered": "release" });
            world.post("lead", "/api/lead/close", close).await.ok();
            let mut again = world.batch(1, 5);
            again.tasks.remove(0);
            again.round = 2;
            *world.run.batch.lock().unwrap() = Some(again);
            world.look().await;
            let taken = world.run.taken.lock().unwrap().clone();
            assert_eq!((taken.len(), taken[0].1.len()), (1, 1), "only what somebody said");
            world.caption("ann", "A moon .").await;
            let studio = world.get("lead", "/api/lead/export?format=label-studio").await.ok();
            let tasks = studio.as_array().unwrap();
            let annotations = |task: &Value| task["annotations"].as_array().unwrap().len();
            assert_eq!(tasks.iter().map(annotations).collect::<Vec<_>>(), [1, 1, 0, 0, 0]);
            assert_eq!(tasks[1]["data"]["status"], "answered");
            assert_eq!(tasks[2]["data"]["status"], "unanswered");
        },
    );
}
