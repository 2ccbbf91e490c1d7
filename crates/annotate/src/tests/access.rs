//! Tests of signing in and of roles.

use nextpair_data::Side;
use serde_json::json;

use super::world::{Credentials, MINUTE, World, on_both, on_sqlite};
use crate::Settings;

fn as_is(_: &mut Settings) {}

/// Opens a person's link in a browser; returns the cookie and the redirect.
async fn sign_in(world: &World, who: &str) -> (String, String) {
    let line = format!("GET /join/{}", world.token(who));
    let reply = world.ask(&Credentials::Nothing, &line, None).await;
    assert_eq!(reply.status, 303);
    let cookie = reply.headers["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("; HttpOnly; SameSite=Lax"), "{cookie}");
    let value = cookie.split(['=', ';']).nth(1).unwrap().to_owned();
    (value, reply.headers["location"].to_str().unwrap().to_owned())
}

async fn csrf(world: &World, cookie: &str) -> String {
    let me = world.ask(&Credentials::Cookie(cookie.into(), None), "GET /api/me", None).await.ok();
    me["csrf"].as_str().unwrap().to_owned()
}

#[test]
fn a_link_signs_in() {
    on_both(as_is, async |world| {
        let (cookie, page) = sign_in(&world, "ann").await;
        assert_eq!(page, "/");
        assert_eq!(sign_in(&world, "lead").await.1, "/lead");
        let token = csrf(&world, &cookie).await;
        let with = |csrf: Option<&str>| Credentials::Cookie(cookie.clone(), csrf.map(Into::into));
        // A change needs the CSRF token of this session.
        let (other, _) = sign_in(&world, "lead").await;
        let foreign = csrf(&world, &other).await;
        for wrong in [None, Some(""), Some("x"), Some(foreign.as_str())] {
            let refused = world.ask(&with(wrong), "POST /api/next", None).await;
            assert_eq!(refused.refusal(), (403, "csrf".into()));
        }
        let next = world.ask(&with(Some(&token)), "POST /api/next", None).await.ok();
        assert!(next["task"]["item"].is_string());
        // Signing out releases the current task.
        let out = world.ask(&with(Some(&token)), "POST /api/sign-out", None).await;
        assert!(out.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
        assert_eq!(world.next("ben").await.unwrap(), next["task"]["item"].as_str().unwrap());
    });
}

#[test]
fn forged_and_expired_cookies_are_refused() {
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
                world.ask(&Credentials::Cookie(forged.clone(), None), "GET /api/me", None).await;
            assert_eq!(refused.refusal(), (401, "sign_in".into()), "{forged}");
        }
        for token in ["", "x", "1.0.x", &cookie] {
            let refused = world.ask(&Credentials::Token(token.into()), "GET /api/me", None).await;
            assert_eq!(refused.status, 401, "{token}");
            let line = format!("GET /join/{token}");
            assert!(
                !world
                    .ask(&Credentials::Nothing, &line, None)
                    .await
                    .headers
                    .contains_key("set-cookie")
            );
        }
        let shows = Credentials::Cookie(cookie, None);
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
        let (old, shows) = (world.as_("ann"), Credentials::Cookie(cookie, None));
        let ann = world.app.state().named("ann").unwrap().id;
        let renewed =
            world.post("lead", &format!("/api/lead/people/{ann}/link"), json!({})).await.ok();
        for shows in [&old, &shows] {
            assert_eq!(world.ask(shows, "GET /api/me", None).await.status, 401);
        }
        let token = renewed["link"].as_str().unwrap().rsplit_once('/').unwrap().1;
        assert_eq!(
            world.ask(&Credentials::Token(token.into()), "GET /api/me", None).await.status,
            200
        );
        let item = world.next("ann").await.unwrap();
        let remove = format!("DELETE /api/lead/people/{ann}");
        assert_eq!(world.ask(&world.as_("ben"), &remove, None).await.refusal().0, 403);
        assert_eq!(world.ask(&world.as_("lead"), &remove, None).await.status, 204);
        assert_eq!(
            world.ask(&Credentials::Token(token.into()), "GET /api/me", None).await.status,
            401
        );
        assert_eq!(world.next("ben").await.unwrap(), item, "what she had is free");
        assert_eq!(world.ask(&world.as_("lead"), &remove, None).await.refusal().0, 404);
        let last = world.ask(&world.as_("lead"), "DELETE /api/lead/people/1", None).await;
        assert_eq!(last.refusal(), (409, "last_lead".into()));
        // A name stays with its first owner, because the history uses names.
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
fn annotators_cannot_use_the_routes_of_leads() {
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
            assert_eq!(
                world.ask(&Credentials::Nothing, line, None).await.refusal().0,
                401,
                "{line}"
            );
        }
        for (line, body) in [
            ("PUT /api/lead/pause", json!({ "paused": true })),
            ("PUT /api/lead/price", json!({ "price": 1 })),
            ("POST /api/lead/close", json!({ "round": 1, "unanswered": "release" })),
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
        // The page of leads redirects them to their own.
        assert_eq!(world.get("ann", "/lead").await.headers["location"], "/");
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
            let reply = world.send(&Credentials::Nothing, "GET /health", None, "", host).await;
            assert_eq!(reply.status, status, "{host}");
        }
    });
    let public =
        |settings: &mut Settings| settings.public_url = Some("https://captions.example/".into());
    on_sqlite(Side::Image, public, async |world| {
        let reply =
            world.send(&Credentials::Nothing, "GET /health", None, "", "captions.example").await;
        assert_eq!(reply.status, 200);
        let line = format!("GET /join/{}", world.token("ann"));
        let reply = world.ask(&Credentials::Nothing, &line, None).await;
        assert!(reply.headers["set-cookie"].to_str().unwrap().ends_with("; Secure"));
        let made = world.post("lead", "/api/lead/people/1/links", json!({})).await.ok();
        let link = made["link"].as_str().unwrap();
        assert!(link.starts_with("https://captions.example/join/"), "{link}");
    });
}

