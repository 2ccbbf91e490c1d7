//! Tests of review: what is sampled, who may judge, and what is finished.

use std::time::Duration;

use nextpair_data::queue::Said;
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
fn a_round_that_is_closed_early_leaves_out_what_waits() {
    for unreviewed in ["skip", "accept"] {
        on_both(all, async |world| {
            let one = world.caption("ann", "A star .").await;
            world.caption("ann", "Two stars .").await;
            judge(&world, "eve", one, "accept", json!({})).await.ok();
            let close = json!({ "round": 1, "unanswered": "skip" });
            let refused = world.post("lead", "/api/lead/close", close.clone()).await;
            assert_eq!(refused.refusal(), (409, "unreviewed".into()));
            let mut close = close;
            close["unreviewed"] = json!(unreviewed);
            world.post("lead", "/api/lead/close", close).await.ok();
            world.look().await;
            let taken = world.run.taken.lock().unwrap()[0].1.clone();
            let captions = taken.iter().filter(|answer| matches!(answer.said, Said::Caption(_)));
            assert_eq!(captions.count(), if unreviewed == "accept" { 2 } else { 1 });
            let reviewed = |answer: &nextpair_data::queue::Answer| matches!(&answer.said, Said::Skip(why) if why.contains("not been reviewed"));
            let left_out = taken.iter().filter(|answer| reviewed(answer)).count();
            assert_eq!((taken.len(), left_out), (5, usize::from(unreviewed == "skip")));
        });
    }
}
