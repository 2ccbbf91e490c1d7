//! Picks as CSV.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use csv::{Reader, ReaderBuilder, StringRecord};
use serde_json::{Map, Value};

use super::{COLUMNS, OptionalColumn, optional_columns, pick};
use crate::escape::csv_cell;
use crate::mapping::{self, Bytes};
use crate::queue::Task;
use crate::queue::answers::FilePosition;
use crate::queue::sheet::{guarded, unguarded};
use crate::rows::{Newlines, reason};
use crate::{Error, listed};

/// Writes a header and a row per pick; `why` and the optional columns are JSON. Spreadsheets run formulas, and ids
/// come from anywhere: those that look like one are guarded.
pub(super) fn write(out: &mut impl Write, picks: &[Task]) -> std::io::Result<()> {
    let columns: Vec<OptionalColumn> = optional_columns(picks).collect();
    write!(out, "rank,index,id,score,hits,why")?;
    columns.iter().try_for_each(|(name, ..)| write!(out, ",{name}"))?;
    writeln!(out)?;
    for pick in picks {
        let number = |number: Option<u32>| number.map(|n| n.to_string()).unwrap_or_default();
        let (index, hits) = (number(pick.index), number(pick.hits));
        let (id, why) = (guarded(&pick.id), serde_json::to_string(&pick.why)?);
        let (id, why) = (csv_cell(&id), csv_cell(&why));
        write!(out, "{},{index},{id},{},{hits},{why}", pick.rank, pick.score)?;
        for (_, _, text) in &columns {
            write!(out, ",{}", csv_cell(&text(pick)?))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Reads a table with these columns, or with some of them; others are for people.
pub(super) fn read(path: &Path) -> Result<Vec<(FilePosition, Task)>, Error> {
    mapping::read(path, |bytes| rows(path, bytes))
}

fn rows(path: &Path, bytes: &Bytes) -> Result<Vec<(FilePosition, Task)>, Error> {
    let mut newlines = Newlines::of(bytes.clone());
    let mut place = |place: Option<&csv::Position>| {
        FilePosition::Line(newlines.line_of(place.map_or(0, |place| place.byte() as usize)))
    };
    let mut reader = open(bytes.as_slice());
    let header = reader.headers().cloned().map_err(|e| Error::line(path, 1, reason(&e)))?;
    let columns: Vec<Option<&str>> = header.iter().map(column).collect();
    for name in COLUMNS {
        let found = columns.iter().filter(|column| **column == Some(name)).count();
        let what = match (name, found) {
            ("id", 0) => {
                let names = listed(header.iter().map(str::trim));
                format!("no column id; there are {names}")
            }
            (_, 0 | 1) => continue,
            _ => format!("two columns are called {name}"),
        };
        return Err(Error::line(path, 1, what));
    }
    let (mut record, mut picks, mut seen) = (StringRecord::new(), Vec::new(), HashMap::new());
    loop {
        match reader.read_record(&mut record) {
            Ok(true) if record.iter().all(|cell| cell.trim().is_empty()) => {}
            Ok(true) => {
                let place = place(record.position());
                let task = row(&columns, &record).and_then(|row| pick(picks.len() + 1, row));
                let task = task.and_then(|task| task.check(picks.len(), &mut seen).map(|()| task));
                picks.push((place, task.map_err(|what| place.error(path, what))?));
            }
            Ok(false) => return Ok(picks),
            Err(e) => return Err(place(e.position()).error(path, reason(&e))),
        }
    }
}

/// Opens a reader with the separator for which the header has an `id`. Spreadsheets write semicolons
/// where numbers have a decimal comma.
fn open(bytes: &[u8]) -> Reader<&[u8]> {
    let by = |separator: &u8| ReaderBuilder::new().delimiter(*separator).from_reader(bytes);
    let has_id = |separator: &&u8| {
        by(separator)
            .headers()
            .is_ok_and(|header| header.iter().any(|cell| column(cell) == Some("id")))
    };
    by(b",;\t".iter().find(has_id).unwrap_or(&b','))
}

/// The column of this name, whatever a spreadsheet made of its letters.
fn column(cell: &str) -> Option<&'static str> {
    let cell = cell.trim().trim_start_matches('\u{feff}');
    COLUMNS.into_iter().find(|name| cell.eq_ignore_ascii_case(name))
}

/// The filled cells of a row by column.
fn row(columns: &[Option<&str>], record: &StringRecord) -> Result<Map<String, Value>, String> {
    let mut row = Map::new();
    for (column, cell) in columns.iter().zip(record) {
        let Some(name) = *column else { continue };
        if cell.trim().is_empty() {
            continue;
        }
        let value = match name {
            "id" => Value::from(unguarded(cell)),
            _ => serde_json::from_str(cell.trim()).map_err(|_| {
                let is_json = matches!(name, "why" | "facts" | "near");
                let kind = if is_json { "JSON" } else { "a number" };
                format!("{name} is {}, not {kind}", shortened(cell))
            })?,
        };
        row.insert(name.to_owned(), value);
    }
    Ok(row)
}

fn shortened(cell: &str) -> String {
    format!("{:?}", cell.chars().take(40).collect::<String>())
}
