//! The database: SQLite or PostgreSQL, with the same tables and the same statements.
//!
//! ```text
//! nextpair_meta    name, value                 version of the tables, key of the signatures, head
//! nextpair_tasks   round, at, item, task       what people are asked, as JSON
//! nextpair_events  seq, at, round, person, what, item, key, body, seal
//! nextpair_drafts  person, item, draft, version    unfinished words: the only rows that change
//! ```
//!
//! Processes that share a database take turns ([`Writer::turn`]): whoever has the lock reads what
//! the others wrote, decides, writes and commits. Events are numbered without gaps and sealed
//! (`seal.rs`); the head in `nextpair_meta` names the last one and changes in the same transaction.

mod address;
mod line;
mod rows;
mod seal;
mod tables;

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use nextpair_data::fingerprint;
use nextpair_data::queue::Task;
use sqlx::any::install_default_drivers;
use sqlx::{AnyConnection, AssertSqlSafe, Row as _};
use tokio::sync::Mutex;

use crate::event::{Draft, Event, PersonId, What};
use crate::refusal::Error;
use crate::state::Record;
use address::Address;
use line::{Line, Way, silence};
use rows::{COLUMNS, Row};
use seal::Seal;

pub(crate) use seal::Head;

/// How long something may take. Longer than locks are waited for, so that it is said what keeps us.
const PATIENCE: Duration = Duration::from_secs(25);
/// Events that are read at a time, so that a long history does not lie in memory twice.
const PAGE: i64 = 4096;

/// The database of a desk: what only reads.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    way: Arc<Way>,
    line: Arc<Mutex<Line>>,
}

/// The one of this process who writes.
#[derive(Debug)]
pub(crate) struct Writer {
    way: Arc<Way>,
    line: Line,
    /// Something failed since the last turn that went well: the next one is looked at again.
    doubt: bool,
}

/// What is stored and was not known.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) record: Record,
    /// How far the history is known with it.
    pub(crate) head: Head,
}

/// Why something could not be stored or read.
#[derive(Debug)]
pub(crate) enum Unstored {
    /// The connection was lost. What was to be stored may be there or not; another try will tell.
    Lost(String),
    /// The database does not do it. What was to be stored may be there or not.
    Failed(String),
    /// The database is not what was written to it.
    Damaged(String),
}

impl Unstored {
    /// What happened.
    pub(crate) fn what(&self) -> &str {
        match self {
            Unstored::Lost(what) | Unstored::Failed(what) | Unstored::Damaged(what) => what,
        }
    }
}

impl From<sqlx::Error> for Unstored {
    fn from(error: sqlx::Error) -> Self {
        let lost = match &error {
            // PostgreSQL says that it stops or starts.
            sqlx::Error::Database(error) => {
                error.code().is_some_and(|code| code.starts_with("57P"))
            }
            sqlx::Error::Io(error) => {
                !matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::NotFound)
            }
            sqlx::Error::Protocol(_) | sqlx::Error::Tls(_) => true,
            _ => false,
        };
        match lost {
            true => Unstored::Lost(error.to_string()),
            false => Unstored::Failed(error.to_string()),
        }
    }
}

/// Whoever does not answer in time has failed. What is waited for counts.
async fn patiently<T>(work: impl Future<Output = Result<T, Unstored>>) -> Result<T, Unstored> {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.unwrap_or_else(|_| Err(silence(PATIENCE).into()))
}

fn damaged(what: String) -> Unstored {
    Unstored::Damaged(format!("the database was damaged or edited: {what}"))
}

impl Store {
    /// Connects, and makes the tables if they are not there.
    pub(crate) async fn open(url: &str) -> Result<Self, Error> {
        install_default_drivers();
        let address = Address::of(url)?;
        let name = address.name.clone();
        let fail = |what: String| Error::Database { database: name.clone(), what };
        let way = Way::new(address).map_err(|e| fail(e.to_string()))?;
        let mut connection = way.connect().await.map_err(|e| fail(e.to_string()))?;
        let prepared = tables::prepare(&mut connection, &way).await;
        prepared.map_err(|unstored| fail(unstored.what().to_owned()))?;
        let mut line = Line::default();
        line.give_back(connection);
        Ok(Store { way: Arc::new(way), line: Arc::new(Mutex::new(line)) })
    }

    /// The one who writes. There is to be one in a process.
    pub(crate) fn writer(&self) -> Writer {
        Writer { way: Arc::clone(&self.way), line: Line::default(), doubt: false }
    }

    /// Names an error.
    pub(crate) fn error(&self, unstored: &Unstored) -> Error {
        Error::Database { database: self.way.name.clone(), what: unstored.what().to_owned() }
    }

