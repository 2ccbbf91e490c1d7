//! Who gets in, and what nobody gets away with.

use nextpair_data::Side;
use serde_json::{Value, json};

use super::world::{MINUTE, Shows, World, on_both, on_sqlite};
use crate::Settings;

fn as_is(_: &mut Settings) {}

/// Opens somebody's link in a browser: the cookie, and where it leads.
async fn sign_in(world: &World, who: &str) -> (String, String) {
    let line = format!("GET /join/{}", world.token(who));
    let reply = world.ask(&Shows::Nothing, &line, None).await;
    assert_eq!(reply.status, 303);
    let cookie = reply.headers["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("; HttpOnly; SameSite=Lax"), "{cookie}");
    let value = cookie.split(['=', ';']).nth(1).unwrap().to_owned();
    (value, reply.headers["location"].to_str().unwrap().to_owned())
}

async fn csrf(world: &World, cookie: &str) -> String {
    let me = world.ask(&Shows::Cookie(cookie.into(), None), "GET /api/me", None).await.ok();
    me["csrf"].as_str().unwrap().to_owned()
}

#[test]
fn a_link_signs_in() {
    on_both(as_is, async |world| {
        let (cookie, page) = sign_in(&world, "ann").await;
        assert_eq!(page, "/");
        assert_eq!(sign_in(&world, "lead").await.1, "/lead");
        let token = csrf(&world, &cookie).await;
        let with = |csrf: Option<&str>| Shows::Cookie(cookie.clone(), csrf.map(Into::into));
        // What changes something needs the token of this session.
        let (other, _) = sign_in(&world, "lead").await;
        let foreign = csrf(&world, &other).await;
        for wrong in [None, Some(""), Some("x"), Some(foreign.as_str())] {
            let refused = world.ask(&with(wrong), "POST /api/next", None).await;
            assert_eq!(refused.refusal(), (403, "csrf".into()));
        }
        let next = world.ask(&with(Some(&token)), "POST /api/next", None).await.ok();
        assert!(next["task"]["item"].is_string());
        // Signing out lets go of what was in hand.
        let out = world.ask(&with(Some(&token)), "POST /api/sign-out", None).await;
        assert!(out.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
        assert_eq!(world.next("ben").await.unwrap(), next["task"]["item"].as_str().unwrap());
    });
}

#[test]
fn forged_and_expired_cookies_are_nobody() {
    on_both(as_is, async |world| {
        let (cookie, _) = sign_in(&world, "ann").await;
        let (words, signature) = cookie.rsplit_once('.').unwrap();
        let later = words.rsplit_once('.').unwrap().0.to_owned() + ".9999999999999";
        let lead = format!("1.0.9999999999999.{signature}");
        let forged = [
            String::new(),
            words.to_owned(),
            format!("{later}.{signature}"),
            lead,
            format!("{words}.{}", "A".repeat(22)),
            world.token("lead"),
        ];
        for forged in forged {
            let refused =
                world.ask(&Shows::Cookie(forged.clone(), None), "GET /api/me", None).await;
            assert_eq!(refused.refusal(), (401, "sign_in".into()), "{forged}");
        }
        for token in ["", "x", "1.0.x", &cookie] {
            let refused = world.ask(&Shows::Token(token.into()), "GET /api/me", None).await;
            assert_eq!(refused.status, 401, "{token}");
            let line = format!("GET /join/{token}");
            assert!(
                !world.ask(&Shows::Nothing, &line, None).await.headers.contains_key("set-cookie")
            );
        }
        let shows = Shows::Cookie(cookie, None);
        world.pass(13 * 24 * 60 * MINUTE);
        assert_eq!(world.ask(&shows, "GET /api/me", None).await.status, 200);
        world.pass(2 * 24 * 60 * MINUTE);
        assert_eq!(world.ask(&shows, "GET /api/me", None).await.status, 401);
        // Pages say what to do.
        let page = world.ask(&shows, "GET /", None).await;
        assert_eq!(page.status, 401);
        assert!(page.text().contains("<html"), "{}", page.text());
    });
}

#[test]
fn links_end() {
    on_both(as_is, async |world| {
        let (cookie, _) = sign_in(&world, "ann").await;
        let (old, shows) = (world.as_("ann"), Shows::Cookie(cookie, None));
        let ann = world.app.clerk.state().named("ann").unwrap().id;
        let renewed =
            world.post("lead", &format!("/api/lead/people/{ann}/link"), json!({})).await.ok();
        for shows in [&old, &shows] {
            assert_eq!(world.ask(shows, "GET /api/me", None).await.status, 401);
        }
        let token = renewed["link"].as_str().unwrap().rsplit_once('/').unwrap().1;
        assert_eq!(world.ask(&Shows::Token(token.into()), "GET /api/me", None).await.status, 200);
        let item = world.next("ann").await.unwrap();
        let remove = format!("DELETE /api/lead/people/{ann}");
        assert_eq!(world.ask(&world.as_("ben"), &remove, None).await.refusal().0, 403);
        assert_eq!(world.ask(&world.as_("lead"), &remove, None).await.status, 204);
        assert_eq!(world.ask(&Shows::Token(token.into()), "GET /api/me", None).await.status, 401);
        assert_eq!(world.next("ben").await.unwrap(), item, "what she had is free");
        assert_eq!(world.ask(&world.as_("lead"), &remove, None).await.refusal().0, 404);
        let last = world.ask(&world.as_("lead"), "DELETE /api/lead/people/1", None).await;
        assert_eq!(last.refusal(), (409, "last_lead".into()));
        // A name stays with whoever had it: history is told by names.
        let again = json!({ "name": " ann ", "role": "annotator" });
        assert_eq!(
            world.post("lead", "/api/lead/people", again).await.refusal(),
            (409, "taken".into())
        );
        for name in ["", " ", "a\nb", &"x".repeat(101)] {
            let body = json!({ "name": name, "role": "annotator" });
            assert_eq!(
                world.post("lead", "/api/lead/people", body).await.refusal().0,
                422,
                "{name}"
            );
        }
    });
}

#[test]
fn annotators_do_not_lead() {
    on_sqlite(Side::Image, as_is, async |world| {
        for line in [
            "GET /api/lead/overview",
            "GET /api/lead/answers",
            "GET /api/lead/queue",
            "GET /api/lead/history?item=x",
            "GET /api/lead/export?format=csv",
            "GET /metrics",
        ] {
            assert_eq!(
                world.ask(&world.as_("ann"), line, None).await.refusal(),
                (403, "forbidden".into()),
                "{line}"
            );
            assert_eq!(world.ask(&Shows::Nothing, line, None).await.refusal().0, 401, "{line}");
        }
        for (line, body) in [
            ("PUT /api/lead/pause", json!({ "paused": true })),
            ("PUT /api/lead/price", json!({ "price": 1 })),
            ("POST /api/lead/close", json!({ "round": 1, "unanswered": "skip" })),
            ("POST /api/lead/people", json!({ "name": "x", "role": "lead" })),
            ("POST /api/lead/people/1/link", json!({})),
            ("POST /api/answers/1/return", json!({ "key": "key-return", "note": "x" })),
        ] {
            assert_eq!(
                world.ask(&world.as_("ann"), line, Some(body)).await.refusal(),
                (403, "forbidden".into()),
                "{line}"
            );
        }
        // The page of leads sends them home.
        assert_eq!(world.get("ann", "/lead").await.headers["location"], "/");
    });
}

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
            world.ask(&Shows::Nothing, &format!("GET /api/images/{item}"), None).await.status,
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
        // A file that is no image is not served as one, whatever it is called.
        let shown = world.app.gallery.item(&item).unwrap().image.unwrap();
        let file = world.app.gallery.dataset().image_folder().unwrap().join(shown);
        std::fs::write(file, "<script>alert(1)</script>").unwrap();
        assert_eq!(world.get("ann", &format!("/api/images/{item}")).await.status, 404);
    });
}

