//! Parquet tables with an `embedding` column of equally long lists and, optionally, an `id` column.

pub(crate) mod columns;
mod embedding;
mod pages;
mod records;
#[cfg(test)]
pub(crate) mod sample;

use std::fs::File;
use std::path::Path;

use ::parquet::basic::{ConvertedType, LogicalType};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use ::parquet::data_type::DataType;
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};

use crate::guard::guard;
use crate::{Error, Table, listed, ordinary, stamp};
use pages::Plausible;
pub(crate) use records::read_records;

/// Most numbers, or texts, decoded at a time.
const BATCH: usize = 1 << 16;

/// Runs `decode`. Turns a panic in it into an error, and refuses a file that changed meanwhile.
fn read<T>(path: &Path, decode: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    stamp::steady(path, || guard(path, decode))
}

/// The columns of a table of embeddings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// The column of ids, which must exist if it is named. The default is `id`, if it exists.
    pub id: Option<String>,
    /// The column of lists. The default is `embedding`.
    pub embedding: Option<String>,
}

/// Reads the lists of `embedding` into rows, and the column `id` if it exists.
pub fn open(path: &Path) -> Result<Table, Error> {
    open_columns(path, &Columns::default())
}

/// Reads the lists of a column into rows, and a column of ids.
///
/// Parquet has no random access, so the numbers are decoded once, batch by batch, into a
/// [`Spill`](crate::Spill).
pub fn open_columns(path: &Path, columns: &Columns) -> Result<Table, Error> {
    read(path, || {
        let source = Source::open(path)?;
        let matrix = embedding::stream(&source, columns.embedding.as_deref())?;
        let id = columns.id.as_deref().unwrap_or("id");
        let ids = match source.leaf(id)? {
            Some(leaf) => Some(source.strings(id, leaf)?),
            None if columns.id.is_some() => return Err(source.missing(&[id])),
            None => None,
        };
        Ok(Table { matrix, ids })
    })
}

/// Reads the first of `columns` that the file has. Returns its name, and its texts or decimal
/// integers.
pub fn read_strings(path: &Path, columns: &[&str]) -> Result<(String, Vec<String>), Error> {
    read(path, || {
        let source = Source::open(path)?;
        for &column in columns {
            if let Some(leaf) = source.leaf(column)? {
                return Ok((column.to_owned(), source.strings(column, leaf)?));
            }
        }
        Err(source.missing(columns))
    })
}

/// Reads a column of texts, `None` where it is null.
pub(crate) fn read_nullable_strings(
    path: &Path,
    column: &str,
) -> Result<Vec<Option<String>>, Error> {
    read(path, || {
        let source = Source::open(path)?;
        match source.leaf(column)? {
            Some(leaf) => source.nullable_strings(column, leaf),
            None => Err(source.missing(&[column])),
        }
    })
}

/// The names of the columns, and the number of rows.
pub(crate) fn outline(path: &Path) -> Result<(Vec<String>, usize), Error> {
    read(path, || {
        let source = Source::open(path)?;
        let mut rows = 0usize;
        for group in 0..source.reader.num_row_groups() {
            rows = rows.saturating_add(source.group_rows(group)?);
        }
        Ok((source.columns(), rows))
    })
}

/// An open file, and its path for error messages.
struct Source<'a> {
    path: &'a Path,
    reader: SerializedFileReader<File>,
}

impl<'a> Source<'a> {
    fn open(path: &'a Path) -> Result<Self, Error> {
        let file = ordinary::open(path)?;
        let reader = SerializedFileReader::new(file).map_err(|e| refused(path, e))?;
        Ok(Source { path, reader })
    }

    fn columns(&self) -> Vec<String> {
        let schema = self.reader.metadata().file_metadata().schema();
        schema.get_fields().iter().map(|field| field.name().to_owned()).collect()
    }

    fn missing(&self, columns: &[&str]) -> Error {
        let (wanted, found) = (columns.join(", "), listed(self.columns()));
        self.error(format!("no column {wanted}; its columns are {found}"))
    }

    /// The index of the stored column that holds `column`, if the file has it.
    fn leaf(&self, column: &str) -> Result<Option<usize>, Error> {
        let leaves = self.reader.metadata().file_metadata().schema_descr().columns();
        let of_column =
            |leaf: &usize| leaves[*leaf].path().parts().first().is_some_and(|p| p == column);
        let mut found = (0..leaves.len()).filter(of_column);
        match (found.next(), found.next()) {
            (leaf, None) => Ok(leaf),
            _ => Err(self.error(format!("column {column} is a structure of several columns"))),
        }
    }

    fn descriptor(&self, leaf: usize) -> &ColumnDescPtr {
        &self.reader.metadata().file_metadata().schema_descr().columns()[leaf]
    }

