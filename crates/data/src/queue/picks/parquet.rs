//! Picks as Parquet.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::parser::parse_message_type;

use super::{COLUMNS, OptionalColumn, optional_columns, pick};
use crate::Error;
use crate::parquet::read_records;
use crate::queue::answers::FilePosition;
use crate::queue::{Task, Why};

/// The columns, without the end.
const SCHEMA: &str = "message picks {
    required int64 rank;
    optional int64 index;
    required binary id (STRING);
    required double score;
    optional int64 hits;
    required group why (LIST) {
        repeated group list {
            required group element {
                optional int64 anchor;
                optional binary anchor_id (STRING);
                required double similarity;
                required double threshold;
                required double surplus;
                optional double own;
                optional binary id (STRING);
                optional binary caption (STRING);
            }
        }
    }
";

/// Definition levels of a value of a reason, where it must be there and where it may be null.
const REQUIRED: i16 = 1;
const OPTIONAL: i16 = 2;

/// Writes a row per pick. The optional columns are JSON.
pub(super) fn write(out: &mut (impl Write + Send), picks: &[Task]) -> Result<()> {
    let columns: Vec<OptionalColumn> = optional_columns(picks).collect();
    let last = columns.iter().map(|(name, ..)| format!("required binary {name} (JSON);\n"));
    let schema = Arc::new(parse_message_type(&format!("{SCHEMA}{}}}", last.collect::<String>()))?);
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(out, schema, properties)?;
    let mut group = file.next_row_group()?;
    let all = |number: fn(&Task) -> i64| picks.iter().map(number).collect::<Vec<_>>();
    column::<Int64Type, _>(&mut group, &all(|pick| pick.rank as i64), None, None)?;
    optional(&mut group, picks, |pick| pick.index)?;
    let ids: Vec<ByteArray> = picks.iter().map(|pick| pick.id.as_str().into()).collect();
    column::<ByteArrayType, _>(&mut group, &ids, None, None)?;
    let scores: Vec<f64> = picks.iter().map(|pick| pick.score).collect();
    column::<DoubleType, _>(&mut group, &scores, None, None)?;
    optional(&mut group, picks, |pick| pick.hits)?;

    reasons::<Int64Type, _>(&mut group, picks, OPTIONAL, |why| why.anchor.map(i64::from))?;
    texts(&mut group, picks, |why| why.anchor_id.as_deref())?;
    let numbers: [fn(&Why) -> f64; 3] =
        [|why| why.similarity, |why| why.threshold, |why| why.surplus];
    for number in numbers {
        reasons::<DoubleType, _>(&mut group, picks, REQUIRED, |why| Some(number(why)))?;
    }
    reasons::<DoubleType, _>(&mut group, picks, OPTIONAL, |why| why.own)?;
    texts(&mut group, picks, |why| why.id.as_deref())?;
    texts(&mut group, picks, |why| why.caption.as_deref())?;
    for (_, _, text) in columns {
        let texts: serde_json::Result<Vec<String>> = picks.iter().map(text).collect();
        let texts = texts.map_err(|e| ParquetError::External(Box::new(e)))?;
        let texts: Vec<ByteArray> = texts.iter().map(|text| text.as_str().into()).collect();
        column::<ByteArrayType, _>(&mut group, &texts, None, None)?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

/// Writes a column of numbers that may be null.
fn optional<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    picks: &[Task],
    number: fn(&Task) -> Option<u32>,
) -> Result<()> {
    let numbers: Vec<i64> = picks.iter().filter_map(number).map(i64::from).collect();
    let present: Vec<i16> = picks.iter().map(|pick| number(pick).is_some().into()).collect();
    column::<Int64Type, _>(group, &numbers, Some(&present), None)
}

/// Writes a column of texts of the reasons.
fn texts<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    picks: &[Task],
    text: fn(&Why) -> Option<&str>,
) -> Result<()> {
    reasons::<ByteArrayType, _>(group, picks, OPTIONAL, |why| text(why).map(ByteArray::from))
}

/// Writes a column of the reasons: `level` where there is a value, one less where it is null, 0 for
/// an empty list. Later elements of a list repeat at level 1.
fn reasons<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    picks: &[Task],
    level: i16,
    value: impl Fn(&Why) -> Option<T::T>,
) -> Result<()> {
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for pick in picks {
        if pick.why.is_empty() {
            defined.push(0);
            repeated.push(0);
        }
        for (at, why) in pick.why.iter().enumerate() {
            let value = value(why);
            defined.push(level - i16::from(value.is_none()));
            repeated.push(i16::from(at > 0));
            values.extend(value);
        }
    }
    column::<T, _>(group, &values, Some(&defined), Some(&repeated))
}

fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    defined: Option<&[i16]>,
    repeated: Option<&[i16]>,
) -> Result<()> {
    let missing = || ParquetError::General("the schema has fewer columns".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, defined, repeated)?;
    column.close()
}

/// Reads a table with these columns, or with some of them; others are for people.
pub(super) fn read(path: &Path) -> std::result::Result<Vec<(FilePosition, Task)>, Error> {
    let (mut picks, mut seen) = (Vec::new(), HashMap::new());
    for (at, mut row) in read_records(path)?.into_iter().enumerate() {
        row.retain(|name, _| COLUMNS.contains(&name.as_str()));
        let task = pick(at + 1, row);
        let task = task.and_then(|task| task.check(at, &mut seen).map(|()| task));
        let place = FilePosition::Row(at + 1);
        picks.push((place, task.map_err(|what| place.error(path, what))?));
    }
    Ok(picks)
}
