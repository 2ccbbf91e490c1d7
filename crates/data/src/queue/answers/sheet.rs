//! Answers in a sheet: one per row, with columns found by name.

use std::path::Path;

use csv::{Reader, ReaderBuilder, StringRecord};

use super::{FilePosition, accepted, other_half};
use crate::mapping::{self, Bytes};
use crate::queue::sheet::{EXPORTED, PROVENANCE, unguarded};
use crate::queue::shown::wanted;
use crate::queue::{Answer, AnswerContent, Outcome, Provenance};
use crate::rows::{Newlines, reason};
use crate::{Error, Side, listed};

/// Cells of `skip` that mean "not skipped".
const NOT_SKIPPED: [&str; 4] = ["", "0", "no", "false"];

/// Values of `exported` in a row without an answer.
const OPEN: [Outcome; 2] = [Outcome::Unanswered, Outcome::Unreviewed];

pub(super) fn read(path: &Path, pool: Side) -> Result<Vec<(FilePosition, Answer)>, Error> {
    mapping::read(path, |bytes| rows(path, bytes, pool))
}

fn rows(path: &Path, bytes: &Bytes, pool: Side) -> Result<Vec<(FilePosition, Answer)>, Error> {
    let mut newlines = Newlines::of(bytes.clone());
    let mut place = |place: Option<&csv::Position>| {
        let start = place.map_or(0, |place| place.byte() as usize);
        FilePosition::Line(newlines.line_of(start))
    };
    let mut reader = open(bytes.as_slice());
    let columns = match reader.headers() {
        Ok(header) => Columns::find(header, pool).map_err(|what| place(None).error(path, what))?,
        Err(e) => return Err(place(None).error(path, reason(&e))),
    };
    let (mut record, mut answers) = (StringRecord::new(), Vec::new());
    loop {
        match reader.read_record(&mut record) {
            Ok(true) => {
                let place = place(record.position());
                let answer = columns.answer(&record, pool);
                let answer = answer.map_err(|what| place.error(path, what))?;
                answers.extend(answer.map(|answer| (place, answer)));
            }
            Ok(false) => return Ok(answers),
            Err(e) => return Err(place(e.position()).error(path, reason(&e))),
        }
    }
}

/// Opens a reader with the separator for which the header has an `id`. Spreadsheets write
/// semicolons where numbers have a decimal comma.
fn open(bytes: &[u8]) -> Reader<&[u8]> {
    let by = |separator: &u8| ReaderBuilder::new().delimiter(*separator).from_reader(bytes);
    let has_id = |separator: &&u8| {
        by(separator).headers().is_ok_and(|header| header.iter().any(|name| is(name, "id")))
    };
    by(b",;\t".iter().find(has_id).unwrap_or(&b','))
}

fn is(column: &str, name: &str) -> bool {
    column.trim().eq_ignore_ascii_case(name)
}

/// Positions of the columns that are read; all others are for people.
struct Columns {
    id: usize,
    said: usize,
    skip: Option<usize>,
    annotator: Option<usize>,
    exported: Option<usize>,
    /// Only in our own exports.
    provenance: Option<usize>,
}

impl Columns {
    fn find(header: &StringRecord, pool: Side) -> Result<Self, String> {
        let find = |name: &str| {
            let mut found = (0..header.len()).filter(|&column| is(&header[column], name));
            match (found.next(), found.next()) {
                (_, Some(_)) => Err(format!("two columns are called {name}")),
                (first, None) => Ok(first),
            }
        };
        let needed = |name: &str| {
            let names = || listed(header.iter().map(str::trim));
            find(name)?.ok_or_else(|| format!("no column {name}; there are {}", names()))
        };
        // In this export the id is Label Studio's own number, and several captions are one JSON
        // cell.
        if find("annotation_id")?.is_some() && find("lead_time")?.is_some() {
            return Err("an export of Label Studio; export it as JSON instead".to_owned());
        }
        // The images in the sheet of an image pool are questions, not answers.
        if pool == Side::Text && find("caption")?.is_some() {
            return Err("a column caption, but texts are paired with an image".to_owned());
        }
        Ok(Columns {
            id: needed("id")?,
            said: needed(wanted(pool))?,
            skip: find("skip")?,
            annotator: find("annotator")?,
            exported: find(EXPORTED)?,
            provenance: find(PROVENANCE)?,
        })
    }

    /// The answer of a row, if there is one.
    fn answer(&self, record: &StringRecord, pool: Side) -> Result<Option<Answer>, String> {
        if let Some(exported) = self.exported {
            return self.exported(record, exported, pool);
        }
        let cell = |column: usize| record.get(column).unwrap_or_default();
        let blank = |cell: &&str| cell.trim().is_empty();
        let optional = |column: Option<usize>| column.map_or("", cell).trim();
        let said = Some(cell(self.said)).filter(|cell| !blank(cell));
        let skip = Some(optional(self.skip))
            .filter(|skip| !NOT_SKIPPED.iter().any(|not| skip.eq_ignore_ascii_case(not)));
        let said = match (said, skip) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return Err(format!("both {} and skip are filled in", wanted(pool)));
            }
            (None, Some(reason)) => AnswerContent::Skip(reason.to_owned()),
            // People's captions are not guarded, so an apostrophe in front is part of the text.
            (Some(said), None) if pool == Side::Image => AnswerContent::Caption(said.to_owned()),
            (Some(said), None) => other_half(pool, unguarded(said.trim()).to_owned()),
        };
        let annotator = Some(optional(self.annotator)).filter(|name| !name.is_empty());
        let (id, annotator) = (unguarded(cell(self.id)).to_owned(), annotator.map(str::to_owned));
        accepted(Answer { id, said, annotator, provenance: None }, pool).map(Some)
    }

    /// The answer of a row of our own export, if there is one: `exported` names its cell, or says why
    /// there is none, and every cell is guarded.
    fn exported(
        &self,
        record: &StringRecord,
        exported: usize,
        pool: Side,
    ) -> Result<Option<Answer>, String> {
        let cell = |column: usize| unguarded(record.get(column).unwrap_or_default()).to_owned();
        let is_open = |name: &str| {
            let said = cell(self.said) + &self.skip.map(cell).unwrap_or_default();
            OPEN.iter().any(|open| open.name() == name) && said.trim().is_empty()
        };
        let said = match (record.get(exported).unwrap_or_default(), self.skip) {
            (name, _) if is_open(name) => return Ok(None),
            (name, _) if name == wanted(pool) => other_half(pool, cell(self.said)),
            ("skip", Some(skip)) => AnswerContent::Skip(cell(skip)),
            (other, _) => {
                let what = format!("{EXPORTED} is {other:?}, not {} or skip", wanted(pool));
                return Err(what);
            }
        };
        let annotator = self.annotator.map(cell).filter(|name| !name.is_empty());
        let provenance = Provenance::of_name(&self.provenance.map(cell).unwrap_or_default())?;
        accepted(Answer { id: cell(self.id), said, annotator, provenance }, pool).map(Some)
    }
}
