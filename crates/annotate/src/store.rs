//! The database: SQLite or PostgreSQL, with the same tables and the same statements.
//!
//! ```text
//! nextpair_meta    name, value                           version of the tables, key of the signatures
//! nextpair_tasks   round, at, item, task                 what people are asked, as JSON
//! nextpair_events  seq, at, round, what, person, item, key, body
//! nextpair_drafts  person, item, draft                   unfinished words: the only rows that change
//! ```
//!
//! Events are numbered by whoever writes them, without gaps. Two processes that write at the same
//! time would use the same number, so one of them is refused, reads what the other one wrote, and
//! decides again.

mod address;

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

use nextpair_data::queue::Task;
use sqlx::any::{AnyConnectOptions, AnyPoolOptions, AnyRow, install_default_drivers};
use sqlx::{AnyConnection, AnyPool, AssertSqlSafe, Connection, Row};

use crate::event::{Draft, Event, PersonId, Seq};
use crate::refusal::Error;
use crate::state::Record;
use address::Address;

/// The version of the tables.
const VERSION: &str = "1";
/// How long to wait for a connection before saying that there is none.
const PATIENCE: Duration = Duration::from_secs(5);
/// Rows are written so many at a time, so that few different statements have to be prepared.
const ROWS: [usize; 3] = [64, 8, 1];

const TABLES: [&str; 5] = [
    "CREATE TABLE IF NOT EXISTS nextpair_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS nextpair_tasks (round BIGINT NOT NULL, at BIGINT NOT NULL, \
     item TEXT NOT NULL, task TEXT NOT NULL, PRIMARY KEY (round, at))",
    "CREATE TABLE IF NOT EXISTS nextpair_events (seq BIGINT PRIMARY KEY, at BIGINT NOT NULL, \
     round BIGINT NOT NULL, what TEXT NOT NULL, person BIGINT NOT NULL, item TEXT NOT NULL, \
     key TEXT NOT NULL, body TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS nextpair_events_item ON nextpair_events (item) WHERE item <> ''",
    "CREATE TABLE IF NOT EXISTS nextpair_drafts (person BIGINT NOT NULL, item TEXT NOT NULL, \
     draft TEXT NOT NULL, PRIMARY KEY (person, item))",
];

/// The database of a desk.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pool: AnyPool,
    /// What errors call it: without a password.
    name: String,
}

/// What is stored and not yet known.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) events: Vec<Event>,
    pub(crate) tasks: HashMap<i64, Vec<Task>>,
    /// All of them, if anything happened.
    pub(crate) drafts: HashMap<(PersonId, String), Draft>,
}

/// Why something could not be stored.
#[derive(Debug)]
pub(crate) enum Unstored {
    /// Another process was faster: what is known here is not all there is.
    Overtaken,
    /// The database does not answer. What was to be stored may be there or not.
    Failed(String),
}

impl Store {
    /// Connects, and makes the tables if they are not there.
    pub(crate) async fn open(url: &str) -> Result<Self, Error> {
        install_default_drivers();
        let Address { name, url, sqlite } = Address::of(url)?;
        let fail = |what: String| Error::Database { database: name.clone(), what };
        let options = AnyConnectOptions::from_str(&url).map_err(|e| fail(e.to_string()))?;
        // The pool would only say that it waited in vain.
        let tried = AnyConnection::connect_with(&options).await.map_err(|e| fail(e.to_string()))?;
        tried.close().await.map_err(|e| fail(e.to_string()))?;
        let pool = AnyPoolOptions::new().max_connections(4).acquire_timeout(PATIENCE);
        let pool = pool.after_connect(move |connection, _| {
            Box::pin(async move {
                if sqlite {
                    // An answer is acknowledged when it would survive a loss of power.
                    for pragma in [
                        "PRAGMA busy_timeout = 5000",
                        "PRAGMA journal_mode = WAL",
                        "PRAGMA synchronous = FULL",
                    ] {
                        sqlx::query(pragma).execute(&mut *connection).await?;
                    }
                }
                Ok(())
            })
        });
        let pool = pool.connect_with(options).await.map_err(|e| fail(e.to_string()))?;
        let store = Store { pool, name };
        store.prepare().await.map_err(|e| store.error(&e))?;
        let version = store.meta("version", || VERSION.to_owned()).await?;
        if version != VERSION {
            let what = format!("its tables are of version {version}; this program knows {VERSION}");
            return Err(Error::Database { database: store.name.clone(), what });
        }
        Ok(store)
    }

