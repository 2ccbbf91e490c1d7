//! Appending to the history, in turns with other processes.

use std::sync::Arc;

use sqlx::AnyConnection;

use super::connector::{ConnectionSlot, Connector};
use super::rows::{self, Row};
use super::seal::Head;
use super::updates::{Updates, read_updates};
use super::{StoreError, patiently, tables};
use crate::state::Record;

/// The history, for the one task of this process that appends to it.
#[derive(Debug)]
pub(crate) struct EventLog {
    connector: Arc<Connector>,
    slot: ConnectionSlot,
    /// Whether anything failed since the last good turn: the next one is then checked.
    doubt: bool,
}

impl EventLog {
    pub(super) fn new(connector: &Arc<Connector>) -> Self {
        let (connector, slot) = (Arc::clone(connector), ConnectionSlot::default());
        EventLog { connector, slot, doubt: false }
    }

    /// The next page of events after the known ones. If the head is unchanged there are none.
    pub(crate) async fn updates(&mut self, known: &Head) -> Result<Updates, StoreError> {
        let connector = Arc::clone(&self.connector);
        let slot = &mut self.slot;
        let (updates, connection) = patiently(async {
            let mut connection = slot.take(&connector).await?;
            let head = tables::head(&mut connection).await?;
            Ok((read_updates(&mut connection, known, &head).await?, connection))
        })
        .await?;
        self.slot.give_back(connection);
        Ok(updates)
    }

    /// Takes a turn while no other process writes: reads new events, calls `decide` to make a
    /// record, and stores all of it or nothing. Returns the head of the history and the record once
    /// they are safe.
    ///
    /// After an error the record must not be published: it may or may not be stored, and the next
    /// turn begins by reading it as new.
    pub(crate) async fn turn(
        &mut self,
        known: &Head,
        decide: impl FnOnce(Updates) -> Record,
    ) -> Result<(Head, Record), StoreError> {
        let doubt = std::mem::replace(&mut self.doubt, true);
        let connector = Arc::clone(&self.connector);
        let slot = &mut self.slot;
        let (stored, connection) = patiently(async {
            let mut connection = slot.take(&connector).await?;
            connector.check_file()?;
            let stored = take_turn(&mut connection, &connector, known, decide).await?;
            // The file may have been moved meanwhile.
            connector.check_file()?;
            if doubt {
                check(&connector, &stored.0).await?;
            }
            Ok((stored, connection))
        })
        .await?;
        self.slot.give_back(connection);
        self.doubt = false;
        Ok(stored)
    }

    /// Closes the database.
    pub(crate) async fn close(&mut self) {
        self.slot.close().await;
    }
}

async fn take_turn(
    connection: &mut AnyConnection,
    connector: &Connector,
    known: &Head,
    decide: impl FnOnce(Updates) -> Record,
) -> Result<(Head, Record), StoreError> {
    tables::begin(connection, connector).await?;
    let head = tables::head(connection).await?;
    let mut updates = Updates { head: known.clone(), ..Updates::default() };
    while updates.head != head {
        let more = read_updates(connection, &updates.head, &head).await?;
        updates.record.add(more.record);
        updates.head = more.head;
    }
    let mut stored = updates.head.clone();
    let record = decide(updates);
    if record.is_empty() {
        tables::execute(connection, "ROLLBACK").await?;
        return Ok((stored, record));
    }
    let rows: Vec<Row> = record.events.iter().map(Row::of).collect::<Result<_, _>>()?;
    let seal = stored.seal.clone();
    stored.seal = rows::insert_events(connection, &rows, seal).await?;
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

/// Checks through another connection that the stored events are there.
async fn check(connector: &Connector, stored: &Head) -> Result<(), StoreError> {
    let mut connection = connector.connect().await?;
    let found = tables::head(&mut connection).await?;
    // Another process may have appended more.
    let as_far = found.seq >= stored.seq && found.drafts >= stored.drafts;
    if !as_far || (found.seq == stored.seq && found.seal != stored.seal) {
        return Err(StoreError::Failed("what was stored is not there".to_owned()));
    }
    Ok(())
}
