//! Connections to the database.

use std::str::FromStr;
use std::time::{Duration, Instant};

use nextpair_data::system::{self, Identity};
use sqlx::any::AnyConnectOptions;
use sqlx::{AnyConnection, Connection};

use super::address::Address;

/// Time limit for connecting.
const TIMEOUT: Duration = Duration::from_secs(10);

/// SQLite settings. An answer is acknowledged only when it would survive a power loss. A statement
/// that finds the file locked fails soon, and [`Connector::unlocked`] retries often: SQLite's own
/// retries get ever rarer, and a busy process would shut out the others.
const SQLITE: [&str; 3] =
    ["PRAGMA busy_timeout = 20", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"];
/// How long to wait for a lock.
const LOCKED: Duration = Duration::from_secs(8);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(2);
/// The same for PostgreSQL. A process that stops in the middle does not block the others.
const POSTGRES: [&str; 4] = [
    "SELECT set_config('synchronous_commit', 'on', false) \
     WHERE current_setting('synchronous_commit') = 'off'",
    "SET lock_timeout = '8s'",
    "SET statement_timeout = '20s'",
    "SET idle_in_transaction_session_timeout = '30s'",
];

/// Makes connections to one database, with these settings.
#[derive(Debug)]
pub(super) struct Connector {
    /// The name for errors, without a password.
    pub(super) name: String,
    /// Whether this is SQLite, and not PostgreSQL.
    pub(super) sqlite: bool,
    options: AnyConnectOptions,
    /// The SQLite file as it was at the start.
    file: Option<File>,
}

/// The identity of a file.
#[derive(Debug)]
struct File {
    path: String,
    identity: Option<Identity>,
}

impl Connector {
    pub(super) fn new(address: Address) -> Result<Self, sqlx::Error> {
        let Address { name, url, file } = address;
        let options = AnyConnectOptions::from_str(&url)?;
        let file = file.map(|path| File { identity: identity(&path), path });
        Ok(Connector { name, sqlite: file.is_some(), options, file })
    }

    pub(super) async fn connect(&self) -> Result<AnyConnection, sqlx::Error> {
        self.check_file()?;
        let connect = async {
            let mut connection = AnyConnection::connect_with(&self.options).await?;
            let settings: &[&str] = if self.sqlite { &SQLITE } else { &POSTGRES };
            for &setting in settings {
                // Two processes may both be the first.
                self.unlocked(&mut connection, setting).await?;
            }
            Ok(connection)
        };
        tokio::time::timeout(TIMEOUT, connect).await.unwrap_or_else(|_| Err(silence(TIMEOUT)))
    }

    /// Executes a statement, retrying while another process holds the lock.
    pub(super) async fn unlocked(
        &self,
        connection: &mut AnyConnection,
        statement: &'static str,
    ) -> Result<(), sqlx::Error> {
        let end = Instant::now() + LOCKED;
        loop {
            match sqlx::query(statement).execute(&mut *connection).await {
                Err(error) if self.sqlite && is_busy(&error) && Instant::now() < end => {
                    tokio::time::sleep(PAUSE).await;
                }
                executed => return executed.map(drop),
            }
        }
    }

    /// Returns an error if the SQLite file is not the one that was opened: writes to a deleted file
    /// are lost with the process.
    pub(super) fn check_file(&self) -> Result<(), sqlx::Error> {
        match &self.file {
            Some(file) if file.identity != identity(&file.path) => Err(sqlx::Error::Io(
                std::io::Error::new(std::io::ErrorKind::NotFound, "the file was moved or replaced"),
            )),
            _ => Ok(()),
        }
    }
}

/// Returns whether SQLite reports a locked file. The lower byte of a code is its kind.
fn is_busy(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == 5)
}

/// The error for a missing response.
pub(super) fn silence(patience: Duration) -> sqlx::Error {
    let what = format!("no answer in {} s", patience.as_secs());
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, what))
}

fn identity(path: &str) -> Option<Identity> {
    system::look_at(path.as_ref()).ok().map(|(_, identity)| identity)
}

/// A connection that is taken for some work and returned only if all of it succeeds.
///
/// After a failure, or if the work was cancelled, it is dropped: its transaction may be in any
/// state. (After a full disk SQLite ends a transaction by itself. Continuing as if it were open
/// would write changes that are never committed.)
#[derive(Debug, Default)]
pub(super) struct ConnectionSlot(Option<AnyConnection>);

impl ConnectionSlot {
    pub(super) async fn take(
        &mut self,
        connector: &Connector,
    ) -> Result<AnyConnection, sqlx::Error> {
        match self.0.take() {
            Some(connection) => Ok(connection),
            None => connector.connect().await,
        }
    }

    pub(super) fn give_back(&mut self, connection: AnyConnection) {
        self.0 = Some(connection);
    }

    pub(super) async fn close(&mut self) {
        if let Some(connection) = self.0.take() {
            // An error on closing does not matter any more.
            let _ = connection.close().await;
        }
    }
}
