//! The tables: creation and checks.

use sqlx::{AnyConnection, Row as _};

use super::connector::Connector;
use super::seal::Head;
use super::{StoreError, damaged};

/// The version of the tables.
const VERSION: &str = "3";
/// What to do about a database whose rows are not what was written.
pub(super) const FIX: &str = "put a copy of the database back, or start with another one";
const TABLES: [&str; 4] = ["nextpair_meta", "nextpair_tasks", "nextpair_events", "nextpair_drafts"];

const META: &str = "CREATE TABLE nextpair_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)";
const TASKS: &str = "CREATE TABLE nextpair_tasks (round BIGINT NOT NULL, \
                     at BIGINT NOT NULL, item TEXT NOT NULL, task TEXT NOT NULL, \
                     PRIMARY KEY (round, at))";
/// No column has a default: a row that lacks something is refused.
const EVENTS: &str = "CREATE TABLE nextpair_events (seq BIGINT PRIMARY KEY, at BIGINT NOT NULL, round BIGINT NOT NULL, \
                      what TEXT NOT NULL, person BIGINT NOT NULL, item TEXT NOT NULL, \
                      key TEXT NOT NULL, body TEXT NOT NULL, seal TEXT NOT NULL)";
const DRAFTS: &str = "CREATE TABLE nextpair_drafts (person BIGINT NOT NULL, item TEXT NOT NULL, draft TEXT NOT NULL, \
                      version BIGINT NOT NULL, PRIMARY KEY (person, item))";
const INDEXES: [&str; 2] = [
    "CREATE INDEX nextpair_events_item ON nextpair_events (item) WHERE item <> ''",
    "CREATE INDEX nextpair_drafts_version ON nextpair_drafts (version)",
];

/// Checks every page of the file, and creates or checks the tables, in one transaction.
pub(super) async fn prepare(
    connection: &mut AnyConnection,
    connector: &Connector,
) -> Result<(), StoreError> {
    if connector.sqlite {
        let found: String =
            sqlx::query("PRAGMA quick_check(1)").fetch_one(&mut *connection).await?.try_get(0)?;
        if found != "ok" {
            return Err(StoreError::Damaged(format!("the file is damaged: {found}")));
        }
    }
    begin(connection, connector).await?;
    make(connection, connector).await?;
    let head = head(connection).await?;
    let last = "SELECT coalesce(max(seq), 0) FROM nextpair_events";
    let last: i64 = sqlx::query(last).fetch_one(&mut *connection).await?.try_get(0)?;
    if last > head.seq {
        let what = format!("event {last} was added or edited by hand: the last is {}", head.seq);
        return Err(StoreError::Damaged(what));
    }
    execute(connection, "COMMIT").await?;
    Ok(())
}

/// Begins a transaction during which no other process writes.
pub(super) async fn begin(
    connection: &mut AnyConnection,
    connector: &Connector,
) -> Result<(), sqlx::Error> {
    if connector.sqlite {
        return connector.unlocked(connection, "BEGIN IMMEDIATE").await;
    }
    execute(connection, "BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    // Named after the schema, because at first there is no table to name.
    let lock = "SELECT pg_advisory_xact_lock(hashtext('nextpair ' || current_schema()))";
    execute(connection, lock).await
}

pub(super) async fn execute(
    connection: &mut AnyConnection,
    statement: &'static str,
) -> Result<(), sqlx::Error> {
    sqlx::query(statement).execute(connection).await.map(drop)
}

/// Creates the tables in a database that has none, or checks that these are of our version. They are
/// created in one transaction, so a database that has some of them without a version has lost its rows.
async fn make(connection: &mut AnyConnection, connector: &Connector) -> Result<(), StoreError> {
    let mut found = Vec::new();
    for table in TABLES {
        if exists(connection, connector, table).await? {
            found.push(table);
        }
    }
    if found.is_empty() {
        return create(connection).await.map_err(StoreError::from);
    }
    if let Some(missing) = TABLES.iter().find(|table| !found.contains(table)) {
        return Err(damaged(format!("the table {missing} is missing; {FIX}")));
    }
    match meta(connection, "version").await?.as_deref() {
        Some(VERSION) => Ok(()),
        None => Err(damaged(format!("nextpair_meta has lost its version; {FIX}"))),
        Some(other) => Err(StoreError::Damaged(format!(
            "its tables are of version {other:?}; this program knows {VERSION:?}: use the program \
             that made it, or another database"
        ))),
    }
}

async fn exists(
    connection: &mut AnyConnection,
    connector: &Connector,
    table: &str,
) -> Result<bool, sqlx::Error> {
    let sql = match connector.sqlite {
        true => "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = $1",
        false => "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = $1",
    };
    let row = sqlx::query(sql).bind(table).fetch_optional(connection).await?;
    Ok(row.is_some())
}

async fn create(connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
    for statement in [META, TASKS, EVENTS, DRAFTS].into_iter().chain(INDEXES) {
        execute(connection, statement).await?;
    }
    set_meta(connection, "head", &Head::default().text()).await?;
    set_meta(connection, "version", VERSION).await
}

/// Reads a value by name.
pub(super) async fn meta(
    connection: &mut AnyConnection,
    name: &str,
) -> Result<Option<String>, sqlx::Error> {
    let select = "SELECT value FROM nextpair_meta WHERE name = $1";
    let row = sqlx::query(select).bind(name).fetch_optional(connection).await?;
    row.map(|row| row.try_get(0)).transpose()
}

/// Stores a value by name.
pub(super) async fn set_meta(
    connection: &mut AnyConnection,
    name: &str,
    value: &str,
) -> Result<(), sqlx::Error> {
    let sql = "INSERT INTO nextpair_meta (name, value) VALUES ($1, $2) \
               ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    sqlx::query(sql).bind(name).bind(value).execute(connection).await.map(drop)
}

/// The end of the history.
pub(super) async fn head(connection: &mut AnyConnection) -> Result<Head, StoreError> {
    let text = meta(connection, "head").await?.unwrap_or_default();
    let unreadable = || damaged(format!("its head {text:?} is not one; {FIX}"));
    Head::of_text(&text).ok_or_else(unreadable)
}
