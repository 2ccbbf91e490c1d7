//! Storage failures: a change that fails to be stored is not acknowledged, and vice versa.

use nextpair_data::Side;
use serde_json::json;
use sqlx::{AnyConnection, AssertSqlSafe, Connection};

use super::world::{World, on_both, on_sqlite};

/// Statements of a turn that can be made to fail: the table, and the kind of write.
const STATEMENTS: [(&str, &str); 4] = [
    ("nextpair_events", "INSERT"),
    ("nextpair_drafts", "INSERT"),
    ("nextpair_drafts", "UPDATE"),
    ("nextpair_meta", "UPDATE"),
];
/// The commit itself, for PostgreSQL.
const COMMIT: (&str, &str) = ("nextpair_meta", "COMMIT");
/// SQLite's failures: after a full disk or a failed write it ends the transaction by itself; after
/// others it only undoes the statement, or not even that.
const SQLITE: [&str; 3] = ["RAISE(ROLLBACK, 'full')", "RAISE(ABORT, 'no')", "RAISE(FAIL, 'no')"];
/// PostgreSQL's failures: an error such as that of a full disk, or a lost connection.
const POSTGRES: [&str; 2] = [
    "RAISE EXCEPTION 'full' USING ERRCODE = 'disk_full'",
    "PERFORM pg_terminate_backend(pg_backend_pid())",
];

/// Another client of the same database.
pub(super) async fn connect(world: &World) -> AnyConnection {
    let url = if world.settings.database.starts_with("sqlite") {
        world.settings.database.replace(" ?", " %3F") + "?mode=rw"
    } else {
        world.settings.database.clone()
    };
    AnyConnection::connect(&url).await.unwrap()
}