#[test]
fn nobody_signs_in_on_a_laptop_but_pages_elsewhere_stay_out() {
    on_sqlite(
        Side::Image,
        |settings| settings.sign_in = false,
        async |world| {
            assert_eq!(world.ask(&Credentials::Nothing, "GET /lead", None).await.status, 200);
            let me = world.ask(&Credentials::Nothing, "GET /api/me", None).await.ok();
            assert_eq!(me["person"]["role"], "lead");
            let refused = world.ask(&Credentials::Nothing, "POST /api/next", None).await;
            assert_eq!(refused.refusal(), (403, "csrf".into()));
            let token = me["csrf"].as_str().unwrap().to_owned();
            let shows = Credentials::Cookie(String::new(), Some(token));
            assert_eq!(world.ask(&shows, "POST /api/next", None).await.status, 200);
        },
    );
}

#[test]
fn settings_that_admit_strangers_are_refused() {
    on_sqlite(Side::Image, as_is, async |world| {
        let check = |address: &str, change: &dyn Fn(&mut Settings)| {
            let mut settings = world.settings.clone();
            change(&mut settings);
            settings.check(address.parse().unwrap()).map_err(|error| error.to_string())
        };
        let open = |address: &str| check(address, &|settings| settings.sign_in = false);
        for address in ["0.0.0.0:80", "[::]:80", "192.168.0.7:80"] {
            assert!(open(address).unwrap_err().contains("must sign in"), "{address}");
        }
        assert!(open("127.0.0.1:80").is_ok() && open("[::1]:80").is_ok());
        let public = |url: Option<&str>| {
            check("0.0.0.0:80", &|settings| settings.public_url = url.map(str::to_owned))
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
            let wrong = check("127.0.0.1:80", change).unwrap_err();
            assert!(wrong.contains(expected), "{wrong}");
        }
    });
}

#[test]
fn projects_do_not_open_for_other_pools_or_odd_databases() {
    on_sqlite(Side::Image, as_is, async |mut world| {
        let refused = async |world: &World, pool: Side| {
            world.open_again(pool).await.err().unwrap().to_string()
        };
        assert!(refused(&world, Side::Text).await.contains("a pool of images"));
        for (database, expected) in [
            ("sqlite:", "kept in a file"),
            ("sqlite::memory:", "kept in a file"),
            ("sqlite:/", "is a folder"),
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