    async fn prepare(&self) -> Result<(), sqlx::Error> {
        for table in TABLES {
            // Two processes that begin at the same time may both find a table missing.
            let made = sqlx::query(table).execute(&self.pool).await;
            if made.is_err() {
                sqlx::query(table).execute(&self.pool).await?;
            }
        }
        Ok(())
    }

    fn error(&self, error: &sqlx::Error) -> Error {
        Error::Database { database: self.name.clone(), what: error.to_string() }
    }

    /// A value that is made once and then stays.
    pub(crate) async fn meta(
        &self,
        name: &str,
        new: impl FnOnce() -> String,
    ) -> Result<String, Error> {
        let insert =
            "INSERT INTO nextpair_meta (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING";
        let select = "SELECT value FROM nextpair_meta WHERE name = $1";
        let fail = |e: sqlx::Error| self.error(&e);
        sqlx::query(insert).bind(name).bind(new()).execute(&self.pool).await.map_err(fail)?;
        let row = sqlx::query(select).bind(name).fetch_one(&self.pool).await.map_err(fail)?;
        row.try_get(0).map_err(fail)
    }

    /// Lets go of the database, so that SQLite leaves one file behind and not three.
    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }

    /// Whether the database answers.
    pub(crate) async fn answers(&self) -> bool {
        sqlx::query("SELECT 1").execute(&self.pool).await.is_ok()
    }

    /// What happened after an event, and the tasks of rounds after a round. After nothing: all.
    pub(crate) async fn news(&self, seq: Seq, round: i64) -> Result<News, Error> {
        let mut news = News::default();
        let fail = |e: sqlx::Error| self.error(&e);
        let damaged = |what: String| Error::Database { database: self.name.clone(), what };
        let events = "SELECT seq, at, round, person, key, body FROM nextpair_events \
                      WHERE seq > $1 ORDER BY seq";
        let rows = sqlx::query(events).bind(seq).fetch_all(&self.pool).await.map_err(fail)?;
        for (row, expected) in rows.iter().zip(seq + 1..) {
            let event = event_of(row).map_err(damaged)?;
            if event.seq != expected {
                return Err(damaged(format!("event {expected} is missing")));
            }
            news.events.push(event);
        }
        if news.events.is_empty() {
            return Ok(news);
        }
        let tasks = "SELECT round, task FROM nextpair_tasks WHERE round > $1 ORDER BY round, at";
        for row in sqlx::query(tasks).bind(round).fetch_all(&self.pool).await.map_err(fail)? {
            let (round, task): (i64, String) =
                (row.try_get(0).map_err(fail)?, row.try_get(1).map_err(fail)?);
            let task = serde_json::from_str(&task)
                .map_err(|e| damaged(format!("a task of round {round}: {e}")))?;
            news.tasks.entry(round).or_default().push(task);
        }
        let drafts = "SELECT person, item, draft FROM nextpair_drafts";
        for row in sqlx::query(drafts).fetch_all(&self.pool).await.map_err(fail)? {
            let draft: String = row.try_get(2).map_err(fail)?;
            let draft = serde_json::from_str(&draft)
                .map_err(|e| damaged(format!("an unfinished answer: {e}")))?;
            let key = (row.try_get(0).map_err(fail)?, row.try_get(1).map_err(fail)?);
            news.drafts.insert(key, draft);
        }
        Ok(news)
    }

    /// Everything that happened to an item, the oldest first.
    pub(crate) async fn history(&self, item: &str) -> Result<Vec<Event>, Error> {
        let events = "SELECT seq, at, round, person, key, body FROM nextpair_events \
                      WHERE item = $1 AND item <> '' ORDER BY seq";
        let rows = sqlx::query(events).bind(item).fetch_all(&self.pool).await;
        let damaged = |what: String| Error::Database { database: self.name.clone(), what };
        let rows = rows.map_err(|e| self.error(&e))?;
        rows.iter().map(|row| event_of(row).map_err(damaged)).collect()
    }

    /// Stores what acts left behind, all of it or nothing, and returns when it is safe.
    pub(crate) async fn append(&self, record: &Record) -> Result<(), Unstored> {
        let result = self.try_append(record).await;
        result.map_err(|error| match error.as_database_error() {
            Some(known) if known.is_unique_violation() => Unstored::Overtaken,
            _ => Unstored::Failed(error.to_string()),
        })
    }

    async fn try_append(&self, record: &Record) -> Result<(), sqlx::Error> {
        let json = |e: serde_json::Error| sqlx::Error::Encode(Box::new(e));
        let mut transaction = self.pool.begin().await?;
        // Events come first: they tell whether another process was faster.
        for events in in_chunks(&record.events) {
            let sql = insert(
                "nextpair_events (seq, at, round, what, person, item, key, body)",
                8,
                events.len(),
            );
            let mut query = sqlx::query(AssertSqlSafe(sql));
            for event in events {
                let body = serde_json::to_string(&event.what).map_err(json)?;
                query = query.bind(event.seq).bind(event.at).bind(event.round);
                query = query.bind(event.what.name()).bind(event.by.unwrap_or(0));
                query = query.bind(event.what.item().unwrap_or_default().to_owned());
                query = query.bind(event.key.clone().unwrap_or_default()).bind(body);
            }
            query.execute(&mut *transaction).await?;
        }
        for (round, tasks) in &record.tasks {
            let numbered: Vec<(usize, &Task)> = tasks.iter().enumerate().collect();
            for tasks in in_chunks(&numbered) {
                let sql = insert("nextpair_tasks (round, at, item, task)", 4, tasks.len());
                let mut query = sqlx::query(AssertSqlSafe(sql));
                for (at, task) in tasks {
                    let body = serde_json::to_string(task).map_err(json)?;
                    query = query.bind(*round).bind(*at as i64).bind(task.id.clone()).bind(body);
                }
                query.execute(&mut *transaction).await?;
            }
        }
        for (person, item, draft) in &record.drafts {
            let query = match draft {
                Some(draft) => {
                    let draft = serde_json::to_string(draft).map_err(json)?;
                    sqlx::query(
                        "INSERT INTO nextpair_drafts (person, item, draft) VALUES ($1, $2, $3) \
                         ON CONFLICT (person, item) DO UPDATE SET draft = excluded.draft",
                    )
                    .bind(*person)
                    .bind(item.clone())
                    .bind(draft)
                }
                None => sqlx::query("DELETE FROM nextpair_drafts WHERE person = $1 AND item = $2")
                    .bind(*person)
                    .bind(item.clone()),
            };
            query.execute(&mut *transaction).await?;
        }
        transaction.commit().await
    }
}

