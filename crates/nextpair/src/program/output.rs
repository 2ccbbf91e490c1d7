//! Files of picks. The extension of the name chooses the format.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::data::queue::{PicksFormat, Task};
use crate::data::{AtomicFile, npy};
use anyhow::{Context, Result, bail};

use crate::program::streams;

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
    Picks(PicksFormat),
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
            return Ok(Output {
                format: Format::Picks(PicksFormat::Jsonl),
                path: path.into(),
                to_stdout: true,
            });
        }
        let is_uids = path.extension().is_some_and(|ending| ending == "npy");
        let format = match PicksFormat::of(path) {
            Some(format) => Format::Picks(format),
            None if is_uids => Format::Uids,
            None => bail!(
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

    /// Returns the file of the picks, if people can be asked about them.
    pub(crate) fn to_annotate(&self) -> Option<PathBuf> {
        (self.format != Format::Uids && !self.to_stdout).then(|| self.path.clone())
    }

    /// Writes all picks, or nothing.
    pub(crate) fn write(self, picks: &[Task]) -> Result<()> {
        if self.to_stdout {
            // Standard output cannot be shared between threads; memory can.
            let mut lines = Vec::new();
            PicksFormat::Jsonl.write(&mut lines, picks)?;
            return streams::print(str::from_utf8(&lines)?);
        }
        let mut file = AtomicFile::create(&self.path)?;
        let written = match self.format {
            Format::Picks(format) => format.write(&mut file, picks).map_err(Into::into),
            Format::Uids => write_uids(&mut file, picks),
        };
        written.with_context(|| self.path.display().to_string())?;
        Ok(file.commit()?)
    }
}

/// DataComp's subset files: uids of 32 hexadecimal digits, as sorted pairs of 64-bit numbers.
fn write_uids(out: &mut impl Write, picks: &[Task]) -> Result<()> {
    let of = |pick: &Task| uid(&pick.id, pick.index.unwrap_or_default());
    let mut uids = picks.iter().map(of).collect::<Result<Vec<(u64, u64)>>>()?;
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
    use super::*;

    fn row(id: &str) -> Task {
        Task { rank: 1, index: Some(7), id: id.into(), ..Task::default() }
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
