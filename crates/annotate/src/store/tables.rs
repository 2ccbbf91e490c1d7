//! The tables: creation, checks, and upgrades from older versions.

use sqlx::{AnyConnection, AssertSqlSafe, Row as _};

use super::StoreError;
use super::connector::Connector;
use super::rows::{self, Row};
use super::seal::Head;

/// The version of the tables.
const VERSION: &str = "3";
/// The version before there were events about teams: guidelines, suggestions, flags, review, gold.
const WITHOUT_TEAMS: &str = "2";
/// The version before events were sealed and drafts numbered.
const UNSEALED: &str = "1";
/// Events sealed at a time.
const PAGE: i64 = 4096;

const META: &str =
    "CREATE TABLE IF NOT EXISTS nextpair_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)";
const TASKS: &str = "CREATE TABLE IF NOT EXISTS nextpair_tasks (round BIGINT NOT NULL, \
                     at BIGINT NOT NULL, item TEXT NOT NULL, task TEXT NOT NULL, \
                     PRIMARY KEY (round, at))";
/// No column has a default, so that a program of an older version cannot write to these tables.
const EVENTS: &str = "(seq BIGINT PRIMARY KEY, at BIGINT NOT NULL, round BIGINT NOT NULL, \
                      what TEXT NOT NULL, person BIGINT NOT NULL, item TEXT NOT NULL, \
                      key TEXT NOT NULL, body TEXT NOT NULL, seal TEXT NOT NULL)";
const DRAFTS: &str = "(person BIGINT NOT NULL, item TEXT NOT NULL, draft TEXT NOT NULL, \
                      version BIGINT NOT NULL, PRIMARY KEY (person, item))";
const INDEXES: [&str; 2] = [
    "CREATE INDEX IF NOT EXISTS nextpair_events_item ON nextpair_events (item) WHERE item <> ''",
    "CREATE INDEX IF NOT EXISTS nextpair_drafts_version ON nextpair_drafts (version)",
];

/// Checks every page of the file and creates missing tables of our version, in one transaction.
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

async fn make(connection: &mut AnyConnection, connector: &Connector) -> Result<(), StoreError> {
    execute(connection, META).await?;
    let version = meta(connection, "version").await?;
    match version.as_deref() {
        None => forget_unfinished(connection).await?,
        Some(UNSEALED) => return seal(connection, connector).await,
        // The tables are the same. Programs that do not know the new events must not read them.
        Some(WITHOUT_TEAMS) => set_meta(connection, "version", VERSION).await?,
        Some(VERSION) => {}
        Some(other) => {
            return Err(StoreError::Damaged(format!(
                "its tables are of version {other}; this program knows {VERSION}: use the newer \
                 program"
            )));
        }
    }
    execute(connection, TASKS).await?;
    create(connection, "nextpair_events", EVENTS).await?;
    create(connection, "nextpair_drafts", DRAFTS).await?;
    for index in INDEXES {
        execute(connection, index).await?;
    }
    if version.is_none() {
        set_meta(connection, "head", &Head::default().text()).await?;
        set_meta(connection, "version", VERSION).await?;
    }
    Ok(())
}

async fn create(
    connection: &mut AnyConnection,
    name: &str,
    columns: &str,
) -> Result<(), sqlx::Error> {
    let sql = format!("CREATE TABLE IF NOT EXISTS {name} {columns}");
    sqlx::query(AssertSqlSafe(sql)).execute(connection).await.map(drop)
}

/// Removes tables that a killed process of the first version left: they have neither a version nor
/// rows.
async fn forget_unfinished(connection: &mut AnyConnection) -> Result<(), StoreError> {
    for (table, columns) in [("nextpair_events", EVENTS), ("nextpair_drafts", DRAFTS)] {
        create(connection, table, columns).await?;
        let any = format!("SELECT 1 FROM {table} LIMIT 1");
        let any = sqlx::query(AssertSqlSafe(any)).fetch_optional(&mut *connection).await?;
        if any.is_some() {
            let what = format!("{table} has rows, but nextpair_meta has no version");
            return Err(StoreError::Damaged(what));
        }
        let drop_it = format!("DROP TABLE {table}");
        sqlx::query(AssertSqlSafe(drop_it)).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Upgrades tables of the first version.
async fn seal(connection: &mut AnyConnection, connector: &Connector) -> Result<(), StoreError> {
    if !connector.sqlite {
        // The first version takes no turns: its late writes must be seen here, or must fail.
        let lock = "LOCK TABLE nextpair_events, nextpair_drafts, nextpair_tasks \
                    IN ACCESS EXCLUSIVE MODE";
        execute(connection, lock).await?;
    }
    create(connection, "nextpair_events_2", EVENTS).await?;
    let mut head = Head { drafts: 1, ..Head::default() };
    loop {
        let sql = "SELECT seq, at, round, person, what, item, key, body FROM nextpair_events \
                   WHERE seq > $1 ORDER BY seq LIMIT $2";
        let page = sqlx::query(sql).bind(head.seq).bind(PAGE).fetch_all(&mut *connection).await?;
        let page: Vec<Row> = page.iter().map(Row::read).collect::<Result<_, _>>()?;
        let Some(last) = page.last() else { break };
        if let Some((expected, _)) = (head.seq + 1..).zip(&page).find(|(seq, row)| *seq != row.seq)
        {
            return Err(StoreError::Damaged(format!("event {expected} is missing")));
        }
        head.seq = last.seq;
        let seal = head.seal.clone();
        head.seal = rows::insert_events(connection, "nextpair_events_2", &page, seal).await?;
    }
    create(connection, "nextpair_drafts_2", DRAFTS).await?;
    for statement in [
        "INSERT INTO nextpair_drafts_2 SELECT person, item, draft, 1 FROM nextpair_drafts",
        "DROP TABLE nextpair_drafts",
        "DROP TABLE nextpair_events",
        "ALTER TABLE nextpair_drafts_2 RENAME TO nextpair_drafts",
        "ALTER TABLE nextpair_events_2 RENAME TO nextpair_events",
    ]
    .into_iter()
    .chain(INDEXES)
    {
        execute(connection, statement).await?;
    }
    set_meta(connection, "head", &head.text()).await?;
    set_meta(connection, "version", VERSION).await?;
    Ok(())
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
    let unreadable = || StoreError::Damaged(format!("its head {text:?} is not one"));
    Head::of_text(&text).ok_or_else(unreadable)
}