/// An event as it is stored.
fn event_of(row: &AnyRow) -> Result<Event, String> {
    let read = || -> Result<_, sqlx::Error> {
        let (seq, at, round): (Seq, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let (by, key, body): (i64, String, String) =
            (row.try_get(3)?, row.try_get(4)?, row.try_get(5)?);
        Ok((seq, at, round, by, key, body))
    };
    let (seq, at, round, by, key, body) = read().map_err(|e| e.to_string())?;
    let what = serde_json::from_str(&body).map_err(|e| format!("event {seq}: {e}"))?;
    let (by, key) = ((by != 0).then_some(by), (!key.is_empty()).then_some(key));
    Ok(Event { seq, at, round, by, key, what })
}

/// Rows in chunks of few different sizes.
fn in_chunks<T>(mut rows: &[T]) -> Vec<&[T]> {
    let mut chunks = Vec::new();
    for size in ROWS {
        while rows.len() >= size {
            let (chunk, rest) = rows.split_at(size);
            chunks.push(chunk);
            rows = rest;
        }
    }
    chunks
}

/// A statement that writes so many rows.
fn insert(columns: &str, width: usize, rows: usize) -> String {
    let row = |row: usize| {
        let numbers: Vec<String> = (1..=width).map(|at| format!("${}", row * width + at)).collect();
        format!("({})", numbers.join(", "))
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    format!("INSERT INTO {columns} VALUES {}", rows.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_all_rows_in_order() {
        let rows: Vec<usize> = (0..147).collect();
        let chunks = in_chunks(&rows);
        assert_eq!(
            chunks.iter().map(|chunk| chunk.len()).collect::<Vec<_>>(),
            [64, 64, 8, 8, 1, 1, 1]
        );
        assert_eq!(chunks.concat(), rows);
        assert_eq!(insert("t (a, b)", 2, 2), "INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4)");
    }
}
