//! Bad entries and oddities of an import: all of them in a file, a summary in memory.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Error;

/// Findings of one kind, with the first few as examples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The kind of finding.
    pub what: &'static str,
    /// Number of findings.
    pub count: usize,
    /// The first of them.
    pub examples: Vec<String>,
}

/// All findings by kind, in order of appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Entries that are wrong, or whose files are.
    pub bad: Vec<Tally>,
    /// Oddities that are not errors.
    pub notes: Vec<Tally>,
}

/// Number of bad entries shown; the file has all of them.
const SHOWN_BAD: usize = 20;
/// Number of examples shown per note.
const SHOWN_NOTES: usize = 3;

/// Longest finding in characters: a bad entry may be as long as a file.
const LONGEST: usize = 2000;

/// One line of `import.jsonl`.
#[derive(Serialize)]
struct Line<'a> {
    level: &'a str,
    what: &'a str,
    detail: &'a str,
}

/// Writes findings to the file as they are made.
pub(crate) struct Log {
    path: PathBuf,
    file: BufWriter<File>,
    pub(crate) findings: Findings,
}

impl Log {
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create(path).map_err(|e| Error::io(path, e))?;
        let path = path.to_path_buf();
        Ok(Log { path, file: BufWriter::new(file), findings: Findings::default() })
    }

    pub(crate) fn bad(&mut self, what: &'static str, detail: &str) -> Result<(), Error> {
        let detail = &visible(detail);
        count(&mut self.findings.bad, what, detail, SHOWN_BAD);
        self.write(&Line { level: "bad", what, detail })
    }

    pub(crate) fn note(&mut self, what: &'static str, detail: &str) -> Result<(), Error> {
        let detail = &visible(detail);
        count(&mut self.findings.notes, what, detail, SHOWN_NOTES);
        self.write(&Line { level: "note", what, detail })
    }

    fn write(&mut self, line: &Line<'_>) -> Result<(), Error> {
        let fail = |e| Error::io(&self.path, e);
        serde_json::to_writer(&mut self.file, line).map_err(|e| fail(e.into()))?;
        self.file.write_all(b"\n").map_err(fail)
    }

    pub(crate) fn finish(mut self) -> Result<Findings, Error> {
        self.file.flush().map_err(|e| Error::io(&self.path, e))?;
        Ok(self.findings)
    }
}

/// Makes text safe to print: escapes control characters and cuts long text. Names in a source may
/// hold anything.
fn visible(text: &str) -> String {
    let mut visible = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == LONGEST {
            visible.push_str("...");
            break;
        }
        if character.is_control() {
            visible.extend(character.escape_default());
        } else {
            visible.push(character);
        }
    }
    visible
}

fn count(tallies: &mut Vec<Tally>, what: &'static str, detail: &str, shown: usize) {
    let at = tallies.iter().position(|tally| tally.what == what).unwrap_or_else(|| {
        tallies.push(Tally { what, count: 0, examples: Vec::new() });
        tallies.len() - 1
    });
    let tally = &mut tallies[at];
    tally.count += 1;
    if tally.examples.len() < shown {
        tally.examples.push(detail.to_owned());
    }
}

impl Findings {
    /// Number of bad entries.
    pub fn bad_count(&self) -> usize {
        self.bad.iter().map(|tally| tally.count).sum()
    }

    /// Lists the bad entries for an error about `source`.
    pub(crate) fn listing(&self) -> String {
        let mut lines = Vec::new();
        for tally in &self.bad {
            let room = SHOWN_BAD.saturating_sub(lines.len());
            lines
                .extend(tally.examples.iter().take(room).map(|e| format!("  {}: {e}", tally.what)));
        }
        let hidden = self.bad_count() - lines.len();
        if hidden > 0 {
            lines.push(format!("  and {hidden} more"));
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_text_and_not_endless() {
        assert_eq!(visible("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
        let long = visible(&"é".repeat(100_000));
        assert_eq!(long.chars().count(), LONGEST + 3);
        assert!(long.ends_with("é..."));
    }
}
