//! Links and sessions: how they begin and end.

use axum::body::Body;
use axum::http::{Request, header};
use nextpair_data::Side;
use serde_json::json;

use super::world::{BEGIN, Credentials, MINUTE, Reply, World, on_both, on_sqlite};
use crate::Invitation;
use crate::Settings;

const DAY: i64 = 24 * 60 * MINUTE;

fn as_is(_: &mut Settings) {}

/// Opens a link in a browser with a session and the headers that say where it was clicked.
async fn join(world: &World, token: &str, session: Option<&str>, from: &[(&str, &str)]) -> Reply {
    let mut request = Request::builder().uri(format!("/join/{token}"));
    request = request.header(header::HOST, "localhost");
    if let Some(session) = session {
        let cookie = format!("{}={session}", world.app.signer.cookie());
        request = request.header(header::COOKIE, cookie);
    }
    for (name, value) in from {
        request = request.header(*name, *value);
    }
    world.call(request.body(Body::empty()).unwrap()).await
}

/// The session that a response begins.
fn session(reply: &Reply) -> Option<String> {
    let cookie = reply.headers.get(header::SET_COOKIE)?.to_str().unwrap();
    Some(cookie.split(['=', ';']).nth(1).unwrap().to_owned())
}

async fn sign_in(world: &World, who: &str) -> String {
    // Sessions differ by the time at which they end.
    world.pass(1);
    session(&join(world, &world.token(who), None, &[]).await).unwrap()
}

/// The person of a session, and how their page authenticates.
async fn me(world: &World, session: &str) -> Option<(String, Credentials)> {
    let reply = world.ask(&Credentials::Cookie(session.into(), None), "GET /api/me", None).await;
    let me = reply.status.is_success().then(|| reply.json())?;
    let csrf = me["csrf"].as_str().unwrap().to_owned();
    let name = me["person"]["name"].as_str().unwrap().to_owned();
    Some((name, Credentials::Cookie(session.to_owned(), Some(csrf))))
}

async fn status(world: &World, token: &str) -> u16 {
    world.ask(&Credentials::Token(token.into()), "GET /api/me", None).await.status.as_u16()
}

#[test]
fn signing_out_ends_the_session_everywhere() {
    on_both(as_is, async |world| {
        let (here, there) = (sign_in(&world, "ann").await, sign_in(&world, "ann").await);
        let (_, shows) = me(&world, &here).await.unwrap();
        assert_eq!(world.ask(&shows, "POST /api/sign-out", None).await.status, 204);
        assert_eq!(world.ask(&shows, "POST /api/sign-out", None).await.status, 401);
        assert!(me(&world, &here).await.is_none(), "whoever kept the cookie");
        assert_eq!(me(&world, &there).await.unwrap().0, "ann", "another browser");
        // A program has no session to end, and a new process knows all of this.
        assert_eq!(world.ask(&world.as_("ann"), "POST /api/sign-out", None).await.status, 204);
        assert_eq!(status(&world, &world.token("ann")).await, 200);
        let again = world.again().await;
        assert!(me(&again, &here).await.is_none() && me(&again, &there).await.is_some());
    });
}

#[test]
fn links_are_revoked_one_by_one() {
    on_both(as_is, async |world| {
        let ann = world.app.state().named("ann").unwrap().id;
        let first = world.token("ann");
        let by_first = sign_in(&world, "ann").await;
        let links = format!("/api/lead/people/{ann}/links");
        assert_eq!(world.post("ann", &links, json!({})).await.refusal().0, 403);
        let made = world.post("lead", &links, json!({})).await.ok();
        let second = made["link"].as_str().unwrap().rsplit_once('/').unwrap().1.to_owned();
        assert_eq!(
            (&made["number"], made["until"].as_i64()),
            (&json!(1), Some(BEGIN + 1 + 30 * DAY))
        );
        let by_second = sign_in(&world, "ann").await;
        assert_eq!((status(&world, &first).await, status(&world, &second).await), (200, 200));
        let revoke = format!("DELETE {links}/0");
        assert_eq!(world.ask(&world.as_("ann"), &revoke, None).await.refusal().0, 403);
        assert_eq!(world.ask(&world.as_("lead"), &revoke, None).await.status, 204);
        assert_eq!(world.ask(&world.as_("lead"), &revoke, None).await.refusal().0, 404);
        for (world, when) in [(&world, "now"), (&world.again().await, "after a restart")] {
            assert_eq!(status(world, &first).await, 401, "{when}");
            assert_eq!(status(world, &second).await, 200, "{when}");
            assert!(me(world, &by_first).await.is_none(), "{when}");
            assert!(me(world, &by_second).await.is_some(), "{when}");
        }
        for _ in 0..19 {
            world.post("lead", &links, json!({})).await.ok();
        }
        assert_eq!(world.post("lead", &links, json!({})).await.refusal(), (409, "links".into()));
        assert_eq!(
            world.post("lead", "/api/lead/people/99/links", json!({})).await.refusal().0,
            404
        );
    });
}

