//! The list column, streamed into a file of plain rows.

use ::parquet::basic::{LogicalType, Type};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::DataType;
use ::parquet::schema::types::ColumnDescriptor;

use super::{BATCH, Source, refused};
use crate::{Dtype, Error, Matrix, Spill};

/// The usual name of the column.
const COLUMN: &str = "embedding";

/// Decodes a column, by default `embedding`, into a mapped matrix.
pub(super) fn stream(source: &Source<'_>, column: Option<&str>) -> Result<Matrix, Error> {
    let column = column.unwrap_or(COLUMN);
    let leaf = source.leaf(column)?.ok_or_else(|| source.missing(&[column]))?;
    let descriptor = source.descriptor(leaf);
    let dtype = element_type(source, column, descriptor)?;
    let mut rows = Rows::new(source, column, descriptor)?;
    source.each_group(leaf, |reader| {
        match reader {
            ColumnReader::FloatColumnReader(reader) => {
                rows.append(reader, |value, bytes| bytes.extend(value.to_le_bytes()))
            }
            ColumnReader::DoubleColumnReader(reader) => {
                rows.append(reader, |value, bytes| bytes.extend(value.to_le_bytes()))
            }
            // Half precision, as checked by `element_type`; already little-endian.
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                rows.append(reader, |value, bytes| bytes.extend(value.data()))
            }
            _ => Err(unsuitable(source, column, descriptor)),
        }?;
        Ok(rows.count)
    })?;
    rows.finish(dtype)
}

/// The type of the numbers, however the writer nested its groups around them.
fn element_type(
    source: &Source<'_>,
    column: &str,
    descriptor: &ColumnDescriptor,
) -> Result<Dtype, Error> {
    if descriptor.max_rep_level() != 1 {
        return Err(unsuitable(source, column, descriptor));
    }
    match descriptor.physical_type() {
        Type::FLOAT => Ok(Dtype::F32),
        Type::DOUBLE => Ok(Dtype::F64),
        Type::FIXED_LEN_BYTE_ARRAY
            if descriptor.type_length() == 2
                && descriptor.logical_type_ref() == Some(&LogicalType::Float16) =>
        {
            Ok(Dtype::F16)
        }
        _ => Err(unsuitable(source, column, descriptor)),
    }
}

fn unsuitable(source: &Source<'_>, column: &str, descriptor: &ColumnDescriptor) -> Error {
    let kind = descriptor.physical_type();
    let found = match descriptor.max_rep_level() {
        0 => format!("single values of {kind}"),
        1 => format!("lists of {kind}"),
        _ => format!("lists of lists of {kind}"),
    };
    source.error(format!(
        "column {column} holds {found}; accepted are lists of FLOAT, DOUBLE or FLOAT16"
    ))
}

/// The rows decoded so far, in a nameless file.
struct Rows<'a> {
    source: &'a Source<'a>,
    column: &'a str,
    /// Definition level of a number that is present.
    present: i16,
    /// The definition level of a list with an element, null or not.
    element: i16,
    spill: Spill,
    dim: Option<usize>,
    count: usize,
}

impl<'a> Rows<'a> {
    fn new(
        source: &'a Source<'a>,
        column: &'a str,
        descriptor: &ColumnDescriptor,
    ) -> Result<Self, Error> {
        Ok(Rows {
            source,
            column,
            present: descriptor.max_def_level(),
            element: descriptor.repeated_ancestor_def_level(),
            spill: Spill::new()?,
            dim: None,
            count: 0,
        })
    }

    /// Appends one row group. The first row determines how many rows make a batch.
    fn append<T: DataType>(
        &mut self,
        mut reader: ColumnReaderImpl<T>,
        encode: impl Fn(&T::T, &mut Vec<u8>),
    ) -> Result<(), Error> {
        let (mut defined, mut repeated) = (Vec::new(), Vec::new());
        let (mut values, mut bytes) = (Vec::new(), Vec::new());
        loop {
            defined.clear();
            repeated.clear();
            values.clear();
            bytes.clear();
            let rows = self.dim.map_or(1, |dim| (BATCH / dim).max(1));
            let (read, ..) = reader
                .read_records(rows, Some(&mut defined), Some(&mut repeated), &mut values)
                .map_err(|e| refused(self.source.path, e))?;
            if read == 0 {
                return Ok(());
            }
            self.check(&defined, &repeated)?;
            values.iter().for_each(|value| encode(value, &mut bytes));
            self.spill.append(&bytes)?;
        }
    }

    /// Counts the rows of a batch and checks that each is as long as the first. Repetition level 0
    /// starts a row; the definition level says how deep a value is present.
    fn check(&mut self, defined: &[i16], repeated: &[i16]) -> Result<(), Error> {
        let mut length = 0;
        for (at, (&defined, &repeated)) in defined.iter().zip(repeated).enumerate() {
            if repeated == 0 && at > 0 {
                self.end_row(length)?;
                length = 0;
            }
            if defined < self.present {
                let column = self.column;
                let what = match defined - self.element {
                    0.. => format!("{column} is null at element {length}"),
                    -1 => format!("{column} is an empty list"),
                    _ => format!("{column} is null"),
                };
                return Err(self.source.row_error(self.count, what));
            }
            length += 1;
        }
        self.end_row(length)
    }

    fn end_row(&mut self, length: usize) -> Result<(), Error> {
        let dim = *self.dim.get_or_insert(length);
        if length != dim {
            let column = self.column;
            let what = format!("{column} has {length} numbers, the rows before it have {dim}");
            return Err(self.source.row_error(self.count, what));
        }
        self.count += 1;
        Ok(())
    }

    fn finish(self, dtype: Dtype) -> Result<Matrix, Error> {
        let Some(dim) = self.dim else {
            return Err(self.source.error("has no rows".into()));
        };
        self.spill.finish(dim, dtype)
    }
}
