//! Connections to the database.

use std::str::FromStr;
use std::time::{Duration, Instant};

use sqlx::any::AnyConnectOptions;
use sqlx::{AnyConnection, Connection};

use super::address::Address;

/// How long a connection may take to be made.
const PATIENCE: Duration = Duration::from_secs(10);

/// An answer is acknowledged when it would survive a loss of power. Whoever finds the file locked
/// hears of it soon and asks again often ([`Connector::unlocked`]): SQLite itself would ask ever less
/// often, and a busy process would leave no room for others.
const SQLITE: [&str; 3] =
    ["PRAGMA busy_timeout = 20", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL"];
/// How long a lock is waited for.
const LOCKED: Duration = Duration::from_secs(8);
/// How long between two attempts.
const PAUSE: Duration = Duration::from_millis(2);
/// The same for PostgreSQL, and no process that stopped in the middle keeps the others waiting.
const POSTGRES: [&str; 4] = [
    "SELECT set_config('synchronous_commit', 'on', false) \
     WHERE current_setting('synchronous_commit') = 'off'",
    "SET lock_timeout = '8s'",
    "SET statement_timeout = '20s'",
    "SET idle_in_transaction_session_timeout = '30s'",
];

/// Makes connections to one database, with its settings.
#[derive(Debug)]
pub(super) struct Connector {
    /// Its name in errors: without a password.
    pub(super) name: String,
    /// SQLite, and not PostgreSQL.
    pub(super) sqlite: bool,
    options: AnyConnectOptions,
    /// The file of SQLite as it was at the start.
    file: Option<File>,
}

/// A file that is known again.
#[derive(Debug)]
struct File {
    path: String,
    identity: Option<(u64, u64)>,
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
        tokio::time::timeout(PATIENCE, connect).await.unwrap_or_else(|_| Err(silence(PATIENCE)))
    }

    /// Executes a statement that a lock of another process may keep from it for a while.
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

    /// An error if the file of SQLite is not the one that was opened: what is written into a file
    /// without a name is gone with the process.
    pub(super) fn check_file(&self) -> Result<(), sqlx::Error> {
        match &self.file {
            Some(file) if file.identity != identity(&file.path) => Err(sqlx::Error::Io(
                std::io::Error::new(std::io::ErrorKind::NotFound, "the file was moved or replaced"),
            )),
            _ => Ok(()),
        }
    }
}

/// Whether SQLite says that somebody else has the file. The lower byte of its codes is their kind.
fn is_busy(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == 5)
}

/// Nothing came back in time.
pub(super) fn silence(patience: Duration) -> sqlx::Error {
    let what = format!("no answer in {} s", patience.as_secs());
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, what))
}

#[cfg(unix)]
fn identity(path: &str) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn identity(path: &str) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|_| (0, 0))
}

/// A connection that is taken for a piece of work and given back when all of it went well.
///
/// After any failure, and after work that was given up, it is not: nobody knows what such a
/// connection still has open. (After a full disk SQLite ends a transaction by itself; whoever then
/// goes on as if it were open writes what is never committed.)
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
            // Whoever stops has nothing left to lose.
            let _ = connection.close().await;
        }
    }
}
