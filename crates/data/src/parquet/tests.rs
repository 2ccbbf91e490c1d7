//! Tests of the parquet reader on files that the parquet crate itself writes.

use std::path::PathBuf;

use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::data_type::{
    ByteArray, ByteArrayType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, FloatType,
    Int32Type, Int64Type,
};
use half::f16;

use super::sample::{self, Column};
use super::*;
use crate::{Dtype, damage};

/// A list as pyarrow writes it: the list and its elements may be null, so a number has definition
/// level 3.
const FLOATS: &str =
    "optional group embedding (LIST) { repeated group list { optional float element; } }";

fn texts(values: &[&str]) -> Column<ByteArrayType> {
    Column::flat(values.iter().map(|&v| ByteArray::from(v)).collect())
}

/// A file of one row group in a folder of its own.
fn file(schema: &str, columns: &[&dyn sample::Write]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    sample::write(&path, Compression::SNAPPY, schema, &[columns]);
    (folder, path)
}

fn refused(schema: &str, columns: &[&dyn sample::Write]) -> String {
    let (_folder, path) = file(schema, columns);
    open(&path).unwrap_err().to_string()
}

fn rows(table: &Table) -> Vec<Vec<f64>> {
    let matrix = &table.matrix;
    let read = |row| {
        let mut numbers = vec![0.0; matrix.dim()];
        matrix.read_f64(row, &mut numbers);
        numbers
    };
    (0..matrix.rows()).map(read).collect()
}

#[test]
fn row_groups_and_compressions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let schema = format!("required binary id (UTF8); {FLOATS}");
    let zstd = Compression::ZSTD(ZstdLevel::default());
    for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd, Compression::LZ4_RAW]
    {
        let numbers = |start: usize, rows: usize| {
            let values = (start * 3..(start + rows) * 3).map(|i| i as f32 / 4.0).collect();
            Column::<FloatType>::lists(3, 3, values)
        };
        let (a, b) = (numbers(0, 2), numbers(2, 40_000));
        let many: Vec<String> = (2..40_002).map(|i| i.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        sample::write(
            &path,
            compression,
            &schema,
            &[&[&texts(&["0", "1"]), &a], &[&texts(&many), &b]],
        );
        let table = open(&path).unwrap();
        assert_eq!((table.matrix.rows(), table.matrix.dtype()), (40_002, Dtype::F32));
        for (row, numbers) in rows(&table).iter().enumerate() {
            assert!(numbers.iter().zip(row * 3..).all(|(n, i)| *n == i as f64 / 4.0));
        }
        let expected: Vec<String> = (0..40_002).map(|i| i.to_string()).collect();
        assert_eq!(table.ids.unwrap(), expected);
    }
}

#[test]
fn every_type_and_spelling_of_a_list() {
    let doubles = Column::<DoubleType>::lists(1, 2, vec![1.0, 2.0, 3.0, 4.0]);
    for schema in [
        "required group embedding (LIST) { repeated group list { required double element; } }",
        "required group embedding (LIST) { repeated double array; }",
        "required group embedding { repeated group bag { required double item; } }",
        "repeated double embedding;",
    ] {
        let (_folder, path) = file(schema, &[&doubles]);
        let table = open(&path).unwrap();
        assert_eq!(rows(&table), [[1.0, 2.0], [3.0, 4.0]]);
        assert_eq!((table.matrix.dtype(), table.ids), (Dtype::F64, None));
    }
    let halves =
        [0.5, -1.5, 2.0].map(|v| FixedLenByteArray::from(f16::from_f64(v).to_le_bytes().to_vec()));
    let halves = Column::<FixedLenByteArrayType>::lists(2, 3, halves.to_vec());
    let schema = "optional group embedding (LIST) { repeated group list { \
                  required fixed_len_byte_array(2) element (FLOAT16); } }";
    let (_folder, path) = file(schema, &[&halves]);
    let table = open(&path).unwrap();
    assert_eq!((rows(&table), table.matrix.dtype()), (vec![vec![0.5, -1.5, 2.0]], Dtype::F16));
}

#[test]
fn integers_are_ids() {
    let numbers = Column::<FloatType>::lists(3, 1, vec![1.0, 2.0]);
    let long = Column::<Int64Type>::flat(vec![-5, i64::MAX]);
    let short = Column::<Int32Type>::flat(vec![-5, 7]);
    for (id, column, expected) in [
        ("int64 id", &long as &dyn sample::Write, ["-5", "9223372036854775807"]),
        ("int64 id (INTEGER(64,false))", &long, ["18446744073709551611", "9223372036854775807"]),
        ("int32 id", &short, ["-5", "7"]),
        ("int32 id (UINT_32)", &short, ["4294967291", "7"]),
    ] {
        let (_folder, path) = file(&format!("required {id}; {FLOATS}"), &[column, &numbers]);
        assert_eq!(open(&path).unwrap().ids.unwrap(), expected);
    }
}

