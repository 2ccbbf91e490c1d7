//! The append-only log of answers.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::Answer;
use super::answers::parse;
use crate::{Error, ordinary, system};

/// All answers ever given, in order, in a file of JSON lines.
///
/// Nothing is overwritten: an annotator who changes their mind adds another answer. Several
/// processes may append at the same time. A process that is killed meanwhile leaves at most an
/// unfinished last line, which is ignored and then cut off by the next append.
#[derive(Debug)]
pub struct AnswerLog {
    path: PathBuf,
    answers: Vec<Answer>,
    known: HashSet<Answer>,
    by_id: HashMap<String, Vec<usize>>,
    /// Bytes of the file read so far, up to the end of a line.
    read: u64,
}

/// The outcome of [`AnswerLog::append`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendCounts {
    /// Number of answers written.
    pub new: usize,
    /// Number of answers already in the log: the same answer to the same item by the same
    /// annotator.
    pub known: usize,
}

impl AnswerLog {
    /// Reads the log if it exists; otherwise the first [`append`](Self::append) creates it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut log = AnswerLog {
            path: path.to_path_buf(),
            answers: Vec::new(),
            known: HashSet::new(),
            by_id: HashMap::new(),
            read: 0,
        };
        match ordinary::open(path) {
            Ok(mut file) => log.read_on(&mut file)?,
            Err(Error::Io { error, .. }) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(log)
    }

    /// All answers, the oldest first.
    pub fn all(&self) -> &[Answer] {
        &self.answers
    }

    /// The answers about one item, the oldest first.
    pub fn of(&self, id: &str) -> impl Iterator<Item = &Answer> {
        self.by_id.get(id).into_iter().flatten().map(|&at| &self.answers[at])
    }

    /// Writes the answers that are new and returns once they would survive a power loss. Appending
    /// the same answers again adds nothing. On an error nothing is written.
    pub fn append(&mut self, answers: &[Answer]) -> Result<AppendCounts, Error> {
        for (row, answer) in answers.iter().enumerate() {
            answer.check().map_err(|what| Error::row(&self.path, row, what))?;
        }
        let is_new = !self.path.exists();
        let options = &mut OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = ordinary::open_with(&self.path, options)?;
        system::lock(&file).map_err(|e| Error::io(&self.path, e))?;
        self.read_on(&mut file)?;
        let (before, end) = (self.answers.len(), self.read);
        for answer in answers {
            if !self.known.contains(&act(answer)) {
                self.remember(answer.clone());
            }
        }
        let new = self.answers.len() - before;
        let mut written = self.write_from(&mut file, before);
        if is_new {
            written = written.and_then(|()| sync_folder(&self.path));
        }
        if let Err(error) = written {
            // Part of it may be on disk. If the cut fails as well, the next append does it.
            let _ = file.set_len(end);
            self.forget(before, end);
            return Err(Error::io(&self.path, error));
        }
        Ok(AppendCounts { new, known: answers.len() - new })
    }

    /// Reads the lines appended since. Leaves an unfinished last line alone: another process may be
    /// writing it.
    fn read_on(&mut self, file: &mut File) -> Result<(), Error> {
        let fail = |e| Error::io(&self.path, e);
        if file.metadata().map_err(fail)?.len() < self.read {
            return Err(Error::format(&self.path, "is shorter than it was: answers are missing"));
        }
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.read)).map_err(fail)?;
        file.read_to_end(&mut bytes).map_err(fail)?;
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let Some(text) = line.strip_suffix(b"\n") else { break };
            let text = std::str::from_utf8(text).map_err(|_| "not UTF-8".to_owned());
            let answer = text.and_then(parse);
            let answer = answer.and_then(|answer| answer.check().map(|()| answer));
            let number = self.answers.len() + 1;
            self.remember(answer.map_err(|what| Error::line(&self.path, number, what))?);
            self.read += line.len() as u64;
        }
        Ok(())
    }

    fn remember(&mut self, answer: Answer) {
        self.known.insert(act(&answer));
        self.by_id.entry(answer.id.clone()).or_default().push(self.answers.len());
        self.answers.push(answer);
    }

    /// Drops all answers from `first` on.
    fn forget(&mut self, first: usize, end: u64) {
        for answer in self.answers.drain(first..) {
            self.known.remove(&act(&answer));
            self.by_id.entry(answer.id).or_default().pop();
        }
        self.read = end;
    }

    /// Writes the answers from `first` on after the last whole line.
    fn write_from(&mut self, file: &mut File, first: usize) -> std::io::Result<()> {
        let mut lines = Vec::new();
        for answer in &self.answers[first..] {
            serde_json::to_writer(&mut lines, answer)?;
            lines.push(b'\n');
        }
        if lines.is_empty() {
            return Ok(());
        }
        file.set_len(self.read)?;
        file.seek(SeekFrom::Start(self.read))?;
        file.write_all(&lines)?;
        file.sync_all()?;
        self.read += lines.len() as u64;
        Ok(())
    }
}

/// What makes an answer the same as another one: all but its provenance.
pub(crate) fn act(answer: &Answer) -> Answer {
    Answer { provenance: None, ..answer.clone() }
}

