//! Tests of gold: mixed in, not to be told from other tasks, scored, never exported.

use std::collections::{BTreeMap, BTreeSet};

use nextpair_data::Side;
use serde_json::{Value, json};

use super::world::{World, on_both, on_sqlite};

/// Known captions of some items that are in no batch: batches take the first ones.
fn gold(settings: &mut crate::Settings) {
    let ids = ["scene-000020", "scene-000021", "scene-000022"];
    settings.gold = ids.map(|id| (id.to_owned(), vec!["A red circle .".to_owned()])).into();
    settings.gold_share = 0.4;
}

fn is_gold(item: &str) -> bool {
    ["scene-000020", "scene-000021", "scene-000022"].contains(&item)
}

async fn answer_all(world: &World, who: &str) -> Vec<Value> {
    let mut tasks = Vec::new();
    loop {
        let next = world.ask(&world.as_(who), "POST /api/next", None).await.ok();
        if next["task"].is_null() {
            return tasks;
        }
        let item = next["task"]["item"].as_str().unwrap().to_owned();
        let caption = if is_gold(&item) { "A red circle" } else { "Something else" };
        world.submit(who, &format!("key-of-{item}"), &item, caption).await.ok();
        tasks.push(next["task"].clone());
    }
}

#[test]
fn gold_is_mixed_in_and_never_handed_over() {
    on_both(gold, async |world| {
        let tasks = answer_all(&world, "ann").await;
        assert_eq!(tasks.len(), 7, "five tasks and two gold ones");
        let keys =
            |task: &Value| task.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
        let mut golden = 0;
        for (at, task) in tasks.iter().enumerate() {
            golden += usize::from(is_gold(task["item"].as_str().unwrap()));
            assert_eq!(task["rank"], at + 1);
            assert_eq!((keys(task), &task["hits"]), (keys(&tasks[0]), &json!(2)));
            let why = task["why"].as_array().unwrap();
            assert_eq!(why.len(), 2, "{task}");
            assert!(why.iter().all(|why| why["item"] != task["item"]), "{task}");
            let near = task["near"].as_array().unwrap();
            let paired: Vec<&Value> = near.iter().map(|near| &near["paired"]).collect();
            assert_eq!(paired, [&json!(true), &json!(false), &json!(false)], "{task}");
            assert!(near.iter().all(|near| near["item"] != task["item"]), "{task}");
        }
        assert_eq!(golden, 2);
        let scores: Vec<f64> = tasks.iter().map(|task| task["score"].as_f64().unwrap()).collect();
        assert!(scores.is_sorted_by(|one, other| one >= other), "{scores:?}");
        let mine = world.get("ann", "/api/answers").await.ok();
        assert!(mine["answers"].as_array().unwrap().iter().all(|one| one["gold"].is_null()));
        assert_eq!(world.get("ann", "/api/me").await.ok()["round"]["tasks"], 7);

        let seen = world.get("lead", "/api/lead/answers").await.ok();
        let scored =
            seen["answers"].as_array().unwrap().iter().filter_map(|one| one["gold"].as_f64());
        assert_eq!(scored.collect::<Vec<_>>(), [1.0, 1.0]);
        let queue = world.get("lead", "/api/lead/queue").await.ok();
        let marked = queue["tasks"].as_array().unwrap().iter().filter(|task| task["gold"] == true);
        assert_eq!(marked.count(), 2);
        assert_eq!(world.get("lead", "/api/lead/overview").await.ok()["gold"], 2);
        let exported = world.export().await;
        assert_eq!(exported.len(), 5);
        assert!(exported.iter().all(|(_, item, _)| !is_gold(item)));
        let studio = world.get("lead", "/api/lead/export?format=label-studio").await.ok();
        assert_eq!(studio.as_array().unwrap().len(), 5);
        assert_eq!(*world.again().await.app.state(), *world.app.state());

        world.post("lead", "/api/lead/close", json!({ "round": 1 })).await.ok();
        world.look().await;
        assert_eq!(world.run.taken.lock().unwrap()[0].1.len(), 5);
        // The next round has the gold that is left, and nothing twice.
        *world.run.batch.lock().unwrap() = Some(world.batch(2, 5));
        world.look().await;
        let tasks = answer_all(&world, "ben").await;
        assert_eq!(tasks.len(), 6, "five tasks and the last gold one");
    });
}

#[test]
fn gold_is_not_reviewed() {
    on_both(
        |settings| {
            gold(settings);
            settings.review = Some(1.0);
        },
        async |world| {
            answer_all(&world, "ann").await;
            assert_eq!(world.get("lead", "/api/review").await.ok()["waiting"], 5);
        },
    );
}

#[test]
fn texts_have_known_images() {
    on_sqlite(
        Side::Text,
        |settings| {
            let known = vec!["scene-000004".to_owned()];
            settings.gold = BTreeMap::from([("scene-000020".to_owned(), known)]);
        },
        async |world| {
            for _ in 0..6 {
                let item = world.next("ann").await.unwrap();
                let body = json!({ "key": format!("key-of-{item}"), "item": item,
                                   "said": { "image": "scene-000004" } });
                world.post("ann", "/api/answers", body).await.ok();
            }
            let seen = world.get("lead", "/api/lead/answers").await.ok();
            let seen = seen["answers"].as_array().unwrap().clone();
            let scored: Vec<&Value> = seen.iter().filter(|one| !one["gold"].is_null()).collect();
            assert_eq!((scored.len(), &scored[0]["gold"]), (1, &json!(1.0)));
        },
    );
}
