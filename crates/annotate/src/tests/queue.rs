//! Tests of handing out tasks and taking answers.

use serde_json::json;

use super::world::{MINUTE, on_both, on_sqlite};
use nextpair_data::Side;

fn as_is(_: &mut crate::Settings) {}

#[test]
fn a_task_is_leased_to_one_person() {
    on_both(as_is, async |world| {
        let items: Vec<String> = world.batch(1, 5).tasks.into_iter().map(|task| task.id).collect();
        assert_eq!(world.next("ann").await.unwrap(), items[0], "most wanted first");
        assert_eq!(world.next("ben").await.unwrap(), items[1]);
        assert_eq!(world.next("ann").await.unwrap(), items[0], "asking again changes nothing");
        assert_eq!(
            world.submit("ben", "key-wrong", &items[0], "A star .").await.refusal(),
            (409, "lease_lost".into())
        );
        let next = world.submit("ann", "key-ann-1", &items[0], " A star . ").await.ok();
        assert_eq!(next["next"]["task"]["item"], items[2].as_str());
        assert_eq!(world.export().await, [("ann".into(), items[0].clone(), "A star .".into())]);
        let twice = world.submit("ann", "key-ann-2", &items[0], "Two stars .").await;
        assert_eq!(twice.refusal(), (409, "already_answered".into()));
    });
}

#[test]
fn a_task_goes_on_when_its_time_is_over() {
    on_both(as_is, async |world| {
        let first = world.next("ann").await.unwrap();
        world.pass(9 * MINUTE);
        world.post("ann", "/api/renew", json!({ "item": first })).await.ok();
        world.pass(9 * MINUTE);
        assert_ne!(world.next("ben").await.unwrap(), first, "renewed in time");
        world.pass(4 * MINUTE);
        // The lease has expired, but nobody else has taken the task.
        let late = world.post("ann", "/api/renew", json!({ "item": first })).await;
        assert_eq!(late.status, 200);
        world.pass(13 * MINUTE);
        assert_eq!(world.next("lead").await.unwrap(), first);
        for path in ["/api/renew", "/api/answers"] {
            let body = match path {
                "/api/renew" => json!({ "item": first }),
                _ => json!({ "key": "key-late", "item": first, "said": { "skip": "late" } }),
            };
            assert_eq!(world.post("ann", path, body).await.refusal(), (409, "lease_lost".into()));
        }
        assert_ne!(world.next("ann").await.unwrap(), first);
    });
}

#[test]
fn retries_are_one_answer() {
    on_both(as_is, async |world| {
        let item = world.next("ann").await.unwrap();
        let first = world.submit("ann", "key-once", &item, "A red star .").await.ok();
        let events = world.app.state().seq;
        for _ in 0..3 {
            let again = world.submit("ann", "key-once", &item, "A red star .").await.ok();
            assert_eq!(again, first);
        }
        assert_eq!(world.app.state().seq, events, "nothing more happened");
        assert_eq!(world.export().await.len(), 1);
        let other = world.submit("ann", "key-once", &item, "Something else .").await;
        assert_eq!(other.refusal(), (409, "key_reused".into()));
        // Keys of different people are independent.
        let theirs = world.next("ben").await.unwrap();
        world.submit("ben", "key-once", &theirs, "A blue star .").await.ok();
        // Also after a restart.
        let again = world.again().await;
        assert_eq!(again.submit("ann", "key-once", &item, "A red star .").await.ok(), first);
        assert_eq!(again.export().await.len(), 2);
    });
}

