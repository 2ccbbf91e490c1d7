//! Several columns of texts or bytes, read together, a few rows at a time.

use std::path::Path;

use ::parquet::basic::{ConvertedType, LogicalType, Type};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use ::parquet::data_type::{ByteArray, DataType};
use ::parquet::file::reader::FileReader;

use super::{Source, pages::Plausible, read, refused};
use crate::Error;

/// Rows decoded at a time: a row may hold an image.
const ROWS: usize = 16;

/// A stored column.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    /// Its place among the stored columns.
    pub(crate) index: usize,
    /// Its names from the outside in, such as `image`, `bytes`.
    pub(crate) parts: Vec<String>,
    pub(crate) kind: Kind,
}

/// What a stored column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Bytes,
    Integer,
    Other,
}

/// The values of one row in one column: none, one, or those of a list. Integers are in decimal.
pub(crate) type Values = Vec<ByteArray>;

/// Returns the stored columns of a file.
pub(crate) fn leaves(path: &Path) -> Result<Vec<Leaf>, Error> {
    read(path, || {
        let source = Source::open(path)?;
        let schema = source.reader.metadata().file_metadata().schema_descr();
        let leaf = |(index, column): (usize, &::parquet::schema::types::ColumnDescPtr)| {
            let is_text = column.logical_type_ref() == Some(&LogicalType::String)
                || column.converted_type() == ConvertedType::UTF8;
            let kind = match column.physical_type() {
                Type::BYTE_ARRAY if is_text => Kind::Text,
                Type::BYTE_ARRAY => Kind::Bytes,
                Type::INT32 | Type::INT64 => Kind::Integer,
                _ => Kind::Other,
            };
            Leaf { index, parts: column.path().parts().to_vec(), kind }
        };
        Ok(schema.columns().iter().enumerate().map(leaf).collect())
    })
}

/// Calls `take` with every row: its number, and its values in the columns `leaves`.
pub(crate) fn each_row(
    path: &Path,
    leaves: &[usize],
    mut take: impl FnMut(usize, Vec<Values>) -> Result<(), Error>,
) -> Result<(), Error> {
    read(path, || {
        let source = Source::open(path)?;
        let mut row = 0;
        for group in 0..source.reader.num_row_groups() {
            let mut left = source.group_rows(group)?;
            let columns = source.reader.get_row_group(group).map_err(|e| refused(path, e))?;
            let mut readers = Vec::with_capacity(leaves.len());
            for &leaf in leaves {
                let pages = columns.get_column_page_reader(leaf).map_err(|e| refused(path, e))?;
                let descriptor = source.descriptor(leaf).clone();
                let levels = (descriptor.max_def_level(), descriptor.max_rep_level());
                readers.push((
                    leaf,
                    levels,
                    get_column_reader(descriptor, Box::new(Plausible(pages))),
                ));
            }
            while left > 0 {
                let rows = left.min(ROWS);
                let mut batch = vec![Vec::with_capacity(leaves.len()); rows];
                for (leaf, levels, reader) in &mut readers {
                    let column = values(&source, *leaf, reader, rows, *levels)?;
                    if column.len() != rows {
                        let name = source.descriptor(*leaf).path().string();
                        let what = format!("damaged: column {name} ends before row {}", row + rows);
                        return Err(source.error(what));
                    }
                    batch.iter_mut().zip(column).for_each(|(row, values)| row.push(values));
                }
                for values in batch {
                    take(row, values)?;
                    row += 1;
                }
                left -= rows;
            }
        }
        Ok(())
    })
}

fn values(
    source: &Source<'_>,
    leaf: usize,
    reader: &mut ColumnReader,
    rows: usize,
    levels: (i16, i16),
) -> Result<Vec<Values>, Error> {
    let path = source.path;
    match reader {
        ColumnReader::ByteArrayColumnReader(reader) => {
            records(path, reader, rows, levels, ByteArray::clone)
        }
        ColumnReader::Int32ColumnReader(reader) => {
            records(path, reader, rows, levels, |value| value.to_string().as_str().into())
        }
        ColumnReader::Int64ColumnReader(reader) => {
            records(path, reader, rows, levels, |value| value.to_string().as_str().into())
        }
        _ => {
            let column = source.descriptor(leaf);
            let (name, kind) = (column.path().string(), column.physical_type());
            Err(source
                .error(format!("column {name} holds {kind}; expected texts, bytes or integers")))
        }
    }
}

/// Reads up to `rows` rows. Repetition level 0 starts a row; a value is there if it is defined down
/// to the last level.
fn records<T: DataType>(
    path: &Path,
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    (max_def, max_rep): (i16, i16),
    convert: impl Fn(&T::T) -> ByteArray,
) -> Result<Vec<Values>, Error> {
    let (mut defined, mut repeated, mut found) = (Vec::new(), Vec::new(), Vec::new());
    let mut done = 0;
    while done < rows {
        let (read, ..) = reader
            .read_records(rows - done, Some(&mut defined), Some(&mut repeated), &mut found)
            .map_err(|e| refused(path, e))?;
        if read == 0 {
            break;
        }
        done += read;
    }
    let levels = if max_def > 0 { defined.len() } else { found.len() };
    let (mut all, mut found): (Vec<Values>, _) = (Vec::with_capacity(rows), found.iter());
    for at in 0..levels {
        if max_rep == 0 || repeated.get(at).is_none_or(|&level| level == 0) {
            all.push(Vec::new());
        }
        let is_there = defined.get(at).is_none_or(|&level| level == max_def);
        if let (true, Some(row)) = (is_there, all.last_mut()) {
            row.extend(found.next().map(&convert));
        }
    }
    Ok(all)
}
