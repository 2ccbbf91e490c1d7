//! Small parquet files for the tests.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use ::parquet::basic::Compression;
use ::parquet::data_type::DataType;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;

/// The values of one column in one row group, with its levels of definition and repetition.
pub(crate) struct Column<T: DataType> {
    pub(crate) values: Vec<T::T>,
    pub(crate) defined: Option<Vec<i16>>,
    pub(crate) repeated: Option<Vec<i16>>,
}

impl<T: DataType> Column<T> {
    /// A required column without lists.
    pub(crate) fn flat(values: Vec<T::T>) -> Self {
        Column { values, defined: None, repeated: None }
    }

    /// Rows of `dim` values without nulls; a value has the definition level `present`.
    pub(crate) fn lists(present: i16, dim: usize, values: Vec<T::T>) -> Self {
        let defined = vec![present; values.len()];
        let repeated = (0..values.len()).map(|i| i16::from(i % dim != 0)).collect();
        Column { values, defined: Some(defined), repeated: Some(repeated) }
    }
}

/// A column of any type.
pub(crate) trait Write {
    fn write(&self, writer: &mut ::parquet::file::writer::SerializedColumnWriter<'_>);
}

impl<T: DataType> Write for Column<T> {
    fn write(&self, writer: &mut ::parquet::file::writer::SerializedColumnWriter<'_>) {
        let (defined, repeated) = (self.defined.as_deref(), self.repeated.as_deref());
        writer.typed::<T>().write_batch(&self.values, defined, repeated).unwrap();
    }
}

/// Writes row groups of columns under a schema in parquet's own notation.
pub(crate) fn write(path: &Path, compression: Compression, schema: &str, groups: &[&[&dyn Write]]) {
    let schema = Arc::new(parse_message_type(&format!("message schema {{ {schema} }}")).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut writer =
        SerializedFileWriter::new(File::create(path).unwrap(), schema, properties).unwrap();
    for group in groups {
        let mut row_group = writer.next_row_group().unwrap();
        for column in group.iter() {
            let mut next = row_group.next_column().unwrap().unwrap();
            column.write(&mut next);
            next.close().unwrap();
        }
        row_group.close().unwrap();
    }
    writer.close().unwrap();
}
