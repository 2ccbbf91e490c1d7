//! Attacks that must fail.

use nextpair_data::Side;
use serde_json::{Value, json};

use super::world::{Credentials, on_both, on_sqlite};
use crate::Settings;

fn as_is(_: &mut Settings) {}

#[test]
fn images_come_from_the_dataset_only() {
    on_sqlite(Side::Image, as_is, async |world| {
        std::fs::write(world.folder.path().join("secret.png"), b"secret").unwrap();
        let item = world.next("ann").await.unwrap();
        let image = world.get("ann", &format!("/api/images/{item}")).await;
        assert_eq!(
            (image.status.as_u16(), &image.headers["content-type"]),
            (200, &"image/png".parse().unwrap())
        );
        assert_eq!(image.headers["cache-control"], "private, max-age=3600");
        assert_eq!(
            world.ask(&Credentials::Nothing, &format!("GET /api/images/{item}"), None).await.status,
            401
        );
        for path in [
            "/api/images/",
            "/api/images/..",
            "/api/images/../secret.png",
            "/api/images/..%2Fsecret.png",
            "/api/images/%2e%2e%2fsecret.png",
            "/api/images/..%5Csecret.png",
            "/api/images/%2Fetc%2Fpasswd",
            "/api/images/images%2F000%2F",
            "/api/images/upload:..%2Fsecret.png",
            "/api/images/upload:secret.png",
            "/api/images/dataset.toml",
            "/api/images/%00",
            "/assets/..%2Flib.rs",
            "/assets/",
            "/api/images",
            "//etc/passwd",
        ] {
            let reply = world.get("ann", path).await;
            assert_eq!(reply.status, 404, "{path}: {}", reply.text());
        }
        assert_eq!(world.get("ann", "/api/images/%FF").await.status, 400, "not UTF-8");
        // A file that is no image is not served as one, whatever its name.
        let shown = world.app.catalog.item(&item).unwrap().image.unwrap();
        let file = world.app.catalog.dataset().image_folder().unwrap().join(shown);
        std::fs::write(file, "<script>alert(1)</script>").unwrap();
        assert_eq!(world.get("ann", &format!("/api/images/{item}")).await.status, 404);
    });
}

#[test]
fn answers_and_names_are_plain_text() {
    on_both(as_is, async |world| {
        let evil =
            "</script><img src=x onerror=alert(1)> \u{202e}'; DROP TABLE nextpair_events; -- 😀";
        let item = world.next("ann").await.unwrap();
        world.submit("ann", "key-evil", &item, evil).await.ok();
        let name = json!({ "name": "<b onmouseover=alert(1)>'\"", "role": "annotator" });
        world.post("lead", "/api/lead/people", name).await.ok();
        let skip = world.next("ben").await.unwrap();
        let body = json!({ "key": "key-evil", "item": skip, "said": { "skip": evil } });
        world.post("ben", "/api/answers", body).await.ok();
        for path in [
            "/api/lead/answers",
            "/api/lead/overview",
            "/api/answers",
            "/api/lead/export?format=csv",
        ] {
            let reply = world.get(if path == "/api/answers" { "ann" } else { "lead" }, path).await;
            let kind = reply.headers["content-type"].to_str().unwrap();
            assert!(kind.starts_with("application/json") || kind.starts_with("text/csv"), "{kind}");
            assert_eq!(reply.headers["x-content-type-options"], "nosniff");
        }
        let again = world.again().await;
        let export = again.export().await;
        assert_eq!(export[0].2, evil.trim());
        assert_eq!(export[1].2, evil.trim());
        // An item that is in no task, whatever its name.
        let odd = json!({ "key": "key-odd-1", "item": "<script>", "said": { "captions": ["x"] } });
        assert_eq!(world.post("ann", "/api/answers", odd).await.refusal().0, 409);
    });
}