    /// A value that is made once and then stays.
    pub(crate) async fn meta(
        &self,
        name: &str,
        new: impl FnOnce() -> String,
    ) -> Result<String, Error> {
        let value = patiently(async {
            let mut line = self.line.lock().await;
            let mut connection = line.take(&self.way).await?;
            tables::begin(&mut connection, &self.way).await?;
            let value = match tables::meta(&mut connection, name).await? {
                Some(value) => value,
                None => {
                    let value = new();
                    tables::set_meta(&mut connection, name, &value).await?;
                    value
                }
            };
            tables::execute(&mut connection, "COMMIT").await?;
            line.give_back(connection);
            Ok(value)
        });
        value.await.map_err(|unstored| self.error(&unstored))
    }

    /// Lets go of the database, so that SQLite leaves one file behind and not three.
    pub(crate) async fn close(&self) {
        self.line.lock().await.close().await;
    }

    /// Everything that happened to an item, the oldest first.
    pub(crate) async fn history(&self, item: &str) -> Result<Vec<Event>, Error> {
        let read = patiently(async {
            let mut line = self.line.lock().await;
            let mut connection = line.take(&self.way).await?;
            let sql = format!(
                "SELECT {COLUMNS} FROM nextpair_events WHERE item = $1 AND item <> '' ORDER BY seq"
            );
            let query = sqlx::query(AssertSqlSafe(sql)).bind(item);
            let rows = query.fetch_all(&mut connection).await?;
            line.give_back(connection);
            let event = |row| Row::read(row)?.event().map_err(damaged);
            rows.iter().map(event).collect::<Result<Vec<_>, Unstored>>()
        });
        read.await.map_err(|unstored| self.error(&unstored))
    }
}

impl Writer {
    /// The next of what happened after what is known, in pages: nothing new means that this is all.
    pub(crate) async fn news(&mut self, known: &Head) -> Result<News, Unstored> {
        let way = Arc::clone(&self.way);
        let line = &mut self.line;
        let (news, connection) = patiently(async {
            let mut connection = line.take(&way).await?;
            let head = tables::head(&mut connection).await?;
            Ok((read_news(&mut connection, known, &head).await?, connection))
        })
        .await?;
        self.line.give_back(connection);
        Ok(news)
    }

    /// Takes a turn: while nobody else writes, reads what is new, lets `decide` say what to store,
    /// and stores it, all of it or nothing. Returns how far the history is known, and what was
    /// decided, when it is safe.
    ///
    /// After an error nothing that was decided may be told: it may be stored or not, and the next
    /// turn begins with what is.
    pub(crate) async fn turn(
        &mut self,
        known: &Head,
        decide: impl FnOnce(News) -> Record,
    ) -> Result<(Head, Record), Unstored> {
        let doubt = std::mem::replace(&mut self.doubt, true);
        let way = Arc::clone(&self.way);
        let line = &mut self.line;
        let (stored, connection) = patiently(async {
            let mut connection = line.take(&way).await?;
            way.check_file()?;
            let stored = take_turn(&mut connection, &way, known, decide).await?;
            // It may have been moved meanwhile.
            way.check_file()?;
            if doubt {
                check(&way, &stored.0).await?;
            }
            Ok((stored, connection))
        })
        .await?;
        self.line.give_back(connection);
        self.doubt = false;
        Ok(stored)
    }

    /// Lets go of the database.
    pub(crate) async fn close(&mut self) {
        self.line.close().await;
    }
}

async fn take_turn(
    connection: &mut AnyConnection,
    way: &Way,
    known: &Head,
    decide: impl FnOnce(News) -> Record,
) -> Result<(Head, Record), Unstored> {
    tables::begin(connection, way).await?;
    let head = tables::head(connection).await?;
    let mut news = News { head: known.clone(), ..News::default() };
    while news.head != head {
        let more = read_news(connection, &news.head, &head).await?;
        news.record.add(more.record);
        news.head = more.head;
    }
    let mut stored = news.head.clone();
    let record = decide(news);
    if record.is_empty() {
        tables::execute(connection, "ROLLBACK").await?;
        return Ok((stored, record));
    }
    let rows: Vec<Row> = record.events.iter().map(Row::of).collect::<Result<_, _>>()?;
    let seal = stored.seal.clone();
    stored.seal = rows::insert_events(connection, "nextpair_events", &rows, seal).await?;
    stored.seq = rows.last().map_or(stored.seq, |row| row.seq);
    for (round, tasks) in &record.tasks {
        rows::insert_tasks(connection, *round, tasks).await?;
    }
    stored.drafts += i64::from(!record.drafts.is_empty());
    for draft in &record.drafts {
        rows::write_draft(connection, draft, stored.drafts).await?;
    }
    tables::set_meta(connection, "head", &stored.text()).await?;
    tables::execute(connection, "COMMIT").await?;
    Ok((stored, record))
}

