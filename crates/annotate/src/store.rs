//! The database: SQLite or PostgreSQL, with the same tables and the same statements.
//!
//! ```text
//! nextpair_meta    name, value                 version of the tables, key of the signatures, head
//! nextpair_tasks   round, at, item, task       what people are asked, as JSON
//! nextpair_events  seq, at, round, person, what, item, key, body, seal
//! nextpair_drafts  person, item, draft, version    drafts: the only rows that change
//! ```
//!
//! Processes that share a database take turns ([`EventLog::turn`]): the one that holds the lock
//! reads what the others wrote, decides, writes and commits. Events are numbered without gaps and
//! sealed (`seal.rs`); the head in `nextpair_meta` names the last one and changes in the same
//! transaction.

mod address;
mod connector;
mod event_log;
mod rows;
mod seal;
mod tables;
mod updates;

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use nextpair_data::fingerprint;
use nextpair_data::queue::Task;
use sqlx::AssertSqlSafe;
use sqlx::any::install_default_drivers;
use tokio::sync::Mutex;

use crate::error::Error;
use crate::event::Event;
use address::Address;
use connector::{ConnectionSlot, Connector, silence};
use rows::{COLUMNS, Row};

pub(crate) use event_log::EventLog;
pub(crate) use seal::Head;
pub(crate) use updates::Updates;

/// Time limit for any operation. It is longer than the wait for a lock, so that the error names the
/// lock.
const TIMEOUT: Duration = Duration::from_secs(25);

/// The database, for reading.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    connector: Arc<Connector>,
    slot: Arc<Mutex<ConnectionSlot>>,
}

/// A failure to read or store something.
#[derive(Debug)]
pub(crate) enum StoreError {
    /// The connection was lost. Events may or may not be stored; another try finds out.
    Lost(String),
    /// The database refused. Events may or may not be stored.
    Failed(String),
    /// The contents of the database are not what was written.
    Damaged(String),
}

impl StoreError {
    /// The reason in words.
    pub(crate) fn what(&self) -> &str {
        match self {
            StoreError::Lost(what) | StoreError::Failed(what) | StoreError::Damaged(what) => what,
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let lost = match &error {
            // PostgreSQL reports that it is stopping or starting.
            sqlx::Error::Database(error) => {
                error.code().is_some_and(|code| code.starts_with("57P"))
            }
            sqlx::Error::Io(error) => {
                !matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::NotFound)
            }
            sqlx::Error::Protocol(_) | sqlx::Error::Tls(_) => true,
            _ => false,
        };
        let what = error.to_string();
        if lost { StoreError::Lost(what) } else { StoreError::Failed(what) }
    }
}

/// Applies the time limit to some work, including its waits for locks.
async fn patiently<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let done = tokio::time::timeout(TIMEOUT, work).await;
    done.unwrap_or_else(|_| Err(silence(TIMEOUT).into()))
}

fn damaged(what: String) -> StoreError {
    StoreError::Damaged(format!("the database was damaged or edited: {what}"))
}

impl Store {
    /// Connects, and creates the tables in a database that has none.
    pub(crate) async fn open(url: &str) -> Result<Self, Error> {
        install_default_drivers();
        let address = Address::of(url)?;
        let name = address.name.clone();
        let fail = |what: String| Error::Database { database: name.clone(), what };
        let connector = Connector::new(address).map_err(|e| fail(e.to_string()))?;
        let mut connection = connector.connect().await.map_err(|e| fail(e.to_string()))?;
        let prepared = tables::prepare(&mut connection, &connector).await;
        prepared.map_err(|error| fail(error.what().to_owned()))?;
        let mut slot = ConnectionSlot::default();
        slot.give_back(connection);
        Ok(Store { connector: Arc::new(connector), slot: Arc::new(Mutex::new(slot)) })
    }

    /// Opens the history for appending. Only one task of a process does so.
    pub(crate) fn event_log(&self) -> EventLog {
        EventLog::new(&self.connector)
    }

    /// Adds the name of the database to an error.
    pub(crate) fn error(&self, error: &StoreError) -> Error {
        Error::Database { database: self.connector.name.clone(), what: error.what().to_owned() }
    }

    /// Reads a value, creating it before the first event. It never changes.
    pub(crate) async fn meta(
        &self,
        name: &str,
        new: impl FnOnce() -> String,
    ) -> Result<String, Error> {
        let value = patiently(async {
            let mut slot = self.slot.lock().await;
            let mut connection = slot.take(&self.connector).await?;
            tables::begin(&mut connection, &self.connector).await?;
            let value = match tables::meta(&mut connection, name).await? {
                Some(value) => value,
                None if tables::head(&mut connection).await?.seq > 0 => {
                    let fix = tables::FIX;
                    return Err(damaged(format!("nextpair_meta has lost its {name}; {fix}")));
                }
                None => {
                    let value = new();
                    tables::set_meta(&mut connection, name, &value).await?;
                    value
                }
            };
            tables::execute(&mut connection, "COMMIT").await?;
            slot.give_back(connection);
            Ok(value)
        });
        value.await.map_err(|error| self.error(&error))
    }

    /// Closes the database, so that SQLite leaves one file behind and not three.
    pub(crate) async fn close(&self) {
        self.slot.lock().await.close().await;
    }

    /// The history of an item, the oldest event first.
    pub(crate) async fn history(&self, item: &str) -> Result<Vec<Event>, Error> {
        let read = patiently(async {
            let mut slot = self.slot.lock().await;
            let mut connection = slot.take(&self.connector).await?;
            let sql = format!(
                "SELECT {COLUMNS} FROM nextpair_events WHERE item = $1 AND item <> '' ORDER BY seq"
            );
            let query = sqlx::query(AssertSqlSafe(sql)).bind(item);
            let rows = query.fetch_all(&mut connection).await?;
            slot.give_back(connection);
            let event = |row| Row::read(row)?.event().map_err(damaged);
            rows.iter().map(event).collect::<Result<Vec<_>, StoreError>>()
        });
        read.await.map_err(|error| self.error(&error))
    }
}

/// The fingerprint of a round's tasks.
pub(crate) fn fingerprint_of(tasks: &[Arc<Task>]) -> String {
    let json = |task: &Arc<Task>| serde_json::to_string(&**task);
    let lines = tasks.iter().map(json).collect::<Result<Vec<_>, _>>();
    fingerprint_of_stored(&lines.expect("tasks have names for keys and finite numbers"))
}

/// The same of tasks as they are stored.
fn fingerprint_of_stored(tasks: &[String]) -> String {
    fingerprint(format!("[{}]", tasks.join(",")).as_bytes())
}