#[test]
fn bodies_are_small_and_well_formed() {
    on_sqlite(Side::Image, as_is, async |world| {
        let item = world.next("ann").await.unwrap();
        let send = |body: Vec<u8>, kind: &'static str| {
            let (world, shows) = (&world, world.as_("ann"));
            async move {
                world
                    .send(&shows, "POST /api/answers", Some(body), kind, "localhost")
                    .await
                    .refusal()
                    .0
            }
        };
        let good = json!({ "key": "key-good", "item": item, "said": { "captions": ["A star ."] } });
        let json_kind = "application/json";
        assert_eq!(send(vec![b' '; 600 * 1024], json_kind).await, 413);
        assert_eq!(send(good.to_string().into_bytes(), "text/plain").await, 415);
        assert_eq!(
            send(good.to_string().into_bytes(), "application/x-www-form-urlencoded").await,
            415
        );
        assert_eq!(send(b"{".to_vec(), json_kind).await, 400);
        assert_eq!(send(b"\xff\xfe".to_vec(), json_kind).await, 400);
        assert_eq!(send(vec![b'['; 100_000], json_kind).await, 422);
        assert_eq!(send(Vec::new(), json_kind).await, 400);
        let with = |change: &dyn Fn(&mut Value)| {
            let mut body = good.clone();
            change(&mut body);
            body.to_string().into_bytes()
        };
        for wrong in [
            with(&|body| body["said"] = json!({ "captions": [] })),
            with(&|body| body["said"] = json!({ "captions": ["a", "b"] })),
            with(&|body| body["said"] = json!({ "captions": [" "] })),
            with(&|body| body["said"] = json!({ "captions": ["\u{200b} ."] })),
            with(&|body| body["said"] = json!({ "captions": ["a\u{0}b"] })),
            with(&|body| body["said"] = json!({ "captions": ["x".repeat(4001)] })),
            with(&|body| body["said"] = json!({ "captions": ["a"], "skip": "b" })),
            with(&|body| body["said"] = json!({ "image": "a" })),
            with(&|body| body["said"] = json!({ "skip": "" })),
            with(&|body| body["said"] = json!(null)),
            with(&|body| body["key"] = json!("short")),
            with(&|body| body["key"] = json!("key with blanks")),
            with(&|body| body["key"] = json!("k".repeat(65))),
            with(&|body| body["more"] = json!(1)),
            with(&|body| body["item"] = json!(7)),
        ] {
            let text = String::from_utf8(wrong.clone()).unwrap();
            let status = send(wrong, json_kind).await;
            assert!(matches!(status, 400 | 422), "{status} {text}");
        }
        assert!(world.export().await.is_empty());
        world.post("ann", "/api/answers", good).await.ok();
    });
}

#[test]
fn methods_are_not_confused() {
    on_sqlite(Side::Image, as_is, async |world| {
        for line in [
            "GET /api/next",
            "POST /api/me",
            "DELETE /api/answers",
            "GET /api/lead/close",
            "POST /api/lead/overview",
            "PUT /health",
            "TRACE /api/me",
            "POST /",
            "GET /api/answers/1/undo",
        ] {
            let reply = world.ask(&world.as_("lead"), line, None).await;
            assert_eq!(reply.refusal(), (405, "method".into()), "{line}");
        }
        // No header turns one method into another.
        assert_eq!(world.get("ann", "/api/nothing").await.refusal(), (404, "not_found".into()));
        assert_eq!(world.ask(&world.as_("ann"), "OPTIONS /api/next", None).await.status, 405);
    });
}

#[test]
fn every_answer_carries_the_policy() {
    on_sqlite(Side::Image, as_is, async |world| {
        for path in
            ["/", "/lead", "/health", "/assets/app.css", "/nothing", "/api/me", "/api/openapi.json"]
        {
            let reply = world.ask(&Credentials::Nothing, &format!("GET {path}"), None).await;
            let policy = reply.headers["content-security-policy"].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{path}");
            assert!(!policy.contains("unsafe"), "{policy}");
            assert_eq!(reply.headers["x-content-type-options"], "nosniff");
            assert_eq!(reply.headers["referrer-policy"], "no-referrer");
            assert!(!reply.headers.contains_key("access-control-allow-origin"));
        }
    });
}

#[test]
fn frequent_requests_are_throttled() {
    on_sqlite(Side::Image, as_is, async |world| {
        let mut refused = None;
        for _ in 0..300 {
            let reply = world.get("ann", "/api/me").await;
            if reply.status == 429 {
                refused = Some(reply);
                break;
            }
        }
        let refused = refused.expect("three hundred at once are too many");
        assert_eq!(refused.headers["retry-after"], "1");
        assert_eq!(world.get("ben", "/api/me").await.status, 200, "others are not held up");
        world.pass(1000);
        assert_eq!(world.get("ann", "/api/me").await.status, 200);
    });
}
