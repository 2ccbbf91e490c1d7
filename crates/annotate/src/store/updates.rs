//! Reading new history: events with their seals, the tasks of rounds, drafts.

use std::sync::Arc;

use nextpair_data::queue::Task;
use sqlx::{AnyConnection, AssertSqlSafe, Row as _};

use super::rows::{COLUMNS, Row};
use super::seal::{Head, Seal};
use super::{StoreError, damaged, fingerprint_of_stored};
use crate::event::EventKind;
use crate::state::{DraftChange, Record};

/// Events read at a time, so that a long history is not in memory twice.
const PAGE: i64 = 4096;

/// Stored events and drafts that are new to this process.
#[derive(Debug, Default)]
pub(crate) struct Updates {
    pub(crate) record: Record,
    /// The last event, including these.
    pub(crate) head: Head,
}

/// Reads a page of the events between the known ones and the head.
pub(super) async fn read_updates(
    connection: &mut AnyConnection,
    known: &Head,
    head: &Head,
) -> Result<Updates, StoreError> {
    let mut updates = Updates { head: known.clone(), ..Updates::default() };
    if head.seq < known.seq {
        let (head, known) = (head.seq, known.seq);
        return Err(damaged(format!("it ends with event {head}, and event {known} was stored")));
    }
    if head.drafts < known.drafts {
        return Err(damaged("unfinished words that were stored are gone".to_owned()));
    }
    if head.seq > known.seq {
        read_events(connection, &mut updates, head).await?;
        read_tasks(connection, &mut updates).await?;
    }
    if updates.head.seq == head.seq && updates.head.seal != head.seal {
        return Err(damaged(format!("event {} is not the one that was stored", head.seq)));
    }
    if head.drafts > known.drafts {
        updates.record.drafts = read_drafts(connection, known.drafts).await?;
        updates.head.drafts = head.drafts;
    }
    Ok(updates)
}

async fn read_events(
    connection: &mut AnyConnection,
    updates: &mut Updates,
    head: &Head,
) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM nextpair_events WHERE seq > $1 AND seq <= $2 ORDER BY seq LIMIT $3"
    );
    let query = sqlx::query(AssertSqlSafe(sql));
    let query = query.bind(updates.head.seq).bind(head.seq).bind(PAGE);
    let Head { seq, seal, .. } = &mut updates.head;
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
        updates.record.events.push(row.event().map_err(damaged)?);
    }
    Ok(())
}

/// Reads the tasks of the rounds that were opened.
async fn read_tasks(
    connection: &mut AnyConnection,
    updates: &mut Updates,
) -> Result<(), StoreError> {
    for event in &updates.record.events {
        let EventKind::Opened { round, fingerprint: expected } = &event.kind else { continue };
        let sql =
            "SELECT task FROM nextpair_tasks WHERE round = $1 AND at >= $2 ORDER BY at LIMIT $3";
        let (mut tasks, mut stored): (Vec<Arc<Task>>, Vec<String>) = Default::default();
        loop {
            let query = sqlx::query(sql).bind(*round).bind(tasks.len() as i64).bind(PAGE);
            let rows = query.fetch_all(&mut *connection).await?;
            if rows.is_empty() {
                break;
            }
            for row in rows {
                let text: String = row.try_get(0)?;
                let task = serde_json::from_str(&text);
                let task = task.map_err(|e| damaged(format!("a task of round {round}: {e}")))?;
                tasks.push(Arc::new(task));
                stored.push(text);
            }
        }
        if fingerprint_of_stored(&stored) != *expected {
            return Err(damaged(format!("the tasks of round {round} were changed")));
        }
        updates.record.tasks.push((*round, tasks));
    }
    Ok(())
}

async fn read_drafts(
    connection: &mut AnyConnection,
    after: i64,
) -> Result<Vec<DraftChange>, StoreError> {
    let sql = "SELECT person, item, draft FROM nextpair_drafts WHERE version > $1";
    let rows = sqlx::query(sql).bind(after).fetch_all(connection).await?;
    let draft = |row: &sqlx::any::AnyRow| {
        let text: &str = row.try_get(2)?;
        let draft = (!text.is_empty()).then(|| serde_json::from_str(text)).transpose();
        let draft = draft.map_err(|e| damaged(format!("an unfinished answer: {e}")))?;
        Ok(DraftChange { person: row.try_get(0)?, item: row.try_get(1)?, draft })
    };
    rows.iter().map(draft).collect()
}