#[test]
fn answers_are_undone_revised_returned_and_edited() {
    on_both(as_is, async |world| {
        let item = world.next("ann").await.unwrap();
        let first = world.caption("ann", "A star .").await;
        let held = world.next("ann").await.unwrap();
        // Undone: it is the current task again, with its words, before the previous one.
        let undo = format!("/api/answers/{first}/undo");
        let back = world.post("ann", &undo, json!({ "key": "undo-key-1" })).await.ok();
        assert_eq!(back["task"]["item"], item.as_str());
        assert_eq!(back["task"]["draft"]["captions"], json!(["A star ."]));
        assert_eq!(world.post("ann", &undo, json!({ "key": "undo-key-1" })).await.ok(), back);
        let twice = world.post("ann", &undo, json!({ "key": "undo-key-2" })).await;
        assert_eq!(twice.refusal(), (409, "not_standing".into()));
        let second = world.caption("ann", "A red star .").await;
        assert_eq!(world.next("ann").await.unwrap(), held, "what was in hand before");
        // Revised by its author, edited by the lead, returned by the lead.
        let revised = |answer: i64, key: &str, caption: &str| {
            let body = json!({ "key": key, "said": { "captions": [caption] } });
            (format!("/api/answers/{answer}/revise"), body)
        };
        let (path, body) = revised(second, "revise-1", "A red star on black .");
        let third = world.post("ann", &path, body).await.ok()["answer"].as_i64().unwrap();
        let (path, body) = revised(third, "revise-2", "Somebody else's words .");
        assert_eq!(world.post("ben", &path, body.clone()).await.refusal().0, 404, "not theirs");
        let edited = world.post("lead", &path, body.clone()).await.ok()["answer"].as_i64().unwrap();
        assert_eq!(world.post("lead", &path, body).await.ok()["answer"], edited, "a retry");
        assert_eq!(
            world.export().await,
            [("ann".into(), item.clone(), "Somebody else's words .".into())]
        );
        let path = format!("/api/answers/{edited}/return");
        let note = json!({ "key": "return-1", "note": "Which colour?" });
        assert_eq!(world.post("ann", &path, note.clone()).await.refusal().0, 403);
        world.post("lead", &path, note).await.ok();
        assert!(world.export().await.is_empty());
        assert_ne!(world.next("ben").await.unwrap(), item, "kept for its author");
        let back = world.post("ann", "/api/next", json!({})).await.ok();
        assert_eq!(back["task"]["item"], item.as_str());
        assert_eq!(back["task"]["note"], "Which colour?");
        assert_eq!(back["task"]["draft"]["captions"], json!(["Somebody else's words ."]));
        world.caption("ann", "A dark red star .").await;
        assert_eq!(world.export().await[0].2, "A dark red star .");
        // The history keeps everything.
        let history = world.get("lead", &format!("/api/lead/history?item={item}")).await.ok();
        let what: Vec<&str> = history["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["what"].as_str().unwrap())
            .collect();
        let expected = [
            "leased", "answered", "undone", "leased", "answered", "answered", "answered",
            "returned", "answered",
        ];
        assert_eq!(what, expected);
        let all = world.get("lead", "/api/lead/answers").await.ok();
        let states: Vec<&str> = all["answers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|a| a["state"].as_str().unwrap())
            .collect();
        assert_eq!(states, ["stands", "returned", "replaced", "replaced", "undone"]);
        assert_eq!(all["answers"][1]["edited_by"], "lead");
    });
}

#[test]
fn several_people_and_several_captions() {
    on_both(
        |settings| (settings.annotators, settings.captions) = (2, 2),
        async |world| {
            let item = world.next("ann").await.unwrap();
            assert_eq!(world.next("ben").await.unwrap(), item, "two are wanted");
            assert_ne!(world.next("lead").await.unwrap(), item, "but not three");
            world.post("lead", "/api/sign-out", json!({})).await.ok();
            let said = |captions: &[&str], key: &str| json!({ "key": key, "item": item, "said": { "captions": captions } });
            let three = world
                .post("ann", "/api/answers", said(&["A star .", "B .", "C ."], "key-number-1"))
                .await;
            assert_eq!(three.refusal().0, 422, "{}", three.text());
            let two = said(&["A red star on black .", "Red and black ."], "key-number-2");
            let next = world.post("ann", "/api/answers", two).await.ok();
            assert_ne!(next["next"]["task"]["item"], item.as_str());
            let two = said(&["A red star on white .", "Red and white ."], "key-number-3");
            world.post("ben", "/api/answers", two).await.ok();
            assert_eq!(world.export().await.len(), 4);
            let overview = world.get("lead", "/api/lead/overview").await.ok();
            assert_eq!((&overview["done"], &overview["captions"]), (&json!(1), &json!(4)));
            assert_eq!(overview["agreement"]["items"], 1);
            let overlap = overview["agreement"]["word_overlap"].as_f64().unwrap();
            assert!(overlap > 0.4 && overlap < 0.9, "{overlap}");
            let skip = |item: &str, key: &str| json!({ "key": key, "item": item, "said": { "skip": "dark" } });
            // One person skips an item that another captions.
            let theirs = world.next("ann").await.unwrap();
            world.post("ann", "/api/answers", skip(&theirs, "key-number-4")).await.ok();
            assert_eq!(world.next("ben").await.unwrap(), theirs);
            let body = json!({ "key": "key-number-5", "item": theirs, "said": { "captions": ["a b c", "d e f"] } });
            world.post("ben", "/api/answers", body).await.ok();
            let overview = world.get("lead", "/api/lead/overview").await.ok();
            assert_eq!(overview["agreement"]["split_skips"], 1);
        },
    );
}

#[test]
fn unfinished_words_are_kept() {
    on_both(as_is, async |world| {
        let item = world.next("ann").await.unwrap();
        let draft = json!({ "item": item, "draft": { "captions": ["A st"], "image": null } });
        for _ in 0..2 {
            let kept = world.ask(&world.as_("ann"), "PUT /api/drafts", Some(draft.clone())).await;
            assert_eq!(kept.status, 204);
        }
        let refused = world.ask(&world.as_("ben"), "PUT /api/drafts", Some(draft)).await;
        assert_eq!(refused.refusal(), (409, "lease_lost".into()));
        let again = world.again().await;
        let next = again.post("ann", "/api/next", json!({})).await.ok();
        assert_eq!(next["task"]["draft"]["captions"], json!(["A st"]));
        again.caption("ann", "A star .").await;
        assert!(again.app.state().drafts.is_empty());
    });
}

#[test]
fn the_lead_sees_how_it_goes() {
    on_both(
        |settings| settings.price = Some(0.5),
        async |world| {
            for caption in ["One star .", "Two stars .", "Three stars ."] {
                world.next("ann").await.unwrap();
                world.pass(MINUTE);
                world.caption("ann", caption).await;
            }
            let overview = world.get("lead", "/api/lead/overview").await.ok();
            let number = |key: &str| overview[key].as_f64().unwrap();
            assert_eq!(
                [number("tasks"), number("done"), number("held"), number("open")],
                [5.0, 3.0, 1.0, 1.0]
            );
            assert_eq!((number("per_hour"), number("eta_seconds")), (60.0, 120.0));
            assert_eq!((number("captions"), number("cost")), (3.0, 1.5));
            let ann = overview["people"]
                .as_array()
                .unwrap()
                .iter()
                .find(|p| p["person"]["name"] == "ann");
            let ann = ann.unwrap();
            assert_eq!(
                (ann["answered"].as_i64(), ann["median_seconds"].as_f64()),
                (Some(3), Some(60.0))
            );
            assert_eq!(ann["links"][0]["number"], 0);
            let priced = world
                .ask(&world.as_("lead"), "PUT /api/lead/price", Some(json!({ "price": 2 })))
                .await;
            assert_eq!(priced.status, 204);
            assert_eq!(world.get("lead", "/api/lead/overview").await.ok()["cost"], 6.0);
            let queue = world.get("lead", "/api/lead/queue?state=held").await.ok();
            assert_eq!((&queue["total"], &queue["tasks"][0]["holder"]), (&json!(1), &json!("ann")));
            let scores = world.get("lead", "/api/lead/queue?limit=3&offset=1").await.ok();
            assert_eq!(scores["tasks"].as_array().unwrap().len(), 3);
            assert_eq!(scores["tasks"][0]["score"], 0.5);
        },
    );
}

#[test]
fn hints_come_while_people_type() {
    on_sqlite(
        Side::Image,
        |settings| settings.language = Some("English".into()),
        async |world| {
            let next = world.post("ann", "/api/next", json!({})).await.ok();
            let confusable = next["task"]["why"][0]["caption"].as_str().unwrap();
            let body = json!({ "item": next["task"]["item"], "captions": [confusable.to_uppercase(), "Да .", ""] });
            let hints = world.post("ann", "/api/check", body).await.ok();
            let kinds: Vec<_> = hints["hints"]
                .as_array()
                .unwrap()
                .iter()
                .map(|h| (h["kind"].as_str().unwrap(), h["caption"].as_i64().unwrap()))
                .collect();
            assert_eq!(kinds, [("same", 0), ("short", 1), ("language", 1)]);
            assert_eq!(hints["hints"][0]["of"], confusable);
            assert_eq!(
                world
                    .post("ann", "/api/check", json!({ "item": "none", "captions": [] }))
                    .await
                    .refusal()
                    .0,
                404
            );
        },
    );
}

#[test]
fn texts_are_paired_with_images() {
    on_sqlite(
        Side::Text,
        |settings| {
            settings.uploads =
                Some(std::env::temp_dir().join(format!("nextpair-uploads-{}", std::process::id())))
        },
        async |world| {
            let next = world.post("ann", "/api/next", json!({})).await.ok();
            let (item, text) = (
                next["task"]["item"].clone(),
                next["task"]["texts"][0].as_str().unwrap().to_owned(),
            );
            let query: String = text.split_whitespace().collect::<Vec<_>>().join("+");
            let found = world.get("ann", &format!("/api/search?q={query}")).await.ok();
            // The text's own item is the best match, of course; any training image will do.
            let image = found["images"][0]["item"].as_str().unwrap().to_owned();
            let address = found["images"][0]["image"].as_str().unwrap().to_owned();
            let shown = world.get("ann", &address).await;
            assert_eq!(
                (shown.status.as_u16(), &shown.headers["content-type"]),
                (200, &"image/png".parse().unwrap())
            );
            let body = |image: &str, key: &str| json!({ "key": key, "item": item, "said": { "image": image } });
            for wrong in ["none", "upload:0.png", "upload:../x.png"] {
                assert_eq!(
                    world.post("ann", "/api/answers", body(wrong, "key-wrong")).await.refusal().0,
                    422
                );
            }
            let items = world.app.catalog.dataset().items();
            let test = items.get(items.in_split(Some("test"))[0]).id;
            assert_eq!(
                world.post("ann", "/api/answers", body(&test, "key-wrong")).await.refusal().0,
                422
            );
            // A person uploads an image.
            let upload = |bytes: Vec<u8>| async {
                world
                    .send(
                        &world.as_("ann"),
                        "POST /api/uploads",
                        Some(bytes),
                        "application/octet-stream",
                        "localhost",
                    )
                    .await
            };
            assert_eq!(upload(b"<svg onload=alert(1)>".to_vec()).await.refusal().0, 415);
            let kept = upload(shown.bytes.clone()).await.ok();
            assert_eq!(world.get("ann", kept["image"].as_str().unwrap()).await.bytes, shown.bytes);
            assert_eq!(upload(shown.bytes).await.ok(), kept, "the same image is the same upload");
            let brought = body(kept["item"].as_str().unwrap(), "key-text-1");
            let answer =
                world.post("ann", "/api/answers", brought).await.ok()["answer"].as_i64().unwrap();
            let undo = json!({ "key": "undo-text" });
            let back = world.post("ann", &format!("/api/answers/{answer}/undo"), undo).await.ok();
            assert_eq!(back["task"]["draft"]["image"], kept["item"]);
            world.post("ann", "/api/answers", body(&image, "key-text-2")).await.ok();
            assert_eq!(world.export().await[0].2, image);
            std::fs::remove_dir_all(world.settings.uploads.as_ref().unwrap()).unwrap();
        },
    );
}

#[test]
fn keys_stand_for_one_act() {
    on_sqlite(Side::Image, as_is, async |world| {
        let (first, second) =
            (world.caption("ann", "One star .").await, world.caption("ann", "Two stars .").await);
        let reused = async |who: &str, path: String, mut body: serde_json::Value, key: &str| {
            body["key"] = json!(key);
            assert_eq!(
                world.post(who, &path, body).await.refusal(),
                (409, "key_reused".into()),
                "{path}"
            );
        };
        let said = json!({ "said": { "captions": ["Some stars ."] } });
        let revise = |answer: i64, key: &str| {
            let mut body = said.clone();
            body["key"] = json!(key);
            (format!("/api/answers/{answer}/revise"), body)
        };
        let (path, body) = revise(first, "key-of-a-revision");
        let first = world.post("ann", &path, body).await.ok()["answer"].as_i64().unwrap();
        reused("ann", format!("/api/answers/{second}/revise"), said.clone(), "key-of-a-revision")
            .await;
        reused("ann", format!("/api/answers/{second}/undo"), json!({}), "key-of-a-revision").await;
        let note = json!({ "key": "key-of-a-return", "note": "Which?" });
        world.post("lead", &format!("/api/answers/{first}/return"), note.clone()).await.ok();
        reused("lead", format!("/api/answers/{second}/return"), note, "key-of-a-return").await;
        assert_eq!(world.export().await.len(), 1);
    });
}

#[test]
fn lowering_the_annotators_frees_the_other_task() {
    on_sqlite(
        Side::Image,
        |settings| settings.annotators = 2,
        async |mut world| {
            let item = world.next("ann").await.unwrap();
            world.pass(1);
            assert_eq!(world.next("ben").await.unwrap(), item);
            world.settings.annotators = 1;
            let again = world.again().await;
            assert_ne!(again.next("ben").await.unwrap(), item, "the first one has it");
            assert_eq!(again.next("ann").await.unwrap(), item);
            again.submit("ann", "key-first", &item, "A star .").await.ok();
            assert_eq!(again.submit("ben", "key-second", &item, "A star .").await.refusal().0, 409);
        },
    );
}

#[test]
fn texts_are_paired_with_images_of_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let from = |settings: &mut crate::Settings| settings.images = Some(folder.path().to_path_buf());
    std::fs::create_dir(folder.path().join("sub folder")).unwrap();
    std::fs::write(folder.path().join("notes.txt"), "not an image").unwrap();
    let png = [&b"\x89PNG\r\n\x1a\n"[..], b"cut off"].concat();
    std::fs::write(folder.path().join("sub folder/a walrus.PNG"), png).unwrap();
    on_sqlite(Side::Text, from, async |world| {
        let item = world.next("ann").await.unwrap();
        let found = world.get("ann", "/api/search?q=Walrus").await.ok();
        let id = "folder:sub folder/a walrus.PNG";
        assert_eq!(found["images"][0]["item"], id);
        assert_eq!(found["images"].as_array().unwrap().len(), 1);
        let address = found["images"][0]["image"].as_str().unwrap();
        assert_eq!(world.get("ann", address).await.status, 404, "not a whole image");
        for wrong in ["folder:notes.txt", "folder:../notes.txt", "folder:sub folder"] {
            let body = json!({ "key": "key-wrong", "item": item, "said": { "image": wrong } });
            assert_eq!(world.post("ann", "/api/answers", body).await.refusal().0, 422, "{wrong}");
        }
        let body = json!({ "key": "key-walrus", "item": item, "said": { "image": id } });
        world.post("ann", "/api/answers", body).await.ok();
        assert_eq!(world.export().await[0].2, id);
    });
}

#[test]
fn corrections_are_limited() {
    on_both(as_is, async |world| {
        let mut answer = world.caption("ann", "A star .").await;
        for number in 1..100 {
            world.pass(1000);
            let said = json!({ "captions": [format!("{number} stars .")] });
            let body = json!({ "key": format!("key-revise-{number}"), "said": said });
            let revised = world.post("ann", &format!("/api/answers/{answer}/revise"), body).await;
            answer = revised.ok()["answer"].as_i64().unwrap();
        }
        let body = json!({ "key": "key-too-often", "said": { "captions": ["No star ."] } });
        let refused = world.post("ann", &format!("/api/answers/{answer}/revise"), body).await;
        assert_eq!(refused.refusal(), (409, "too_often".into()));
        assert_eq!(world.export().await[0].2, "99 stars .");
    });
}