#[test]
fn whatever_people_write_is_text() {
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
        // An item that nobody was asked about, however it is called.
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
            let reply = world.ask(&Shows::Nothing, &format!("GET {path}"), None).await;
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
fn too_much_is_too_much() {
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

#[test]
fn only_names_of_this_machine_are_answered_on_loopback() {
    on_sqlite(Side::Image, as_is, async |world| {
        for (host, status) in [
            ("localhost:7878", 200),
            ("127.0.0.1", 200),
            ("[::1]:7878", 200),
            ("evil.example", 403),
            ("127.0.0.1.evil.example", 403),
            ("", 403),
        ] {
            let reply = world.send(&Shows::Nothing, "GET /health", None, "", host).await;
            assert_eq!(reply.status, status, "{host}");
        }
    });
    let public =
        |settings: &mut Settings| settings.public_url = Some("https://captions.example/".into());
    on_sqlite(Side::Image, public, async |world| {
        let reply = world.send(&Shows::Nothing, "GET /health", None, "", "captions.example").await;
        assert_eq!(reply.status, 200);
        let line = format!("GET /join/{}", world.token("ann"));
        let reply = world.ask(&Shows::Nothing, &line, None).await;
        assert!(reply.headers["set-cookie"].to_str().unwrap().ends_with("; Secure"));
        let overview = world.get("lead", "/api/lead/overview").await.ok();
        let link = overview["people"][0]["link"].as_str().unwrap();
        assert!(link.starts_with("https://captions.example/join/"), "{link}");
    });
}

#[test]
fn nobody_signs_in_on_a_laptop_but_pages_elsewhere_stay_out() {
    on_sqlite(
        Side::Image,
        |settings| settings.sign_in = false,
        async |world| {
            assert_eq!(world.ask(&Shows::Nothing, "GET /lead", None).await.status, 200);
            let me = world.ask(&Shows::Nothing, "GET /api/me", None).await.ok();
            assert_eq!(me["person"]["role"], "lead");
            let refused = world.ask(&Shows::Nothing, "POST /api/next", None).await;
            assert_eq!(refused.refusal(), (403, "csrf".into()));
            let token = me["csrf"].as_str().unwrap().to_owned();
            let shows = Shows::Cookie(String::new(), Some(token));
            assert_eq!(world.ask(&shows, "POST /api/next", None).await.status, 200);
        },
    );
}

#[test]
fn strangers_are_not_let_in_by_settings() {
    on_sqlite(Side::Image, as_is, async |world| {
        let check = |change: &dyn Fn(&mut Settings)| {
            let mut settings = world.settings.clone();
            change(&mut settings);
            settings.check(settings.address).map_err(|error| error.to_string())
        };
        let open = |address: &str| {
            let address = address.parse().unwrap();
            check(&|settings| (settings.sign_in, settings.address) = (false, address))
        };
        for address in ["0.0.0.0:80", "[::]:80", "192.168.0.7:80"] {
            assert!(open(address).unwrap_err().contains("must sign in"), "{address}");
        }
        assert!(open("127.0.0.1:80").is_ok() && open("[::1]:80").is_ok());
        let public = |url: Option<&str>| {
            let (address, url) = ("0.0.0.0:80".parse().unwrap(), url.map(str::to_owned));
            check(&|settings| (settings.address, settings.public_url) = (address, url.clone()))
        };
        assert!(
            public(Some("http://box:80")).is_ok() && public(Some("https://a.example/")).is_ok()
        );
        assert!(public(None).unwrap_err().contains("by which people reach it"));
        for url in ["https://", "https://x y", "https://a/sub", "ftp://a", "a.example"] {
            assert!(public(Some(url)).unwrap_err().contains("https://name"), "{url}");
        }
        for (change, expected) in [
            (&(|s: &mut Settings| s.captions = 0) as &dyn Fn(&mut Settings), "0 captions"),
            (&|s: &mut Settings| s.annotators = 21, "21 annotators"),
            (&|s: &mut Settings| s.price = Some(f64::NAN), "not a price"),
            (&|s: &mut Settings| s.lease = std::time::Duration::ZERO, "kept for at least"),
        ] {
            let wrong = check(change).unwrap_err();
            assert!(wrong.contains(expected), "{wrong}");
        }
    });
}

#[test]
fn desks_do_not_open_for_other_pools_or_odd_databases() {
    on_sqlite(Side::Image, as_is, async |mut world| {
        let refused = async |world: &World, pool: Side| {
            world.open_again(pool).await.err().unwrap().to_string()
        };
        assert!(refused(&world, Side::Text).await.contains("a pool of images"));
        for (database, expected) in [
            ("sqlite:", "kept in a file"),
            ("sqlite::memory:", "kept in a file"),
            ("sqlite:/", "directory"),
            ("sqlite:/nowhere/x.db", "No such file"),
            ("mysql://x", "sqlite:PATH or postgres://"),
            ("postgres:u:secret@h/x", "sqlite:PATH or postgres://"),
            ("postgres://u:secret@127.0.0.1:1/x", "refused"),
        ] {
            world.settings.database = database.to_owned();
            let wrong = refused(&world, Side::Image).await;
            assert!(wrong.contains(expected) && !wrong.contains("secret"), "{wrong}");
        }
        let file = world.folder.path().join("own.db");
        world.settings.database = format!("sqlite://{}", file.display());
        world.open_again(Side::Image).await.unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    });
}
