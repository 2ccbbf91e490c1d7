//! Files of picks. The extension of the name chooses the format.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use nextpair::data::escape::csv_cell;
use nextpair::data::{AtomicFile, npy, queue};
use nextpair::{PickRow, ReasonRow};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::streams;

/// The flags of commands that write picks.
#[derive(clap::Args)]
pub(crate) struct OutputArgs {
    /// Where the picks go: .jsonl, .csv, .parquet, .npy (DataComp uids), or - for standard output
    #[arg(long, value_name = "PICKS")]
    pub(crate) out: PathBuf,
    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Jsonl,
    Csv,
    Parquet,
    Uids,
}

/// The destination of picks. It is checked before the work begins, so that a bad path fails early.
/// The file appears only once it is complete.
pub(crate) struct Output {
    format: Format,
    path: PathBuf,
    to_stdout: bool,
}

impl Output {
    /// Opens the destination. `-` is standard output, as JSON lines.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Output { format: Format::Jsonl, path: path.into(), to_stdout: true });
        }
        let format = match path.extension().and_then(|e| e.to_str()) {
            Some("jsonl") => Format::Jsonl,
            Some("csv") => Format::Csv,
            Some("parquet") => Format::Parquet,
            Some("npy") => Format::Uids,
            _ => bail!(
                "{}: picks are written as .jsonl, .csv, .parquet or .npy (DataComp uids)",
                path.display()
            ),
        };
        AtomicFile::check(path)?;
        Ok(Output { format, path: path.into(), to_stdout: false })
    }

    /// Returns an error if this format cannot hold these ids. Called before the work begins.
    pub(crate) fn check_ids(&self, ids: Option<&[String]>) -> Result<()> {
        if self.format != Format::Uids {
            return Ok(());
        }
        let name = || self.path.display().to_string();
        let ids = ids.context("DataComp uids are wanted but the pool has no ids; give --ids");
        for (item, id) in ids.with_context(name)?.iter().enumerate() {
            uid(id, item as u32).with_context(name)?;
        }
        Ok(())
    }

    /// Returns whether the picks go to standard output.
    pub(crate) fn is_stdout(&self) -> bool {
        self.to_stdout
    }

    /// Writes all rows, or nothing.
    pub(crate) fn write(self, rows: &[PickRow]) -> Result<()> {
        if self.to_stdout {
            let mut stdout = BufWriter::new(std::io::stdout().lock());
            let written = PickRow::write_jsonl(&mut stdout, rows).and_then(|()| stdout.flush());
            return streams::forgiving(written);
        }
        let mut file = AtomicFile::create(&self.path)?;
        let written = match self.format {
            Format::Jsonl => PickRow::write_jsonl(&mut file, rows).map_err(Into::into),
            Format::Csv => write_csv(&mut file, rows),
            Format::Parquet => write_parquet(&mut file, rows),
            Format::Uids => write_uids(&mut file, rows),
        };
        written.with_context(|| self.path.display().to_string())?;
        Ok(file.commit()?)
    }
}

fn write_csv(out: &mut impl Write, rows: &[PickRow]) -> Result<()> {
    let facts = has_facts(rows);
    writeln!(out, "rank,index,id,score,hits,why{}", if facts { ",facts" } else { "" })?;
    for row in rows {
        let hits = row.hits.map(|hits| hits.to_string()).unwrap_or_default();
        // Ids come from anywhere, and spreadsheets run formulas: guard against them.
        let (id, why) = (queue::guarded(&row.id), serde_json::to_string(&row.why)?);
        let (id, why) = (csv_cell(&id), csv_cell(&why));
        write!(out, "{},{},{id},{},{hits},{why}", row.rank, row.index, row.score)?;
        match facts {
            true => writeln!(out, ",{}", csv_cell(&serde_json::to_string(&row.facts)?))?,
            false => writeln!(out)?,
        }
    }
    Ok(())
}

/// Whether the picks have facts, which are a column of their own then.
fn has_facts(rows: &[PickRow]) -> bool {
    rows.iter().any(|row| !row.facts.is_empty())
}

/// The columns, without the end.
const SCHEMA: &str = "message picks {
    required int64 rank;
    required int64 index;
    required binary id (STRING);
    required double score;
    optional int64 hits;
    required group why (LIST) {
        repeated group list {
            required group element {
                required int64 anchor;
                required binary anchor_id (STRING);
                required double similarity;
                required double threshold;
                required double surplus;
                required double own;
            }
        }
    }
";

