//! `rounds.jsonl`: an append-only log of finished rounds.
//!
//! A line is `{"round":{...},"seal":"..."}`, or `{"continued_by":{...},"seal":"..."}` if another
//! version or vector unit was accepted. The seal is a fingerprint of the line and of the seal
//! before it. It reveals lines that were changed, removed or moved. A line without a newline
//! belongs to a killed process. It was never acknowledged, and is cut off.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use nextpair_data::{fingerprint, ordinary};
use nextpair_models::Origin;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Error, Round};

/// A journal opened for writing.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    seal: String,
}

/// The contents of a journal.
#[derive(Default)]
pub(crate) struct Record {
    /// The finished rounds, in order of completion.
    pub(crate) rounds: Vec<Round>,
    /// The accepted versions and vector units besides those of the manifest.
    pub(crate) continued_by: Vec<Origin>,
}

/// A line: a round, or an accepted origin.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    round: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    continued_by: Option<Box<RawValue>>,
    seal: String,
}

impl Journal {
    /// Opens a journal for appending and returns its contents.
    pub(crate) fn open(path: &Path) -> Result<(Self, Record), Error> {
        let io = |e| Error::io(path, e);
        let text = read(path)?;
        let whole = whole_lines(&text);
        let (record, seal) = parse(path, &text[..whole])?;
        // Not for appending: Windows does not let such a file be cut.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = ordinary::open_with(path, &mut options)?;
        if whole < text.len() {
            file.set_len(whole as u64).and_then(|()| file.sync_all()).map_err(io)?;
        }
        Ok((Journal { path: path.to_path_buf(), file, seal }, record))
    }

    /// Reads a journal that another process may be writing.
    pub(crate) fn read(path: &Path) -> Result<Record, Error> {
        let text = read(path)?;
        Ok(parse(path, &text[..whole_lines(&text)])?.0)
    }

    /// Appends a round. When this returns, the round survives a loss of power.
    pub(crate) fn append(&mut self, round: &Round) -> Result<(), Error> {
        let round = self.raw(round)?;
        let seal = seal(&self.seal, round.get());
        self.append_line(Line { round: Some(round), seal, ..Line::default() })
    }

    /// Appends that `origin` was accepted, with the same durability.
    pub(crate) fn let_in(&mut self, origin: &Origin) -> Result<(), Error> {
        let origin = self.raw(origin)?;
        let seal = seal(&self.seal, origin.get());
        self.append_line(Line { continued_by: Some(origin), seal, ..Line::default() })
    }

    fn raw(&self, value: &impl Serialize) -> Result<Box<RawValue>, Error> {
        serde_json::value::to_raw_value(value).map_err(|e| Error::file(&self.path, e.to_string()))
    }

    fn append_line(&mut self, line: Line) -> Result<(), Error> {
        let mut text =
            serde_json::to_vec(&line).map_err(|e| Error::file(&self.path, e.to_string()))?;
        text.push(b'\n');
        let before = self.file.seek(SeekFrom::End(0)).map_err(|e| Error::io(&self.path, e))?;
        if let Err(e) = self.file.write_all(&text).and_then(|()| self.file.sync_data()) {
            // A full disk may hold a part of the line: cut it off.
            let _ = self.file.set_len(before);
            return Err(Error::io(&self.path, e));
        }
        self.seal = line.seal;
        Ok(())
    }
}

fn read(path: &Path) -> Result<String, Error> {
    let bytes = ordinary::read_if_there(path)?.unwrap_or_default();
    String::from_utf8(bytes).map_err(|_| Error::file(path, "not UTF-8"))
}

/// Returns the length in bytes of all complete lines.
fn whole_lines(text: &str) -> usize {
    text.rfind('\n').map_or(0, |end| end + 1)
}

fn seal(before: &str, said: &str) -> String {
    fingerprint([before.as_bytes(), said.as_bytes()].concat().as_slice())
}

fn parse(path: &Path, text: &str) -> Result<(Record, String), Error> {
    let (mut record, mut last) = (Record::default(), String::new());
    for (at, line) in text.lines().enumerate() {
        let wrong = |what: String| Error::line(path, at + 1, what);
        let not_a_round = |e: serde_json::Error| wrong(format!("not a round: {e}"));
        let line: Line = serde_json::from_str(line).map_err(not_a_round)?;
        let said = match (&line.round, &line.continued_by) {
            (Some(said), None) | (None, Some(said)) => said.get(),
            _ => return Err(wrong("not a round, nor who goes on".to_owned())),
        };
        if line.seal != seal(&last, said) {
            let what = "this line or one before it was changed; rounds are only appended. Put back \
                        the file as it was, or delete this line and those after it to repeat them";
            return Err(wrong(what.to_owned()));
        }
        if line.round.is_some() {
            record.rounds.push(serde_json::from_str(said).map_err(not_a_round)?);
        } else {
            record.continued_by.push(serde_json::from_str(said).map_err(not_a_round)?);
        }
        last = line.seal;
    }
    Ok((record, last))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn round(number: usize) -> Round {
        Round {
            seed: 3,
            strategy: (number > 0).then(|| "random".parse().unwrap()),
            round: number,
            bought: None,
            paired: 10,
            pairs: 10,
            pool: 90,
            batch: None,
            test: Vec::new(),
            dev: None,
            epoch: 1,
            weights: "w".to_owned(),
            ranks: String::new(),
            made_by: vec![Origin::of(nextpair_models::Device::Cpu)],
            phases: Vec::new(),
        }
    }

    #[test]
    fn rounds_are_read_back_and_a_cut_line_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rounds.jsonl");
        let (mut journal, record) = Journal::open(&path).unwrap();
        assert!(record.rounds.is_empty() && record.continued_by.is_empty());
        let origin = Origin { version: "0.0.9".to_owned(), unit: "scalar".to_owned() };
        let write = |journal: &mut Journal, line: usize| match line {
            1 => journal.let_in(&origin).unwrap(),
            line => journal.append(&round(line)).unwrap(),
        };
        (0..3).for_each(|line| write(&mut journal, line));
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let kept = whole[..cut].iter().filter(|&&byte| byte == b'\n').count();
            let lines = |record: &Record| record.rounds.len() + record.continued_by.len();
            assert_eq!(lines(&Journal::read(&path).unwrap()), kept);
            let (mut journal, record) = Journal::open(&path).unwrap();
            assert_eq!(lines(&record), kept);
            assert!(record.continued_by.iter().all(|known| *known == origin));
            (kept..3).for_each(|line| write(&mut journal, line));
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
    }

    #[test]
    fn an_edit_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rounds.jsonl");
        let (mut journal, _) = Journal::open(&path).unwrap();
        (0..3).for_each(|number| journal.append(&round(number)).unwrap());
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (edited, line) in [
            (text.replacen("\"pairs\":10", "\"pairs\":11", 1), 1),
            ([lines[1], lines[0], lines[2], ""].join("\n"), 1),
            ([lines[0], lines[2], ""].join("\n"), 2),
            (text.replace("{\"round\":{\"seed\":3,\"strategy\":\"random\",\"round\":2", "{"), 3),
        ] {
            fs::write(&path, &edited).unwrap();
            let what = Journal::open(&path).err().unwrap().to_string();
            assert!(what.contains(&format!("rounds.jsonl:{line}: ")), "{what}");
            assert_eq!(fs::read_to_string(&path).unwrap(), edited, "nothing is lost");
        }
    }
}
