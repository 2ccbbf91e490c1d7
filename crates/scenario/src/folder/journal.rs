//! `rounds.jsonl`: finished rounds, appended and never changed.
//!
//! A line is `{"round":{...},"seal":"..."}`; the seal is a fingerprint of the round and of the seal
//! before it, so that a line that was changed, taken out or moved is found. A line without its end
//! was being written when the process was killed; it was not acknowledged and is cut off.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use nextpair_data::fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Error, Round};

/// The journal of a run that is being written.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    seal: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    round: Box<RawValue>,
    seal: String,
}

impl Journal {
    /// Opens a journal to go on with it: the rounds that are in it.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<Round>), Error> {
        let io = |e| Error::io(path, e);
        let text = read(path)?;
        let whole = whole_lines(&text);
        let (rounds, seal) = parse(path, &text[..whole])?;
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).open(path).map_err(io)?;
        if whole < text.len() {
            file.set_len(whole as u64).and_then(|()| file.sync_all()).map_err(io)?;
        }
        Ok((Journal { path: path.to_path_buf(), file, seal }, rounds))
    }

    /// The rounds of a journal that somebody else may be writing.
    pub(crate) fn read(path: &Path) -> Result<Vec<Round>, Error> {
        let text = read(path)?;
        Ok(parse(path, &text[..whole_lines(&text)])?.0)
    }

    /// Appends a round. When this returns, the round survives a loss of power.
    pub(crate) fn append(&mut self, round: &Round) -> Result<(), Error> {
        let wrong = |e: serde_json::Error| Error::file(&self.path, e.to_string());
        let round = serde_json::value::to_raw_value(round).map_err(wrong)?;
        let seal = seal(&self.seal, round.get());
        let mut line = serde_json::to_vec(&Line { round, seal: seal.clone() }).map_err(wrong)?;
        line.push(b'\n');
        let before = self.file.metadata().map_err(|e| Error::io(&self.path, e))?.len();
        if let Err(e) = self.file.write_all(&line).and_then(|()| self.file.sync_data()) {
            // A full disk may have taken a part of the line; the next one must not follow it.
            let _ = self.file.set_len(before);
            return Err(Error::io(&self.path, e));
        }
        self.seal = seal;
        Ok(())
    }
}

fn read(path: &Path) -> Result<String, Error> {
    match fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| Error::file(path, "not UTF-8")),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(e) => Err(Error::io(path, e)),
    }
}

/// The bytes of the lines that have their ends.
fn whole_lines(text: &str) -> usize {
    text.rfind('\n').map_or(0, |end| end + 1)
}

fn seal(before: &str, round: &str) -> String {
    fingerprint([before.as_bytes(), round.as_bytes()].concat().as_slice())
}

fn parse(path: &Path, text: &str) -> Result<(Vec<Round>, String), Error> {
    let (mut rounds, mut last) = (Vec::new(), String::new());
    for (at, line) in text.lines().enumerate() {
        let wrong = |what: String| Error::line(path, at + 1, what);
        let line: Line =
            serde_json::from_str(line).map_err(|e| wrong(format!("not a round: {e}")))?;
        if line.seal != seal(&last, line.round.get()) {
            let what = "this line or one before it was changed; rounds are only appended. Put back \
                        the file as it was, or delete this line and those after it to repeat them";
            return Err(wrong(what.to_owned()));
        }
        let round = serde_json::from_str(line.round.get());
        rounds.push(round.map_err(|e| wrong(format!("not a round: {e}")))?);
        last = line.seal;
    }
    Ok((rounds, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(number: usize) -> Round {
        Round {
            seed: 3,
            strategy: (number > 0).then(|| "random".parse().unwrap()),
            round: number,
            paired: 10,
            pairs: 10,
            pool: 90,
            batch: None,
            test: Vec::new(),
            dev: None,
            epoch: 1,
            weights: "w".to_owned(),
            phases: Vec::new(),
        }
    }

    #[test]
    fn rounds_are_read_back_and_a_cut_line_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rounds.jsonl");
        let (mut journal, rounds) = Journal::open(&path).unwrap();
        assert!(rounds.is_empty());
        journal.append(&round(0)).unwrap();
        journal.append(&round(1)).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let kept = whole[..cut].iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(Journal::read(&path).unwrap().len(), kept);
            let (mut journal, rounds) = Journal::open(&path).unwrap();
            assert_eq!(rounds.len(), kept);
            (kept..2).for_each(|number| journal.append(&round(number)).unwrap());
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
