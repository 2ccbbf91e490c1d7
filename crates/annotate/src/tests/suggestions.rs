//! Tests of suggestions: shown, and nobody's answer until accepted or changed.

use std::collections::BTreeMap;

use nextpair_data::Side;
use nextpair_data::queue::Provenance;
use serde_json::{Value, json};

use super::world::{World, on_both, on_sqlite};

const SAID: &str = "A red circle .";

/// Suggests the same for every item of the first two rounds.
fn suggest(settings: &mut crate::Settings) {
    let ids = (0..30).map(|at| format!("scene-{at:06}"));
    settings.suggestions = ids.map(|id| (id, vec![SAID.to_owned()])).collect();
}

async fn task(world: &World, who: &str) -> Value {
    world.ask(&world.as_(who), "POST /api/next", None).await.ok()["task"].clone()
}

async fn say(
    world: &World,
    who: &str,
    key: &str,
    caption: &str,
    accept: bool,
) -> super::world::Reply {
    let item = task(world, who).await["item"].clone();
    let body =
        json!({ "key": key, "item": item, "said": { "captions": [caption] }, "accept": accept });
    world.post(who, "/api/answers", body).await
}

#[test]
fn a_suggestion_is_accepted_or_changed() {
    on_both(suggest, async |world| {
        assert_eq!(task(&world, "ann").await["suggestions"], json!([SAID]));
        assert_eq!(task(&world, "ann").await["draft"], Value::Null, "nobody has typed it");
        let refused = say(&world, "ann", "key-not-accepted", &format!(" {SAID} "), false).await;
        assert_eq!(refused.refusal(), (409, "not_accepted".into()));
        assert!(world.export().await.is_empty(), "a suggestion is no answer");
        let accepted = say(&world, "ann", "key-accepted", SAID, true).await.ok();
        say(&world, "ann", "key-edited", "A blue circle .", false).await.ok();
        let again = say(&world, "ann", "key-accepted", SAID, true).await;
        assert_eq!(again.status, 409, "the key was for another item");
        let body = json!({ "key": "key-skip-it", "item": task(&world, "ann").await["item"],
                           "said": { "skip": "dark" } });
        world.post("ann", "/api/answers", body).await.ok();

        let answers = world.get("ann", "/api/answers").await.ok();
        let told =
            answers["answers"].as_array().unwrap().iter().map(|one| one["provenance"].clone());
        assert_eq!(told.collect::<Vec<_>>(), [json!(null), json!("edited"), json!("accepted")]);
        let lines = world.get("lead", "/api/lead/export?format=jsonl").await.text();
        let line =
            |at: usize| serde_json::from_str::<Value>(lines.lines().nth(at).unwrap()).unwrap();
        assert_eq!(
            (&line(0)["provenance"], &line(0)["caption"]),
            (&json!("accepted"), &json!(SAID))
        );
        assert_eq!(
            (&line(1)["provenance"], &line(2)["provenance"]),
            (&json!("edited"), &Value::Null)
        );
        let sheet = world.get("lead", "/api/lead/export?format=csv").await.text();
        assert!(sheet.lines().next().unwrap().ends_with(",exported,provenance"), "{sheet}");
        let item = &line(0)["id"].as_str().unwrap().to_owned();
        let history = world.get("lead", &format!("/api/lead/history?item={item}")).await.ok();
        assert_eq!(history["events"][0]["what"], "suggested");

        // A lead who corrects an accepted suggestion has edited it.
        let number = accepted["answer"].as_i64().unwrap();
        let body = json!({ "key": "key-lead-revises", "said": { "captions": ["A green one ."] } });
        world.post("lead", &format!("/api/answers/{number}/revise"), body).await.ok();
        assert_eq!(world.again().await.app.state().clone(), world.app.state().clone());
        let close = json!({ "round": 1, "unanswered": "release" });
        world.post("lead", "/api/lead/close", close).await.ok();
        world.look().await;
        let taken = world.run.taken.lock().unwrap().clone();
        let edited = Some(Provenance::Edited);
        assert_eq!([taken[0].1[0].provenance, taken[0].1[1].provenance], [edited, edited]);
        assert!(taken[0].1[2..].iter().all(|answer| answer.provenance.is_none()));
    });
}

#[test]
fn a_later_file_changes_only_what_is_unanswered() {
    on_both(
        |_| {},
        async |mut world| {
            world.caption("ann", "A star .").await;
            assert_eq!(task(&world, "ann").await["suggestions"], json!([]));
            let items: Vec<String> =
                world.batch(1, 5).tasks.into_iter().map(|task| task.id).collect();
            world.settings.suggestions =
                items.iter().map(|id| (id.clone(), vec!["One .".into(), "Two .".into()])).collect();
            let again = world.again().await;
            assert_eq!(task(&again, "ann").await["suggestions"], json!(["One .", "Two ."]));
            let suggested = again.app.state().seq;
            assert_eq!(again.again().await.app.state().seq, suggested, "once");
            let answers = again.get("ann", "/api/answers").await.ok();
            assert_eq!(answers["answers"][0]["provenance"], Value::Null);
            // The next round has its own.
            *world.run.batch.lock().unwrap() = Some(world.batch(2, 5));
            let id = world.batch(2, 5).tasks[0].id.clone();
            world.settings.suggestions = BTreeMap::from([(id, vec!["Three .".to_owned()])]);
            let later = world.again().await;
            later.look().await;
            assert_eq!(task(&later, "ben").await["suggestions"], json!(["Three ."]));
        },
    );
}

#[test]
fn texts_have_no_suggestions() {
    on_sqlite(
        Side::Text,
        |_| {},
        async |mut world| {
            world.settings.suggestions = BTreeMap::from([("a".to_owned(), vec!["b".to_owned()])]);
            let wrong = world.open_again(Side::Text).await.map(drop).unwrap_err().to_string();
            assert!(wrong.contains("suggestions are captions"), "{wrong}");
        },
    );
}