    fn group_rows(&self, group: usize) -> Result<usize, Error> {
        let rows = self.reader.metadata().row_group(group).num_rows();
        usize::try_from(rows).map_err(|_| self.error(format!("row group {group} has {rows} rows")))
    }

    /// Calls `decode` with a reader of one stored column, row group by row group. `decode` returns
    /// the number of rows so far, which must match the file's declaration.
    fn each_group(
        &self,
        leaf: usize,
        mut decode: impl FnMut(ColumnReader) -> Result<usize, Error>,
    ) -> Result<(), Error> {
        let mut expected = 0;
        for group in 0..self.reader.num_row_groups() {
            expected += self.group_rows(group)?;
            let columns = self.reader.get_row_group(group).map_err(|e| refused(self.path, e))?;
            let pages = columns.get_column_page_reader(leaf).map_err(|e| refused(self.path, e))?;
            let descriptor = self.descriptor(leaf).clone();
            let seen = decode(get_column_reader(descriptor, Box::new(Plausible(pages))))?;
            if seen != expected {
                let column = self.descriptor(leaf).path().string();
                return Err(self.error(format!(
                    "damaged: column {column} has {seen} rows up to row group {group}, \
                     expected {expected}"
                )));
            }
        }
        Ok(())
    }

    fn strings(&self, column: &str, leaf: usize) -> Result<Vec<String>, Error> {
        let texts = self.nullable_strings(column, leaf)?.into_iter().enumerate();
        let null = |row| self.row_error(row, format!("{column} is null"));
        texts.map(|(row, text)| text.ok_or_else(|| null(row))).collect()
    }

    fn nullable_strings(&self, column: &str, leaf: usize) -> Result<Vec<Option<String>>, Error> {
        let descriptor = self.descriptor(leaf);
        if descriptor.max_rep_level() > 0 {
            return Err(self.error(format!("column {column} holds lists; expected one text a row")));
        }
        let unsigned = is_unsigned(descriptor);
        let mut texts =
            Texts { source: self, column, max_def: descriptor.max_def_level(), texts: Vec::new() };
        self.each_group(leaf, |reader| {
            match reader {
                ColumnReader::ByteArrayColumnReader(reader) => texts.append(reader, |value| {
                    std::str::from_utf8(value.data()).ok().map(str::to_owned)
                }),
                ColumnReader::Int32ColumnReader(reader) => texts.append(reader, |&value| {
                    Some(if unsigned { (value as u32).to_string() } else { value.to_string() })
                }),
                ColumnReader::Int64ColumnReader(reader) => texts.append(reader, |&value| {
                    Some(if unsigned { (value as u64).to_string() } else { value.to_string() })
                }),
                _ => Err(self.error(format!(
                    "column {column} holds {}; accepted are strings, INT32 and INT64",
                    descriptor.physical_type()
                ))),
            }?;
            Ok(texts.texts.len())
        })?;
        Ok(texts.texts)
    }

    fn error(&self, what: String) -> Error {
        Error::format(self.path, what)
    }

    fn row_error(&self, row: usize, what: String) -> Error {
        Error::row(self.path, row, what)
    }
}

/// The texts of one column so far.
struct Texts<'a> {
    source: &'a Source<'a>,
    column: &'a str,
    max_def: i16,
    texts: Vec<Option<String>>,
}

impl Texts<'_> {
    /// Appends one row group. `text` returns `None` for a value that is not text.
    fn append<T: DataType>(
        &mut self,
        mut reader: ColumnReaderImpl<T>,
        text: impl Fn(&T::T) -> Option<String>,
    ) -> Result<(), Error> {
        let (mut defined, mut values) = (Vec::new(), Vec::new());
        loop {
            defined.clear();
            values.clear();
            let (rows, ..) = reader
                .read_records(BATCH, Some(&mut defined), None, &mut values)
                .map_err(|e| refused(self.source.path, e))?;
            if rows == 0 {
                return Ok(());
            }
            let mut values = values.iter();
            for row in 0..rows {
                let null = defined.get(row).is_some_and(|&level| level < self.max_def);
                let value = if null { None } else { values.next() };
                let decode = |value| {
                    let what = || format!("{} is not UTF-8", self.column);
                    text(value).ok_or_else(|| self.source.row_error(self.texts.len(), what()))
                };
                let decoded = value.map(decode).transpose()?;
                self.texts.push(decoded);
            }
        }
    }
}

fn is_unsigned(descriptor: &ColumnDescriptor) -> bool {
    match descriptor.logical_type_ref() {
        Some(LogicalType::Integer(integer)) => !integer.is_signed,
        _ => matches!(
            descriptor.converted_type(),
            ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64
        ),
    }
}

fn refused(path: &Path, error: ParquetError) -> Error {
    Error::format(path, error.to_string())
}

#[cfg(test)]
mod tests;
