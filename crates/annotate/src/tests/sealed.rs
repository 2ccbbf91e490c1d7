//! Edits of the database are detected, and databases of older versions open.

use nextpair_data::Side;
use nextpair_data::queue::Task;
use sqlx::{AnyConnection, AssertSqlSafe, Connection, Row};

use super::faults::execute;
use super::world::{World, on_both};

/// Edits, and the errors they cause.
const EDITS: [(&str, &str); 10] = [
    (
        "INSERT INTO nextpair_events SELECT seq + 100, at, round, what, person, item, key, body, seal \
         FROM nextpair_events WHERE seq = 2",
        "event 102 was added",
    ),
    (
        "UPDATE nextpair_events SET body = replace(body, 'A star', 'A moon') WHERE what = 'answered'",
        "was changed",
    ),
    ("UPDATE nextpair_events SET person = 3 WHERE what = 'answered'", "was changed"),
    ("UPDATE nextpair_events SET item = 'x' WHERE what = 'answered'", "was changed"),
    ("UPDATE nextpair_events SET at = at + 1 WHERE seq = 2", "event 2 was changed"),
    ("DELETE FROM nextpair_events WHERE seq = 3", "event 3 is missing"),
    (
        "DELETE FROM nextpair_events WHERE seq = (SELECT max(seq) FROM nextpair_events)",
        "is missing",
    ),
    ("DELETE FROM nextpair_events", "event 1 is missing"),
    (
        "UPDATE nextpair_tasks SET task = replace(task, '0.75', '0.76') WHERE at = 1",
        "the tasks of round 1 were changed",
    ),
    ("DELETE FROM nextpair_tasks WHERE at = 4", "the tasks of round 1 were changed"),
];

/// Copies the tables, to start anew from.
async fn copy(world: &World, from: &str, to: &str) {
    for table in ["nextpair_events", "nextpair_tasks"] {
        let sql = match to {
            "" => format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM {table}{from}"),
            _ => format!("CREATE TABLE {table}{to} AS SELECT * FROM {table}"),
        };
        execute(world, &sql).await;
    }
}

#[test]
fn an_edit_is_found() {
    on_both(
        |_| {},
        async |world| {
            world.caption("ann", "A star .").await;
            copy(&world, "", "_kept").await;
            for (edit, expected) in EDITS {
                execute(&world, edit).await;
                let wrong = world.open_again(Side::Image).await.map(drop).unwrap_err().to_string();
                assert!(wrong.contains(expected) && wrong.contains("edited"), "{edit}: {wrong}");
                copy(&world, "_kept", "").await;
            }
            assert_eq!(world.again().await.export().await.len(), 1);
        },
    );
}

#[test]
fn a_history_that_was_cut_below_a_running_app_stops_it() {
    on_both(
        |_| {},
        async |world| {
            world.caption("ann", "A star .").await;
            let item = world.next("ann").await.unwrap();
            execute(&world, "UPDATE nextpair_meta SET value = '1 0 x' WHERE name = 'head'").await;
            let refused = world.submit("ann", "key-of-cut", &item, "A moon .").await;
            assert_eq!(refused.refusal(), (503, "unavailable".into()));
        },
    );
}

/// The tables of the first version.
const FIRST: [&str; 5] = [
    "CREATE TABLE nextpair_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE nextpair_tasks (round BIGINT NOT NULL, at BIGINT NOT NULL, item TEXT NOT NULL, \
     task TEXT NOT NULL, PRIMARY KEY (round, at))",
    "CREATE TABLE nextpair_events (seq BIGINT PRIMARY KEY, at BIGINT NOT NULL, round BIGINT NOT \
     NULL, what TEXT NOT NULL, person BIGINT NOT NULL, item TEXT NOT NULL, key TEXT NOT NULL, \
     body TEXT NOT NULL)",
    "CREATE INDEX nextpair_events_item ON nextpair_events (item) WHERE item <> ''",
    "CREATE TABLE nextpair_drafts (person BIGINT NOT NULL, item TEXT NOT NULL, draft TEXT NOT \
     NULL, PRIMARY KEY (person, item))",
];

/// Converts everything back to tables of the first version.
async fn as_first_version(world: &World) {
    for table in ["meta", "tasks", "events", "drafts"] {
        execute(world, &format!("ALTER TABLE nextpair_{table} RENAME TO old_{table}")).await;
    }
    for index in ["nextpair_events_item", "nextpair_drafts_version"] {
        execute(world, &format!("DROP INDEX {index}")).await;
    }
    for statement in FIRST {
        execute(world, statement).await;
    }
    for (table, columns) in [
        ("meta", "name, value"),
        ("tasks", "round, at, item, task"),
        ("events", "seq, at, round, what, person, item, key, body"),
        ("drafts", "person, item, draft"),
    ] {
        let only = if table == "drafts" { "WHERE draft <> ''" } else { "" };
        let fill = format!(
            "INSERT INTO nextpair_{table} ({columns}) SELECT {columns} FROM old_{table} {only}"
        );
        execute(world, &fill).await;
    }
    execute(world, "DELETE FROM nextpair_meta WHERE name = 'head'").await;
    execute(world, "UPDATE nextpair_meta SET value = '1' WHERE name = 'version'").await;
}

