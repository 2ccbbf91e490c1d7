//! Tests of alerts and of numbers about people.

use serde_json::{Value, json};

use super::world::{World, on_both};

async fn quality(world: &World) -> Value {
    world.get("lead", "/api/lead/quality").await.ok()
}

/// Kinds of alerts by answer, the newest first.
fn alerts(quality: &Value) -> Vec<(String, i64)> {
    let alert = |alert: &Value| {
        (alert["kind"].as_str().unwrap().to_owned(), alert["answer"].as_i64().unwrap())
    };
    quality["alerts"].as_array().unwrap().iter().map(alert).collect()
}

/// Takes the next task, thinks for this long, and captions it.
async fn slowly(world: &World, who: &str, seconds: i64, caption: &str) -> i64 {
    world.next(who).await.unwrap();
    world.pass(1000 * seconds);
    world.caption(who, caption).await
}

fn of(quality: &Value, name: &str) -> Value {
    let people = quality["people"].as_array().unwrap();
    people.iter().find(|person| person["person"]["name"] == name).unwrap().clone()
}

#[test]
fn odd_answers_are_pointed_at() {
    on_both(
        |_| {},
        async |world| {
            let first =
                slowly(&world, "ann", 9, "A tall red tower stands beside two small trees .").await;
            assert!(alerts(&quality(&world).await).is_empty(), "nothing is odd about it");
            let fast =
                slowly(&world, "ann", 1, "Seven blue boats sail over the wide calm sea .").await;
            let copy =
                slowly(&world, "ann", 9, "a tall RED tower stands beside two small trees").await;
            let alike =
                slowly(&world, "ann", 9, "A tall red tower stands beside three small trees .")
                    .await;
            let confusable =
                world.app.state().round().unwrap().slots[4].task.why[1].caption.clone().unwrap();
            let copy_of_reason = slowly(&world, "ann", 60, &confusable).await;
            let found = quality(&world).await;
            let expected = [
                ("copied".to_owned(), copy_of_reason),
                ("alike".to_owned(), alike),
                ("copied".to_owned(), copy),
                ("fast".to_owned(), fast),
            ];
            assert_eq!(alerts(&found), expected);
            assert_eq!((&found["alerts"][2]["of"], &found["total"]), (&json!(first), &json!(4)));
            assert_eq!(
                (&of(&found, "ann")["alerts"], &of(&found, "ben")["alerts"]),
                (&json!(4), &json!(0))
            );

            // The lead dismisses one and returns another one.
            let path = format!("/api/answers/{fast}/dismiss");
            for _ in 0..2 {
                assert_eq!(world.post("lead", &path, Value::Null).await.status, 204);
            }
            assert_eq!(world.post("ann", &path, Value::Null).await.refusal().0, 403);
            let unknown = world.post("lead", "/api/answers/9999/dismiss", Value::Null).await;
            assert_eq!(unknown.refusal().0, 404);
            let back = json!({ "key": "key-return-it", "note": "Which tower?" });
            world.post("lead", &format!("/api/answers/{copy}/return"), back).await.ok();
            let found = quality(&world.again().await).await;
            assert_eq!(alerts(&found).len(), 2);
            assert_eq!(of(&found, "ann")["returned"], 1);
            assert_eq!(*world.again().await.app.state(), *world.app.state());
        },
    );
}

#[test]
fn people_have_numbers() {
    on_both(
        |settings| {
            settings.annotators = 2;
            settings.gold_share = 0.2;
            let known = vec!["A red circle above a star .".to_owned()];
            settings.gold = [("scene-000020".to_owned(), known)].into();
            let ids = (0..30).map(|at| format!("scene-{at:06}"));
            settings.suggestions = ids.map(|id| (id, vec!["Said by a program .".into()])).collect();
        },
        async |world| {
            for (who, caption) in [("ann", "A red circle above a star ."), ("ben", "Two cats")] {
                for number in 0..6 {
                    let item = world.next(who).await.unwrap();
                    world.pass(20_000);
                    let gold = item == "scene-000020";
                    let caption = match number {
                        0 if !gold => "Said by a program .",
                        _ => caption,
                    };
                    let key = format!("key-{who}-{item}");
                    let body = json!({ "key": key, "item": item, "said": { "captions": [caption] },
                                       "accept": true });
                    world.post(who, "/api/answers", body).await.ok();
                }
            }
            let found = quality(&world).await;
            let (ann, ben) = (of(&found, "ann"), of(&found, "ben"));
            assert_eq!((&ann["gold_answers"], &ann["gold_score"]), (&json!(1), &json!(1.0)));
            assert_eq!((&ben["gold_answers"], &ben["gold_score"]), (&json!(1), &json!(0.0)));
            assert_eq!(ann["agreement"], json!(0.0), "accepted suggestions agree with nobody");
            assert_eq!(ann["agreement"], ben["agreement"]);
            let accepted = ann["suggestions_accepted"].as_i64().unwrap();
            assert_eq!(accepted + ann["suggestions_edited"].as_i64().unwrap(), 6);
            assert!(alerts(&found).iter().any(|(kind, _)| kind == "gold"));
            let copies = alerts(&found).into_iter().filter(|(kind, _)| kind == "copied").count();
            assert!(copies >= 4, "ann says the same about everything: {copies}");
            assert_eq!(world.get("ann", "/api/lead/quality").await.refusal().0, 403);
        },
    );
}