#[test]
fn links_expire_and_a_start_makes_new_ones() {
    on_sqlite(Side::Image, as_is, async |world| {
        let token = world.token("ann");
        world.pass(29 * DAY);
        let session = sign_in(&world, "ann").await;
        world.pass(2 * DAY);
        assert_eq!(status(&world, &token).await, 401);
        assert_eq!(join(&world, &token, None, &[]).await.status, 401);
        assert!(me(&world, &session).await.is_some(), "a session lasts its own time");
        // Everyone invited at the start has a link again, and so has the lead.
        let again = world.open_again(Side::Image).await.unwrap();
        let invitations = again.invitations(&world.settings);
        assert_eq!(invitations.len(), 3);
        for Invitation { name, link } in invitations {
            let token = link.rsplit_once('/').unwrap().1;
            assert!(again.invited(token).is_some(), "{name}");
        }
    });
}

#[test]
fn the_overview_tells_of_links_and_not_what_they_are() {
    on_sqlite(Side::Image, as_is, async |world| {
        let reply = world.get("lead", "/api/lead/overview").await;
        let text = reply.text();
        for who in ["lead", "ann", "ben"] {
            assert!(!text.contains(&world.token(who)), "{text}");
        }
        let links = &reply.json()["people"][1]["links"];
        assert_eq!(*links, json!([{ "number": 0, "until": BEGIN + 30 * DAY }]));
    });
}

#[test]
fn another_site_does_not_replace_a_session() {
    on_sqlite(Side::Image, as_is, async |world| {
        let (ann, ben) = (sign_in(&world, "ann").await, world.token("ben"));
        let elsewhere = ("sec-fetch-site", "cross-site");
        for from in [
            &[elsewhere, ("sec-fetch-dest", "document")][..],
            &[],
            &[("sec-fetch-site", "same-site")],
        ] {
            let asked = join(&world, &ben, Some(&ann), from).await;
            assert_eq!((asked.status.as_u16(), session(&asked)), (200, None), "{from:?}");
            assert!(asked.text().contains("assets/join.js"));
            // Her own link changes nothing.
            let own = join(&world, &world.token("ann"), Some(&ann), from).await;
            assert_eq!((own.status.as_u16(), session(&own)), (303, None), "{from:?}");
        }
        // A request for a part of a page comes without her session, and must not begin another one.
        for becomes in ["image", "iframe", "script", "empty"] {
            let put = join(&world, &ben, None, &[elsewhere, ("sec-fetch-dest", becomes)]).await;
            assert_eq!((put.status.as_u16(), session(&put)), (403, None), "{becomes}");
        }
        // Without a session, a link in an email signs in.
        let letter = [elsewhere, ("sec-fetch-dest", "document")];
        assert!(session(&join(&world, &ben, None, &letter).await).is_some());
        // She types it herself.
        let typed = join(&world, &ben, Some(&ann), &[("sec-fetch-site", "none")]).await;
        assert_eq!(me(&world, &session(&typed).unwrap()).await.unwrap().0, "ben");
        // Or she confirms it on the page: her session ends.
        let token = json!({ "token": ben });
        let without = Credentials::Cookie(ann.clone(), None);
        let refused = world.ask(&without, "POST /api/join", Some(token.clone())).await;
        assert_eq!(refused.refusal(), (403, "csrf".into()));
        let (_, shows) = me(&world, &ann).await.unwrap();
        let wrong = json!({ "token": "2.0.x" });
        assert_eq!(world.ask(&shows, "POST /api/join", Some(wrong)).await.refusal().0, 401);
        let joined = world.ask(&shows, "POST /api/join", Some(token)).await;
        assert_eq!(joined.json(), json!({ "page": "/" }));
        assert_eq!(me(&world, &session(&joined).unwrap()).await.unwrap().0, "ben");
        assert!(me(&world, &ann).await.is_none());
    });
}