#[test]
fn a_database_of_the_first_version_opens() {
    on_both(
        |_| {},
        async |world| {
            world.caption("ann", "A star .").await;
            let item = world.next("ben").await.unwrap();
            let draft = serde_json::json!({ "item": item, "draft": { "captions": ["A m"], "image": null } });
            world.ask(&world.as_("ben"), "PUT /api/drafts", Some(draft)).await.ok();
            as_first_version(&world).await;
            let again = world.again().await;
            assert_eq!(*again.app.state(), *world.app.state());
            again.submit("ben", "key-newer", &item, "A moon .").await.ok();
            assert_eq!(world.again().await.export().await.len(), 2);
            // A running program of the first version cannot write any more.
            let mut old = super::faults::connect(&world).await;
            let insert = "INSERT INTO nextpair_events (seq, at, round, what, person, item, key, body) \
                      VALUES (99, 1, 1, 'paused', 1, '', '', '{\"what\":\"paused\"}')";
            assert!(sqlx::query(insert).execute(&mut old).await.is_err());
            old.close().await.unwrap();
            // An edit of older rows is detected as well.
            execute(&world, "UPDATE nextpair_events SET person = 2 WHERE seq = 1").await;
            let wrong = world.open_again(Side::Image).await.map(drop).unwrap_err().to_string();
            assert!(wrong.contains("event 1 was changed"), "{wrong}");
        },
    );
}

/// Older versions left out what a pick did not have; the picks of the source have more today.
#[test]
fn tasks_that_an_older_version_stored_are_known() {
    on_both(
        |_| {},
        async |world| {
            world.caption("ann", "A star .").await;
            as_first_version(&world).await;
            let (batch, print) = {
                let state = world.app.state();
                let round = state.round().unwrap();
                (round.batch(), round.fingerprint.clone())
            };
            let older = |task: &Task| {
                let (rank, id, score) = (task.rank, &task.id, task.score);
                serde_json::json!({ "rank": rank, "id": id, "score": score }).to_string()
            };
            let older: Vec<String> = batch.tasks.iter().map(older).collect();
            for (at, task) in older.iter().enumerate() {
                let sql = format!("UPDATE nextpair_tasks SET task = '{task}' WHERE at = {at}");
                execute(&world, &sql).await;
            }
            let now = nextpair_data::fingerprint(format!("[{}]", older.join(",")).as_bytes());
            let sql =
                format!("UPDATE nextpair_events SET body = replace(body, '{print}', '{now}')");
            execute(&world, &sql).await;
            let again = world.again().await;
            again.look().await;
            again.caption("ann", "A moon .").await;
            assert_eq!(again.export().await.len(), 2);
        },
    );
}

#[test]
fn tables_that_a_kill_left_unfinished_are_finished() {
    on_both(
        |_| {},
        async |world| {
            for table in ["meta", "tasks", "events", "drafts"] {
                execute(&world, &format!("DROP TABLE nextpair_{table}")).await;
            }
            for statement in &FIRST[..4] {
                execute(&world, statement).await;
            }
            let again = world.open_again(Side::Image).await.unwrap();
            assert!(again.state().named("lead").is_some());
        },
    );
}

#[test]
fn a_database_of_the_second_version_opens() {
    on_both(
        |_| {},
        async |world| {
            world.caption("ann", "A star .").await;
            execute(&world, "UPDATE nextpair_meta SET value = '2' WHERE name = 'version'").await;
            let again = world.again().await;
            assert_eq!(*again.app.state(), *world.app.state());
            // Programs that do not know its new events refuse it from now on.
            let mut connection: AnyConnection = super::faults::connect(&world).await;
            let sql = "SELECT value FROM nextpair_meta WHERE name = 'version'";
            let row = sqlx::query(sql).fetch_one(&mut connection).await.unwrap();
            assert_eq!(row.get::<String, _>(0), "3");
            connection.close().await.unwrap();
        },
    );
}

#[test]
fn a_newer_database_is_refused() {
    on_both(
        |_| {},
        async |world| {
            execute(&world, "UPDATE nextpair_meta SET value = '4' WHERE name = 'version'").await;
            let wrong = world.open_again(Side::Image).await.map(drop).unwrap_err().to_string();
            assert!(wrong.contains("version 4") && wrong.contains("newer program"), "{wrong}");
        },
    );
}

#[test]
fn every_event_is_sealed() {
    on_both(
        |_| {},
        async |world| {
            world.caption("ann", "A star .").await;
            let mut connection: AnyConnection = super::faults::connect(&world).await;
            let sql = "SELECT count(*) FROM nextpair_events WHERE length(seal) <> 43";
            let row = sqlx::query(AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap();
            assert_eq!(row.get::<i64, _>(0), 0);
            connection.close().await.unwrap();
        },
    );
}