/// The name of a new file is stored in its folder.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        system::sync_folder(folder)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::AnswerContent;

    fn answer(id: &str, caption: &str, annotator: Option<&str>) -> Answer {
        let said = AnswerContent::Caption(caption.into());
        Answer { id: id.into(), said, annotator: annotator.map(Into::into), provenance: None }
    }

    fn in_folder(test: impl Fn(&Path)) {
        let folder = tempfile::tempdir().unwrap();
        test(&folder.path().join("answers.jsonl"));
    }

    #[test]
    fn taking_twice_adds_nothing() {
        in_folder(|path| {
            let mut log = AnswerLog::open(path).unwrap();
            assert!(log.all().is_empty() && !path.exists());
            let skip = Answer {
                id: "a".into(),
                said: AnswerContent::Skip("A dog .".into()),
                annotator: None,
                provenance: None,
            };
            let said = [
                answer("a", "A dog .", None),
                answer("a", "A dog .", Some("eve")),
                skip,
                answer("b", "line\nbreak \u{2028} ü", None),
                answer("a", "A dog .", None),
            ];
            assert_eq!(log.append(&said).unwrap(), AppendCounts { new: 4, known: 1 });
            let bytes = std::fs::read(path).unwrap();
            assert_eq!(bytes.iter().filter(|&&byte| byte == b'\n').count(), 4);
            assert_eq!(log.append(&said).unwrap(), AppendCounts { new: 0, known: 5 });
            let mut again = AnswerLog::open(path).unwrap();
            assert_eq!(again.append(&said).unwrap(), AppendCounts { new: 0, known: 5 });
            assert_eq!(std::fs::read(path).unwrap(), bytes);
            for log in [&log, &again] {
                assert_eq!(log.all(), &said[..4]);
                assert!(log.of("a").eq(&said[..3]) && log.of("c").next().is_none());
            }
        });
    }

    #[test]
    fn a_kill_at_any_byte_loses_nothing_that_was_taken() {
        in_folder(|path| {
            let said = ["one", "zwei ü", "three"].map(|caption| answer("a", caption, None));
            AnswerLog::open(path).unwrap().append(&said).unwrap();
            let whole = std::fs::read(path).unwrap();
            let first = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
            for end in first..whole.len() {
                std::fs::write(path, &whole[..end]).unwrap();
                let mut log = AnswerLog::open(path).unwrap();
                let kept = log.all().len();
                assert!(kept >= 1 && log.all() == &said[..kept]);
                assert_eq!(std::fs::read(path).unwrap(), &whole[..end], "reading changes nothing");
                assert_eq!(log.append(&said).unwrap(), AppendCounts { new: 3 - kept, known: kept });
                assert_eq!(std::fs::read(path).unwrap(), whole);
            }
        });
    }

    #[test]
    fn several_take_at_once() {
        in_folder(|path| {
            let logs: Vec<AnswerLog> = (0..4).map(|_| AnswerLog::open(path).unwrap()).collect();
            std::thread::scope(|scope| {
                for (number, mut log) in logs.into_iter().enumerate() {
                    scope.spawn(move || {
                        for step in 0..20 {
                            let own = answer(&format!("{number}"), &format!("{step}"), None);
                            let shared = answer("shared", &format!("{step}"), None);
                            log.append(&[own, shared]).unwrap();
                        }
                    });
                }
            });
            let log = AnswerLog::open(path).unwrap();
            assert_eq!(log.all().len(), 4 * 20 + 20);
            assert_eq!(log.of("3").count(), 20);
        });
    }

    #[test]
    fn damage_is_named_and_nothing_is_taken() {
        in_folder(|path| {
            let good = "{\"id\":\"a\",\"caption\":\"x\"}\n";
            for (second, expected) in [
                (&b"\n"[..], ":2: the line is empty"),
                (b"\xff\n", ":2: not UTF-8"),
                (b"{\"id\":\"a\"}\n", ":2: not an answer: neither a caption"),
                (b"{\"id\":\"a\",\"caption\":\" \"}\n", ":2: the caption is empty"),
                (
                    b"{\"id\":\"a\",\"caption\":\"x\",\"by\":1}\n",
                    ":2: not an answer: unknown field",
                ),
            ] {
                std::fs::write(path, [good.as_bytes(), second].concat()).unwrap();
                let what = AnswerLog::open(path).unwrap_err().to_string();
                assert!(what.contains(expected), "{what}");
            }
            std::fs::write(path, good).unwrap();
            let mut log = AnswerLog::open(path).unwrap();
            let what = log.append(&[answer("b", "y", None), answer("b", "", None)]).unwrap_err();
            assert!(what.to_string().ends_with("row 1: the caption is empty"), "{what}");
            assert_eq!(std::fs::read_to_string(path).unwrap(), good);
            std::fs::write(path, "").unwrap();
            let what = log.append(&[answer("b", "y", None)]).unwrap_err().to_string();
            assert!(what.ends_with("answers are missing"), "{what}");
            std::fs::remove_file(path).unwrap();
            std::fs::create_dir(path).unwrap();
            assert!(
                log.append(&[answer("b", "y", None)]).is_err() && AnswerLog::open(path).is_err()
            );
        });
    }

    /// `/dev/full` would simulate a full disk, but it is not a regular file and is refused earlier.
    #[cfg(unix)]
    #[test]
    fn devices_and_missing_folders_are_refused() {
        assert!(AnswerLog::open(Path::new("/dev/full")).is_err());
        let mut log = AnswerLog::open(Path::new("/no/such/folder/answers.jsonl")).unwrap();
        assert!(log.append(&[answer("b", "y", None)]).is_err());
        assert!(log.all().is_empty() && log.of("b").next().is_none());
    }
}