#[test]
fn wrong_rows_are_named() {
    let column = |values: usize, defined: &[i16], repeated: &[i16]| Column::<FloatType> {
        values: vec![1.0; values],
        defined: Some(defined.to_vec()),
        repeated: Some(repeated.to_vec()),
    };
    for (column, expected) in [
        (column(2, &[3, 3, 0], &[0, 1, 0]), "row 1: embedding is null"),
        (column(2, &[3, 3, 1], &[0, 1, 0]), "row 1: embedding is an empty list"),
        (column(1, &[1, 3], &[0, 0]), "row 0: embedding is an empty list"),
        (column(3, &[3, 3, 3, 2], &[0, 1, 0, 1]), "row 1: embedding is null at element 1"),
        (
            column(3, &[3, 3, 3], &[0, 1, 0]),
            "row 1: embedding has 1 numbers, the rows before it have 2",
        ),
        (column(5, &[3; 5], &[0, 0, 1, 1, 1]), "row 1: embedding has 4 numbers"),
    ] {
        let what = refused(FLOATS, &[&column]);
        assert!(what.contains(expected), "{what}");
    }
    let numbers = Column::<FloatType>::lists(3, 1, vec![1.0, 2.0]);
    let schema = format!("optional binary id (UTF8); {FLOATS}");
    let one = Column::<ByteArrayType> { defined: Some(vec![1, 0]), ..texts(&["a"]) };
    assert!(refused(&schema, &[&one, &numbers]).contains("row 1: id is null"));
    let latin = Column::<ByteArrayType>::flat(vec![b"a".to_vec().into(), b"\xe9".to_vec().into()]);
    let what = refused(&format!("required binary id; {FLOATS}"), &[&latin, &numbers]);
    assert!(what.contains("row 1: id is not UTF-8"), "{what}");
}

#[test]
fn wrong_columns_are_named() {
    let numbers = Column::<FloatType>::lists(3, 1, vec![1.0]);
    let flat = Column::<FloatType>::flat(vec![1.0]);
    let integers = Column::<Int32Type>::lists(1, 1, vec![1]);
    for (schema, columns, expected) in [
        (
            "required float vector;",
            &[&flat as &dyn sample::Write][..],
            "no column embedding; its columns are vector",
        ),
        (
            "required float embedding;",
            &[&flat],
            "embedding holds single values of FLOAT; accepted are lists of",
        ),
        ("repeated int32 embedding;", &[&integers], "embedding holds lists of INT32"),
        (
            "required group embedding { required float x; required float y; }",
            &[&flat, &flat],
            "several columns",
        ),
        (
            &format!("required float id; {FLOATS}"),
            &[&flat, &numbers],
            "id holds FLOAT; accepted are strings",
        ),
        (&format!("repeated int32 id; {FLOATS}"), &[&integers, &numbers], "id holds lists"),
    ] {
        let what = refused(schema, columns);
        assert!(what.contains(expected), "{what}");
    }
    let nested = "repeated group embedding { repeated float x; }";
    let column =
        Column::<FloatType> { values: vec![1.0], defined: Some(vec![2]), repeated: Some(vec![0]) };
    assert!(refused(nested, &[&column]).contains("lists of lists of FLOAT"));
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.parquet");
    sample::write(&empty, Compression::UNCOMPRESSED, FLOATS, &[]);
    assert!(open(&empty).unwrap_err().to_string().contains("has no rows"));
    assert!(matches!(open(&folder.path().join("none")), Err(Error::Io { .. })));
}

#[test]
fn the_first_column_of_the_candidates() {
    let schema = "required binary key (UTF8); required int64 uid;";
    let (_folder, path) =
        file(schema, &[&texts(&["a", "b"]), &Column::<Int64Type>::flat(vec![7, 8])]);
    let read = |columns: &[&str]| read_strings(&path, columns);
    assert_eq!(read(&["id", "uid", "key"]).unwrap(), ("uid".into(), vec!["7".into(), "8".into()]));
    assert_eq!(read(&["key"]).unwrap().1, ["a", "b"]);
    let what = read(&["id", "name"]).unwrap_err().to_string();
    assert!(what.contains("no column id, name; its columns are key, uid"), "{what}");
    assert_eq!(outline(&path).unwrap(), (vec!["key".into(), "uid".into()], 2));
}

#[test]
fn damaged_files_never_panic() {
    let schema = format!("required binary id (UTF8); {FLOATS}");
    let numbers = Column::<FloatType>::lists(3, 2, vec![1.0, 2.0, 3.0, 4.0]);
    let (folder, path) = file(&schema, &[&texts(&["a", "b"]), &numbers]);
    let whole = std::fs::read(&path).unwrap();
    let path = folder.path().join("damaged.parquet");
    let opens = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        open(&path).is_ok_and(|table| rows(&table).len() == table.matrix.rows())
    };
    assert!(opens(&whole));
    damage::truncate(&whole, opens);
    damage::mutate(&whole, 3000, opens);
}

#[test]
fn columns_may_have_other_names() {
    let lists = FLOATS.replace("embedding", "clip_vector");
    let schema = format!("required binary key (STRING); {lists}");
    let vectors = Column::<FloatType>::lists(3, 2, vec![1.0, 2.0, 3.0, 4.0]);
    let (_folder, path) = file(&schema, &[&texts(&["a", "b"]), &vectors]);
    let named = |id: Option<&str>, embedding: &str| Columns {
        id: id.map(str::to_owned),
        embedding: Some(embedding.to_owned()),
    };
    let table = open_columns(&path, &named(Some("key"), "clip_vector")).unwrap();
    assert_eq!(rows(&table), [[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(table.ids.unwrap(), ["a", "b"]);
    assert!(open_columns(&path, &named(None, "clip_vector")).unwrap().ids.is_none());
    for (columns, says) in [
        (named(Some("id"), "clip_vector"), "no column id; its columns are key, clip_vector"),
        (named(None, "vector"), "no column vector; its columns are key, clip_vector"),
        (named(None, "key"), "column key holds single values of BYTE_ARRAY; accepted are lists"),
    ] {
        let what = open_columns(&path, &columns).unwrap_err().to_string();
        assert!(what.contains(says), "{what}");
    }
}
