//! Edits of the database are detected.

use nextpair_data::Side;
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

#[test]
fn a_database_that_was_emptied_or_whose_version_was_edited_is_refused() {
    for (edit, expected) in [
        ("DELETE FROM nextpair_meta", "nextpair_meta has lost its version"),
        ("DELETE FROM nextpair_meta WHERE name = 'version'", "has lost its version"),
        ("DELETE FROM nextpair_meta WHERE name = 'key'", "nextpair_meta has lost its key"),
        ("DELETE FROM nextpair_meta WHERE name = 'pool'", "nextpair_meta has lost its pool"),
        ("DELETE FROM nextpair_meta WHERE name = 'head'", "its head \"\" is not one"),
        ("DROP TABLE nextpair_meta", "the table nextpair_meta is missing"),
        ("DROP TABLE nextpair_events", "the table nextpair_events is missing"),
        (
            "DELETE FROM nextpair_meta; DELETE FROM nextpair_tasks; DELETE FROM nextpair_events; \
             DELETE FROM nextpair_drafts",
            "nextpair_meta has lost its version",
        ),
        ("UPDATE nextpair_meta SET value = '1' WHERE name = 'version'", "of version \"1\""),
        ("UPDATE nextpair_meta SET value = '2' WHERE name = 'version'", "of version \"2\""),
        ("UPDATE nextpair_meta SET value = '4' WHERE name = 'version'", "of version \"4\""),
        ("UPDATE nextpair_meta SET value = '' WHERE name = 'version'", "of version \"\""),
        ("UPDATE nextpair_meta SET value = '3 ' WHERE name = 'version'", "of version \"3 \""),
    ] {
        on_both(
            |_| {},
            async |world| {
                world.caption("ann", "A star .").await;
                execute(&world, edit).await;
                let wrong = world.open_again(Side::Image).await.map(drop).unwrap_err().to_string();
                let fixes = ["put a copy of the database back", "use the program that made it"];
                let says_fix = fixes.iter().any(|fix| wrong.contains(fix));
                assert!(wrong.contains(expected) && says_fix, "{edit}: {wrong}");
                let name = if world.settings.database.starts_with("sqlite") {
                    "annotate ?.db"
                } else {
                    "nextpair_"
                };
                assert!(wrong.contains(name), "it names the database: {wrong}");
                let again = world.open_again(Side::Image).await.map(drop);
                assert!(again.is_err(), "{edit}: a second start is refused as well");
            },
        );
    }
}

#[test]
fn a_start_that_was_killed_after_the_tables_were_made_goes_on() {
    on_both(
        |_| {},
        async |world| {
            for sql in [
                "DELETE FROM nextpair_events",
                "DELETE FROM nextpair_tasks",
                "DELETE FROM nextpair_meta WHERE name IN ('key', 'pool')",
                "UPDATE nextpair_meta SET value = '0 0 ' WHERE name = 'head'",
            ] {
                execute(&world, sql).await;
            }
            let again = world.open_again(Side::Image).await.unwrap();
            assert!(again.state().named("lead").is_some());
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
