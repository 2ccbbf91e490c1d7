//! Conversion of events, tasks and drafts to rows and back.

use std::sync::Arc;

use nextpair_data::queue::Task;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row as _};

use super::seal::Seal;
use crate::event::{Event, PersonId, Seq};
use crate::state::DraftChange;

/// Rows per statement: few sizes, so that few different statements are prepared.
const SIZES: [usize; 3] = [64, 8, 1];

/// An event as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) seq: Seq,
    pub(super) at: i64,
    pub(super) round: i64,
    pub(super) person: PersonId,
    pub(super) what: String,
    pub(super) item: String,
    pub(super) key: String,
    pub(super) body: String,
}

/// The columns of an event, in the order of [`Row::read`].
pub(super) const COLUMNS: &str = "seq, at, round, person, what, item, key, body, seal";

impl Row {
    pub(super) fn of(event: &Event) -> Result<Self, sqlx::Error> {
        Ok(Row {
            seq: event.seq,
            at: event.at,
            round: event.round,
            person: event.by.unwrap_or(0),
            what: event.kind.name().to_owned(),
            item: event.kind.item().unwrap_or_default().to_owned(),
            key: event.key.as_deref().unwrap_or_default().to_owned(),
            body: json(&event.kind)?,
        })
    }

    /// Reads a row of [`COLUMNS`] without its seal, which is the last column.
    pub(super) fn read(row: &AnyRow) -> Result<Self, sqlx::Error> {
        Ok(Row {
            seq: row.try_get(0)?,
            at: row.try_get(1)?,
            round: row.try_get(2)?,
            person: row.try_get(3)?,
            what: row.try_get(4)?,
            item: row.try_get(5)?,
            key: row.try_get(6)?,
            body: row.try_get(7)?,
        })
    }

    /// Parses the event. The error describes the problem.
    pub(super) fn event(self) -> Result<Event, String> {
        let Row { seq, at, round, person, key, body, .. } = self;
        let kind = serde_json::from_str(&body).map_err(|e| format!("event {seq}: {e}"))?;
        let (by, key) = ((person != 0).then_some(person), (!key.is_empty()).then(|| key.into()));
        Ok(Event { seq, at, tick: at, round, by, key, kind })
    }
}

/// Writes events, each sealed after the one before, and returns the last seal.
pub(super) async fn insert_events(
    connection: &mut AnyConnection,
    rows: &[Row],
    mut seal: Seal,
) -> Result<Seal, sqlx::Error> {
    for rows in in_chunks(rows) {
        let sql = insert(&format!("nextpair_events ({COLUMNS})"), 9, rows.len());
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for row in rows {
            seal = seal.next(row);
            query = query.bind(row.seq).bind(row.at).bind(row.round).bind(row.person);
            query = query.bind(row.what.clone()).bind(row.item.clone());
            query = query.bind(row.key.clone()).bind(row.body.clone());
            query = query.bind(seal.text().to_owned());
        }
        query.execute(&mut *connection).await?;
    }
    Ok(seal)
}

/// Writes the tasks of a round.
pub(super) async fn insert_tasks(
    connection: &mut AnyConnection,
    round: i64,
    tasks: &[Arc<Task>],
) -> Result<(), sqlx::Error> {
    let numbered: Vec<(usize, &Arc<Task>)> = tasks.iter().enumerate().collect();
    for tasks in in_chunks(&numbered) {
        let sql = insert("nextpair_tasks (round, at, item, task)", 4, tasks.len());
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for (at, task) in tasks {
            let body = json(&***task)?;
            query = query.bind(round).bind(*at as i64).bind(task.id.clone()).bind(body);
        }
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

/// Writes a draft. A removed draft leaves an empty row behind, so that other processes notice.
pub(super) async fn write_draft(
    connection: &mut AnyConnection,
    change: &DraftChange,
    version: i64,
) -> Result<(), sqlx::Error> {
    let DraftChange { person, item, draft } = change;
    let draft = draft.as_ref().map(json).transpose()?.unwrap_or_default();
    let sql = "INSERT INTO nextpair_drafts (person, item, draft, version) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (person, item) DO UPDATE \
               SET draft = excluded.draft, version = excluded.version";
    let query = sqlx::query(sql).bind(*person).bind(item.clone()).bind(draft).bind(version);
    query.execute(connection).await.map(drop)
}

fn json(value: &impl serde::Serialize) -> Result<String, sqlx::Error> {
    serde_json::to_string(value).map_err(|e| sqlx::Error::Encode(Box::new(e)))
}

/// Splits rows into chunks of few different sizes.
fn in_chunks<T>(mut rows: &[T]) -> Vec<&[T]> {
    let mut chunks = Vec::new();
    for size in SIZES {
        while rows.len() >= size {
            let (chunk, rest) = rows.split_at(size);
            chunks.push(chunk);
            rows = rest;
        }
    }
    chunks
}

/// A statement that inserts this many rows.
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
