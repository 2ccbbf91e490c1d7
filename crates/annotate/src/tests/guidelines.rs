//! Tests of the guidelines: shown once to everybody, and again when they change.

use serde_json::{Value, json};

use super::world::{World, on_both};

async fn of_me(world: &World, who: &str) -> Value {
    world.get(who, "/api/me").await.ok()["guidelines"].clone()
}

async fn change(world: &World, who: &str, text: &str, after: u32) -> super::world::Reply {
    let body = json!({ "text": text, "after": after });
    world.ask(&world.as_(who), "PUT /api/lead/guidelines", Some(body)).await
}

#[test]
fn each_version_is_read_once() {
    on_both(
        |settings| settings.guidelines = Some("# Rules\r\n\r\nBe *brief*.\n".to_owned()),
        async |world| {
            let unread = json!({ "version": 1, "unread": true });
            assert_eq!(of_me(&world, "ann").await, unread);
            let shown = world.get("ann", "/api/guidelines").await.ok();
            assert_eq!(shown, json!({ "version": 1, "text": "# Rules\n\nBe *brief*." }));
            for version in [7, 1, 1] {
                let body = json!({ "version": version });
                assert_eq!(world.post("ann", "/api/guidelines/read", body).await.status, 204);
            }
            assert_eq!(of_me(&world, "ann").await, json!({ "version": 1, "unread": false }));
            assert_eq!(of_me(&world, "ben").await, unread);

            assert_eq!(change(&world, "ann", "x", 1).await.refusal().0, 403);
            let changed = change(&world, "lead", "Be clear.", 1).await.ok();
            assert_eq!(changed, json!({ "version": 2 }));
            // Saving twice is one change; saving over somebody else's is refused.
            assert_eq!(change(&world, "lead", "Be clear.", 1).await.ok(), changed);
            let late = change(&world, "lead", "Be long.", 1).await;
            assert_eq!(late.refusal(), (409, "changed".into()));
            for wrong in ["a\u{7}b".to_owned(), "x".repeat(70_000)] {
                assert_eq!(change(&world, "lead", &wrong, 2).await.refusal().0, 422);
            }
            // A restart with the same file leaves the lead's version alone.
            let again = world.again().await;
            assert_eq!(of_me(&again, "ann").await, json!({ "version": 2, "unread": true }));
            assert_eq!(*again.app.state(), *world.app.state());
        },
    );
}

#[test]
fn a_file_that_changed_is_shown_again() {
    on_both(
        |_| {},
        async |mut world| {
            assert_eq!(of_me(&world, "ann").await, Value::Null);
            let none = world.get("ann", "/api/guidelines").await.ok();
            assert_eq!(none, json!({ "version": 0, "text": "" }));
            change(&world, "lead", "By the lead.", 0).await.ok();
            world.settings.guidelines = Some("Of the file.".to_owned());
            let again = world.again().await;
            assert_eq!(again.get("ann", "/api/guidelines").await.ok()["text"], "Of the file.");
            // Without guidelines, nobody is shown any.
            change(&again, "lead", " \n", 2).await.ok();
            assert_eq!(of_me(&again, "ann").await, Value::Null);
        },
    );
}
