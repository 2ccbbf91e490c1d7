//! Rows of Parquet tables as JSON objects, for small tables of any columns.

use std::path::Path;

use ::parquet::bloom_filter::Sbbf;
use ::parquet::column::page::PageReader;
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use ::parquet::file::reader::{FileReader, RowGroupReader};
use ::parquet::record::reader::RowIter;
use ::parquet::record::{Field, Row};
use ::parquet::schema::types::Type;
use serde_json::{Map, Value};

use super::pages::Plausible;
use super::{Source, read, refused};
use crate::Error;

/// Reads every row as an object with the columns for keys: structures are objects, lists arrays.
/// Nulls are left out.
pub(crate) fn read_records(path: &Path) -> Result<Vec<Map<String, Value>>, Error> {
    read(path, || {
        let source = Source::open(path)?;
        let rows = RowIter::from_file_into(Box::new(PlausibleFile(source.reader)));
        let object = |(at, row): (usize, ParquetResult<Row>)| {
            object(&row.map_err(|e| refused(path, e))?).map_err(|what| Error::row(path, at, what))
        };
        rows.enumerate().map(object).collect()
    })
}

fn object(row: &Row) -> Result<Map<String, Value>, String> {
    let mut object = Map::new();
    for (name, field) in row.get_column_iter() {
        let value = value(field).map_err(|what| format!("{name} {what}"))?;
        if !value.is_null() {
            object.insert(name.clone(), value);
        }
    }
    Ok(object)
}

fn value(field: &Field) -> Result<Value, String> {
    let number = |number: f64| {
        let finite = serde_json::Number::from_f64(number).map(Value::Number);
        finite.ok_or_else(|| format!("is {number}"))
    };
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(value) => (*value).into(),
        Field::Byte(value) => (*value).into(),
        Field::Short(value) => (*value).into(),
        Field::Int(value) => (*value).into(),
        Field::Long(value) => (*value).into(),
        Field::UByte(value) => (*value).into(),
        Field::UShort(value) => (*value).into(),
        Field::UInt(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        Field::Float(value) => number(f64::from(*value))?,
        Field::Double(value) => number(*value)?,
        Field::Str(text) => text.clone().into(),
        Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => text.into(),
            Err(_) => return Err("is not UTF-8".to_owned()),
        },
        Field::Group(row) => object(row)?.into(),
        Field::ListInternal(list) => {
            Value::Array(list.elements().iter().map(value).collect::<Result<_, _>>()?)
        }
        other => return Err(format!("is {other}, neither a number nor a text")),
    })
}

/// A file whose pages are checked before they are decoded.
struct PlausibleFile<F>(F);

/// A row group of such a file.
struct PlausibleGroup<'a>(Box<dyn RowGroupReader + 'a>);

impl<F: FileReader> FileReader for PlausibleFile<F> {
    fn metadata(&self) -> &ParquetMetaData {
        self.0.metadata()
    }

    fn num_row_groups(&self) -> usize {
        self.0.num_row_groups()
    }

    fn get_row_group(&self, group: usize) -> ParquetResult<Box<dyn RowGroupReader + '_>> {
        Ok(Box::new(PlausibleGroup(self.0.get_row_group(group)?)))
    }

    fn get_row_iter(&self, _: Option<Type>) -> ParquetResult<RowIter<'_>> {
        Err(ParquetError::General("rows are read by the file's owner".to_owned()))
    }
}

impl RowGroupReader for PlausibleGroup<'_> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.0.metadata()
    }

    fn num_columns(&self) -> usize {
        self.0.num_columns()
    }

    fn get_column_page_reader(&self, column: usize) -> ParquetResult<Box<dyn PageReader>> {
        Ok(Box::new(Plausible(self.0.get_column_page_reader(column)?)))
    }

    fn get_column_bloom_filter(&self, column: usize) -> Option<&Sbbf> {
        self.0.get_column_bloom_filter(column)
    }

    fn get_row_iter(&self, _: Option<Type>) -> ParquetResult<RowIter<'_>> {
        Err(ParquetError::General("rows are read by the file's owner".to_owned()))
    }
}