fn write_parquet(out: &mut (impl Write + Send), rows: &[PickRow]) -> Result<()> {
    let facts = has_facts(rows);
    let last = if facts { "required binary facts (JSON); }" } else { "}" };
    let schema = Arc::new(parse_message_type(&format!("{SCHEMA}{last}"))?);
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(out, schema, properties)?;
    let mut group = file.next_row_group()?;
    let numbers = |value: fn(&PickRow) -> i64| rows.iter().map(value).collect::<Vec<_>>();
    column::<Int64Type, _>(&mut group, &numbers(|row| row.rank as i64), None, None)?;
    column::<Int64Type, _>(&mut group, &numbers(|row| row.index as i64), None, None)?;
    let ids: Vec<ByteArray> = rows.iter().map(|row| row.id.as_str().into()).collect();
    column::<ByteArrayType, _>(&mut group, &ids, None, None)?;
    let scores: Vec<f64> = rows.iter().map(|row| row.score).collect();
    column::<DoubleType, _>(&mut group, &scores, None, None)?;
    let hits: Vec<i64> = rows.iter().filter_map(|row| row.hits).map(i64::from).collect();
    let present: Vec<i16> = rows.iter().map(|row| i16::from(row.hits.is_some())).collect();
    column::<Int64Type, _>(&mut group, &hits, Some(&present), None)?;

    // An empty list has definition level 0; later elements of a list repeat at level 1.
    let (mut defined, mut repeated) = (Vec::new(), Vec::new());
    for row in rows {
        for position in 0..row.why.len().max(1) {
            defined.push(i16::from(!row.why.is_empty()));
            repeated.push(i16::from(position > 0));
        }
    }
    let (defined, repeated) = (Some(defined.as_slice()), Some(repeated.as_slice()));
    let reasons = || rows.iter().flat_map(|row| &row.why);
    let anchors: Vec<i64> = reasons().map(|why| why.anchor as i64).collect();
    column::<Int64Type, _>(&mut group, &anchors, defined, repeated)?;
    let names: Vec<ByteArray> = reasons().map(|why| why.anchor_id.as_str().into()).collect();
    column::<ByteArrayType, _>(&mut group, &names, defined, repeated)?;
    for value in [
        |w: &ReasonRow| w.similarity,
        |w: &ReasonRow| w.threshold,
        |w: &ReasonRow| w.surplus,
        |w: &ReasonRow| w.own,
    ] {
        let values: Vec<f64> = reasons().map(value).collect();
        column::<DoubleType, _>(&mut group, &values, defined, repeated)?;
    }
    if facts {
        let texts: Result<Vec<String>, _> =
            rows.iter().map(|row| serde_json::to_string(&row.facts)).collect();
        let texts: Vec<ByteArray> = texts?.iter().map(|text| text.as_str().into()).collect();
        column::<ByteArrayType, _>(&mut group, &texts, None, None)?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn column<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
    defined: Option<&[i16]>,
    repeated: Option<&[i16]>,
) -> Result<()> {
    let mut column = group.next_column()?.context("the schema has this column")?;
    column.typed::<T>().write_batch(values, defined, repeated)?;
    Ok(column.close()?)
}

/// DataComp's subset files: uids of 32 hexadecimal digits, as sorted pairs of 64-bit numbers.
fn write_uids(out: &mut impl Write, rows: &[PickRow]) -> Result<()> {
    let mut uids =
        rows.iter().map(|row| uid(&row.id, row.index)).collect::<Result<Vec<(u64, u64)>>>()?;
    uids.sort_unstable();
    Ok(npy::write_uids(out, &uids)?)
}

/// Returns the two halves of the uid of an item.
fn uid(id: &str, item: u32) -> Result<(u64, u64)> {
    let digits = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let whole = digits.then(|| u128::from_str_radix(id, 16).ok()).flatten();
    let whole = whole.with_context(|| {
        format!(
            "the id '{id}' of item {item} is not a DataComp uid of 32 hexadecimal digits; \
             give --ids, or write .jsonl, .csv or .parquet"
        )
    })?;
    Ok(((whole >> 64) as u64, whole as u64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn row(id: &str) -> PickRow {
        let why = ReasonRow {
            anchor: 3,
            anchor_id: "a \"cat\"".into(),
            similarity: 0.5,
            threshold: 0.25,
            surplus: 0.25,
            own: 0.75,
        };
        PickRow {
            rank: 1,
            index: 7,
            id: id.into(),
            score: 0.25,
            hits: Some(1),
            why: vec![why],
            facts: BTreeMap::new(),
        }
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let mut out = Vec::new();
        write_csv(&mut out, &[row("x,y")]).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("1,7,\"x,y\",0.25,1,\"[{\"\"anchor\"\":3"), "{text}");
    }

    #[test]
    fn csv_holds_no_formulas() {
        for (id, cell) in [
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("=HYPERLINK(\"x\",1)", "\"'=HYPERLINK(\"\"x\"\",1)\""),
            ("'=1", "''=1"),
            ("\t=1", "'\t=1"),
            ("cat=1.jpg", "cat=1.jpg"),
            ("'tis", "'tis"),
        ] {
            let mut out = Vec::new();
            write_csv(&mut out, &[row(id)]).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.contains(&format!("\n1,7,{cell},0.25,1,\"[{{")), "{text}");
        }
    }

    #[test]
    fn uids_are_sorted_and_checked() {
        let rows = [row("000000000000000f0000000000000001"), row(&"0".repeat(32))];
        let mut out = Vec::new();
        write_uids(&mut out, &rows).unwrap();
        assert_eq!(&out[out.len() - 32..out.len() - 16], [0; 16]);
        assert_eq!(out[out.len() - 16], 15);
        let error = write_uids(&mut Vec::new(), &[row("cat.jpg")]).unwrap_err().to_string();
        assert!(error.contains("the id 'cat.jpg' of item 7 is not a DataComp uid"), "{error}");
    }
}