pub(super) async fn execute(world: &World, sql: &str) {
    let mut connection = connect(world).await;
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Makes a statement fail from now on, every time.
async fn break_statement(world: &World, (table, how): (&str, &str), failure: &str) {
    let sql = if world.settings.database.starts_with("sqlite") {
        format!("CREATE TRIGGER broken BEFORE {how} ON {table} BEGIN SELECT {failure}; END")
    } else {
        let trigger = match how {
            "COMMIT" => format!(
                "CONSTRAINT TRIGGER broken AFTER UPDATE ON {table} DEFERRABLE INITIALLY DEFERRED"
            ),
            how => format!("TRIGGER broken BEFORE {how} ON {table}"),
        };
        format!(
            "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {failure}; \
             RETURN NEW; END $$; \
             CREATE {trigger} FOR EACH ROW EXECUTE FUNCTION broken()"
        )
    };
    execute(world, &sql).await;
}

async fn mend(world: &World, table: &str) {
    let sql = if world.settings.database.starts_with("sqlite") {
        "DROP TRIGGER broken".to_owned()
    } else {
        format!("DROP TRIGGER broken ON {table}; DROP FUNCTION broken()")
    };
    execute(world, &sql).await;
}

#[test]
fn acknowledged_is_stored_whatever_statement_fails() {
    on_both(
        |settings| settings.annotators = 20,
        async |world| {
            let sqlite = world.settings.database.starts_with("sqlite");
            let failures: &[&str] = if sqlite { &SQLITE } else { &POSTGRES };
            let mut acknowledged = Vec::new();
            let statements = STATEMENTS.iter().chain((!sqlite).then_some(&COMMIT));
            let faults = statements.flat_map(|at| failures.iter().map(move |how| (at, *how)));
            for (number, (&at, failure)) in faults.enumerate() {
                let who = format!("person-{number}");
                world
                    .post("lead", "/api/lead/people", json!({ "name": who, "role": "annotator" }))
                    .await
                    .ok();
                let item = world.next(&who).await.unwrap();
                // So that there is a draft to insert, to change and to remove.
                let draft = json!({ "item": item, "draft": { "captions": ["A"], "image": null } });
                if at != ("nextpair_drafts", "INSERT") {
                    world.ask(&world.as_(&who), "PUT /api/drafts", Some(draft.clone())).await.ok();
                }
                break_statement(&world, at, failure).await;
                let caption = format!("{who} saw it .");
                let key = format!("key-of-{number:02}");
                if at == ("nextpair_drafts", "INSERT") {
                    let kept = world.ask(&world.as_(&who), "PUT /api/drafts", Some(draft)).await;
                    assert_eq!(kept.refusal(), (503, "unavailable".into()), "{at:?} {failure}");
                } else {
                    for _ in 0..8 {
                        let reply = world.submit(&who, &key, &item, &caption).await;
                        assert_eq!(
                            reply.refusal(),
                            (503, "unavailable".into()),
                            "{at:?} {failure}"
                        );
                    }
                }
                assert!(world.export().await.iter().all(|(person, ..)| *person != who));
                mend(&world, at.0).await;
                let reply = world.submit(&who, &key, &item, &caption).await;
                assert_eq!(reply.status, 200, "{at:?} {failure}: {}", reply.text());
                acknowledged.push((who, item, caption));
            }
            // Check what is stored, not what the process remembers.
            let mut stored = world.again().await.export().await;
            stored.sort();
            acknowledged.sort();
            assert_eq!(stored, acknowledged);
        },
    );
}

#[test]
fn acts_of_teams_are_stored_before_they_are_acknowledged() {
    on_both(
        |settings| {
            settings.review = Some(1.0);
            settings.guidelines = Some("Be brief.".to_owned());
        },
        async |mut world| {
            // Or each restart would set the share anew.
            world.settings.review = None;
            let sqlite = world.settings.database.starts_with("sqlite");
            let fault = if sqlite { SQLITE[0] } else { POSTGRES[0] };
            let one = world.caption("ann", "A star .").await;
            let other = world.caption("ann", "Two stars .").await;
            let item = world.next("ann").await.unwrap();
            let mut acts = vec![
                ("ann", "POST /api/guidelines/read".to_owned(), json!({ "version": 1 })),
                (
                    "lead",
                    "PUT /api/lead/guidelines".to_owned(),
                    json!({ "text": "Be clear.", "after": 1 }),
                ),
                (
                    "ann",
                    "POST /api/flags".to_owned(),
                    json!({ "key": "key-of-flag", "item": item, "note": "What is it?" }),
                ),
                ("lead", format!("POST /api/answers/{one}/accept"), json!({ "key": "key-accept" })),
                ("lead", format!("POST /api/answers/{other}/dismiss"), json!({})),
                ("lead", "PUT /api/lead/review".to_owned(), json!({ "share": 0.5 })),
            ];
            let mut at = 0;
            while at < acts.len() {
                let (who, line, body) = acts[at].clone();
                let before = world.app.state().clone();
                break_statement(&world, ("nextpair_events", "INSERT"), fault).await;
                let reply = world.ask(&world.as_(who), &line, Some(body.clone())).await;
                assert_eq!(reply.refusal(), (503, "unavailable".into()), "{line}");
                assert_eq!(*world.app.state(), before, "{line}: nobody sees what is not stored");
                mend(&world, "nextpair_events").await;
                let reply = world.ask(&world.as_(who), &line, Some(body)).await;
                assert!(reply.status.is_success(), "{line}: {}", reply.text());
                assert_ne!(world.app.state().seq, before.seq, "{line}");
                assert_eq!(*world.again().await.app.state(), *world.app.state(), "{line}");
                let flag = world.app.state().round().unwrap().flags.keys().next().copied();
                if let Some(flag) = flag.filter(|_| line.ends_with("/flags")) {
                    let line = format!("POST /api/lead/flags/{flag}/resolve");
                    acts.push(("lead", line, json!({ "key": "key-resolve", "note": "A star." })));
                }
                at += 1;
            }
            assert_eq!(at, 7);
        },
    );
}

#[test]
fn health_is_that_something_can_be_stored() {
    on_both(
        |_| {},
        async |world| {
            let health = async || {
                world
                    .ask(&super::world::Credentials::Nothing, "GET /health", None)
                    .await
                    .status
                    .as_u16()
            };
            world.next("ann").await.unwrap();
            world.pass(2000);
            assert_eq!(health().await, 200);
            let fault =
                if world.settings.database.starts_with("sqlite") { SQLITE[0] } else { POSTGRES[0] };
            break_statement(&world, ("nextpair_meta", "UPDATE"), fault).await;
            world.pass(2000);
            // Reads still work.
            world.next("ann").await.unwrap();
            assert_eq!(health().await, 503);
            mend(&world, "nextpair_meta").await;
            assert_eq!(health().await, 200);
        },
    );
}

#[test]
fn health_fails_with_answers_that_cannot_be_stored_although_smaller_writes_can() {
    on_both(
        |_| {},
        async |world| {
            let health = async || {
                world
                    .ask(&super::world::Credentials::Nothing, "GET /health", None)
                    .await
                    .status
                    .as_u16()
            };
            let item = world.next("ann").await.unwrap();
            assert_eq!(health().await, 200);
            let fault =
                if world.settings.database.starts_with("sqlite") { SQLITE[0] } else { POSTGRES[0] };
            break_statement(&world, ("nextpair_events", "INSERT"), fault).await;
            assert_eq!(health().await, 200, "nobody knows yet");
            let refused = world.submit("ann", "key-full", &item, "A star .").await;
            assert_eq!(refused.refusal(), (503, "unavailable".into()));
            for _ in 0..2 {
                assert_eq!(health().await, 503);
                world.pass(2000);
            }
            mend(&world, "nextpair_events").await;
            assert_eq!(health().await, 200, "it recovers without an answer");
            world.submit("ann", "key-full", &item, "A star .").await.ok();
            break_statement(&world, ("nextpair_events", "INSERT"), fault).await;
            assert_eq!(world.submit("ann", "key-next", &item, "A moon .").await.status, 409);
            assert_eq!(health().await, 200, "a refusal is no failure");
            mend(&world, "nextpair_events").await;
            assert_eq!(*world.again().await.app.state(), *world.app.state());
        },
    );
}

#[test]
fn a_file_that_is_gone_takes_no_answers() {
    on_sqlite(
        Side::Image,
        |_| {},
        async |world| {
            let item = world.next("ann").await.unwrap();
            let file = world.settings.database.strip_prefix("sqlite:").unwrap().to_owned();
            let aside = format!("{file}.aside");
            std::fs::rename(&file, &aside).unwrap();
            let refused = world.submit("ann", "key-gone", &item, "A star .").await;
            assert_eq!(refused.refusal(), (503, "unavailable".into()));
            std::fs::rename(&aside, &file).unwrap();
            world.submit("ann", "key-gone", &item, "A star .").await.ok();
            assert_eq!(world.again().await.export().await.len(), 1);
        },
    );
}

#[test]
fn a_damaged_file_is_called_that() {
    on_sqlite(
        Side::Image,
        |_| {},
        async |world| {
            let mut other = world.settings.clone();
            let path = world.folder.path().join("garbage.db");
            std::fs::write(&path, vec![7u8; 8192]).unwrap();
            other.database = format!("sqlite:{}", path.display());
            let wrong = crate::store::Store::open(&other.database).await.unwrap_err().to_string();
            assert!(wrong.contains("not a database"), "{wrong}");
            // A page in the middle that was overwritten.
            world.app.writer.close().await;
            world.app.store.close().await;
            let file = world.settings.database.strip_prefix("sqlite:").unwrap();
            let mut bytes = std::fs::read(file).unwrap();
            let middle = bytes.len() / 4096 / 2 * 4096;
            bytes[middle..middle + 4096].fill(0xA5);
            std::fs::write(file, bytes).unwrap();
            let wrong = world.open_again(Side::Image).await.map(drop).unwrap_err().to_string();
            assert!(wrong.contains("damaged") || wrong.contains("malformed"), "{wrong}");
        },
    );
}