/// Looks with other eyes whether what was stored is there.
async fn check(way: &Way, stored: &Head) -> Result<(), Unstored> {
    let mut connection = way.connect().await?;
    let found = tables::head(&mut connection).await?;
    // Another process may have gone on.
    let as_far = found.seq >= stored.seq && found.drafts >= stored.drafts;
    match as_far && (found.seq > stored.seq || found.seal == stored.seal) {
        true => Ok(()),
        false => Err(Unstored::Failed("what was stored is not there".to_owned())),
    }
}

/// A page of what lies between what is known and the head.
async fn read_news(
    connection: &mut AnyConnection,
    known: &Head,
    head: &Head,
) -> Result<News, Unstored> {
    let mut news = News { head: known.clone(), ..News::default() };
    if head.seq < known.seq {
        let (head, known) = (head.seq, known.seq);
        return Err(damaged(format!("it ends with event {head}, and event {known} was stored")));
    }
    if head.drafts < known.drafts {
        return Err(damaged("unfinished words that were stored are gone".to_owned()));
    }
    if head.seq > known.seq {
        read_events(connection, &mut news, head).await?;
        read_tasks(connection, &mut news).await?;
    }
    if news.head.seq == head.seq && news.head.seal != head.seal {
        return Err(damaged(format!("event {} is not the one that was stored", head.seq)));
    }
    if head.drafts > known.drafts {
        news.record.drafts = read_drafts(connection, known.drafts).await?;
        news.head.drafts = head.drafts;
    }
    Ok(news)
}

async fn read_events(
    connection: &mut AnyConnection,
    news: &mut News,
    head: &Head,
) -> Result<(), Unstored> {
    let sql = format!(
        "SELECT {COLUMNS} FROM nextpair_events WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3"
    );
    let query = sqlx::query(AssertSqlSafe(sql));
    let query = query.bind(news.head.seq).bind(head.seq).bind(PAGE);
    let Head { seq, seal, .. } = &mut news.head;
    let rows = query.fetch_all(connection).await?;
    if rows.is_empty() {
        return Err(damaged(format!("event {} is missing", *seq + 1)));
    }
    for found in rows {
        let row = Row::read(&found)?;
        if row.seq != *seq + 1 {
            return Err(damaged(format!("event {} is missing", *seq + 1)));
        }
        *seq = row.seq;
        *seal = seal.next(&row);
        if *seal != Seal::of_text(found.try_get::<&str, _>(8)?) {
            return Err(damaged(format!("event {} was changed", row.seq)));
        }
        news.record.events.push(row.event().map_err(damaged)?);
    }
    Ok(())
}

/// The tasks of the rounds that were opened.
async fn read_tasks(connection: &mut AnyConnection, news: &mut News) -> Result<(), Unstored> {
    for event in &news.record.events {
        let What::Opened { round, fingerprint: expected } = &event.what else { continue };
        let sql =
            "SELECT task FROM nextpair_tasks WHERE round = $1 AND at >= $2 ORDER BY at LIMIT $3";
        let mut tasks: Vec<Arc<Task>> = Vec::new();
        loop {
            let query = sqlx::query(sql).bind(*round).bind(tasks.len() as i64).bind(PAGE);
            let rows = query.fetch_all(&mut *connection).await?;
            if rows.is_empty() {
                break;
            }
            for row in rows {
                let task = serde_json::from_str(row.try_get(0)?);
                let task = task.map_err(|e| damaged(format!("a task of round {round}: {e}")))?;
                tasks.push(Arc::new(task));
            }
        }
        if fingerprint_of(&tasks) != *expected {
            return Err(damaged(format!("the tasks of round {round} were changed")));
        }
        news.record.tasks.push((*round, tasks));
    }
    Ok(())
}

async fn read_drafts(
    connection: &mut AnyConnection,
    after: i64,
) -> Result<Vec<(PersonId, String, Option<Draft>)>, Unstored> {
    let sql = "SELECT person, item, draft FROM nextpair_drafts WHERE version > $1";
    let rows = sqlx::query(sql).bind(after).fetch_all(connection).await?;
    let draft = |row: &sqlx::any::AnyRow| {
        let text: &str = row.try_get(2)?;
        let draft = (!text.is_empty()).then(|| serde_json::from_str(text)).transpose();
        let draft = draft.map_err(|e| damaged(format!("an unfinished answer: {e}")))?;
        Ok((row.try_get(0)?, row.try_get(1)?, draft))
    };
    rows.iter().map(draft).collect()
}

/// Tells the tasks of a round from others.
pub(crate) fn fingerprint_of(tasks: &[Arc<Task>]) -> String {
    let tasks: Vec<&Task> = tasks.iter().map(|task| &**task).collect();
    let text = serde_json::to_vec(&tasks).expect("tasks have names for keys and finite numbers");
    fingerprint(&text)
}
