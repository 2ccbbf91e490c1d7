//! The book of answers: a file that only grows.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::Answer;
use super::answers::parse;
use crate::{Error, ordinary};

/// Every answer that was ever taken, in order, in a file of JSON lines.
///
/// Nothing in it is overwritten: who has second thoughts says something more. Several processes
/// may take answers at the same time; a process killed meanwhile leaves at most an unfinished last
/// line, which counts as not there and is cut off by the next one.
#[derive(Debug)]
pub struct Answers {
    path: PathBuf,
    answers: Vec<Answer>,
    known: HashSet<Answer>,
    by_id: HashMap<String, Vec<usize>>,
    /// How much of the file was read, up to the end of a line.
    read: u64,
}

/// What became of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Answers that were written down.
    pub new: usize,
    /// Answers that were there already: the same said of the same item by the same person.
    pub known: usize,
}

impl Answers {
    /// Reads the book, if there is one; [`take`](Self::take) begins it otherwise.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut book = Answers {
            path: path.to_path_buf(),
            answers: Vec::new(),
            known: HashSet::new(),
            by_id: HashMap::new(),
            read: 0,
        };
        match ordinary::open(path) {
            Ok(mut file) => book.read_on(&mut file)?,
            Err(Error::Io { error, .. }) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(book)
    }

    /// All answers, the oldest first.
    pub fn all(&self) -> &[Answer] {
        &self.answers
    }

    /// What was said about one item, the oldest first.
    pub fn of(&self, id: &str) -> impl Iterator<Item = &Answer> {
        self.by_id.get(id).into_iter().flatten().map(|&at| &self.answers[at])
    }

    /// Writes down what is new, and returns when it will survive a loss of power. Taking the same
    /// answers again adds nothing. With an error nothing is taken.
    pub fn take(&mut self, answers: &[Answer]) -> Result<Taken, Error> {
        for (row, answer) in answers.iter().enumerate() {
            answer.check().map_err(|what| Error::row(&self.path, row, what))?;
        }
        let is_new = !self.path.exists();
        let options = &mut OpenOptions::new();
        let options = options.read(true).append(true).create(true);
        let mut file = ordinary::open_with(&self.path, options)?;
        file.lock().map_err(|e| Error::io(&self.path, e))?;
        self.read_on(&mut file)?;
        let (before, end) = (self.answers.len(), self.read);
        for answer in answers {
            if !self.known.contains(answer) {
                self.remember(answer.clone());
            }
        }
        let new = self.answers.len() - before;
        let written = self.append(&mut file, before).and_then(|()| match is_new {
            true => sync_folder(&self.path),
            false => Ok(()),
        });
        if let Err(error) = written {
            // Part of it may be on disk; if cutting it off fails too, the next one does it.
            let _ = file.set_len(end);
            self.forget(before, end);
            return Err(Error::io(&self.path, error));
        }
        Ok(Taken { new, known: answers.len() - new })
    }

    /// Reads what was appended since. An unfinished last line is left alone: somebody may be
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
        self.known.insert(answer.clone());
        self.by_id.entry(answer.id.clone()).or_default().push(self.answers.len());
        self.answers.push(answer);
    }

    /// Forgets all answers from `first` on.
    fn forget(&mut self, first: usize, end: u64) {
        for answer in self.answers.drain(first..) {
            self.known.remove(&answer);
            self.by_id.entry(answer.id).or_default().pop();
        }
        self.read = end;
    }

    /// Writes the answers from `first` on behind the last whole line.
    fn append(&mut self, file: &mut File, first: usize) -> std::io::Result<()> {
        let mut lines = Vec::new();
        for answer in &self.answers[first..] {
            serde_json::to_writer(&mut lines, answer)?;
            lines.push(b'\n');
        }
        if lines.is_empty() {
            return Ok(());
        }
        file.set_len(self.read)?;
        file.write_all(&lines)?;
        file.sync_all()?;
        self.read += lines.len() as u64;
        Ok(())
    }
}

/// The name of a new file is kept by its folder.
#[allow(clippy::disallowed_methods, reason = "a folder, in which a file was just made")]
fn sync_folder(path: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Said;

    fn answer(id: &str, caption: &str, annotator: Option<&str>) -> Answer {
        let said = Said::Caption(caption.into());
        Answer { id: id.into(), said, annotator: annotator.map(Into::into) }
    }

    fn in_folder(test: impl Fn(&Path)) {
        let folder = tempfile::tempdir().unwrap();
        test(&folder.path().join("answers.jsonl"));
    }

    #[test]
    fn taking_twice_adds_nothing() {
        in_folder(|path| {
            let mut book = Answers::open(path).unwrap();
            assert!(book.all().is_empty() && !path.exists());
            let skip =
                Answer { id: "a".into(), said: Said::Skip("A dog .".into()), annotator: None };
            let said = [
                answer("a", "A dog .", None),
                answer("a", "A dog .", Some("eve")),
                skip,
                answer("b", "line\nbreak \u{2028} ü", None),
                answer("a", "A dog .", None),
            ];
            assert_eq!(book.take(&said).unwrap(), Taken { new: 4, known: 1 });
            let bytes = std::fs::read(path).unwrap();
            assert_eq!(bytes.iter().filter(|&&byte| byte == b'\n').count(), 4);
            assert_eq!(book.take(&said).unwrap(), Taken { new: 0, known: 5 });
            let mut again = Answers::open(path).unwrap();
            assert_eq!(again.take(&said).unwrap(), Taken { new: 0, known: 5 });
            assert_eq!(std::fs::read(path).unwrap(), bytes);
            for book in [&book, &again] {
                assert_eq!(book.all(), &said[..4]);
                assert!(book.of("a").eq(&said[..3]) && book.of("c").next().is_none());
            }
        });
    }

    #[test]
    fn a_kill_at_any_byte_loses_nothing_that_was_taken() {
        in_folder(|path| {
            let said = ["one", "zwei ü", "three"].map(|caption| answer("a", caption, None));
            Answers::open(path).unwrap().take(&said).unwrap();
            let whole = std::fs::read(path).unwrap();
            let first = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
            for end in first..whole.len() {
                std::fs::write(path, &whole[..end]).unwrap();
                let mut book = Answers::open(path).unwrap();
                let kept = book.all().len();
                assert!(kept >= 1 && book.all() == &said[..kept]);
                assert_eq!(std::fs::read(path).unwrap(), &whole[..end], "reading changes nothing");
                assert_eq!(book.take(&said).unwrap(), Taken { new: 3 - kept, known: kept });
                assert_eq!(std::fs::read(path).unwrap(), whole);
            }
        });
    }

    #[test]
    fn several_take_at_once() {
        in_folder(|path| {
            let books: Vec<Answers> = (0..4).map(|_| Answers::open(path).unwrap()).collect();
            std::thread::scope(|scope| {
                for (number, mut book) in books.into_iter().enumerate() {
                    scope.spawn(move || {
                        for step in 0..20 {
                            let own = answer(&format!("{number}"), &format!("{step}"), None);
                            let shared = answer("shared", &format!("{step}"), None);
                            book.take(&[own, shared]).unwrap();
                        }
                    });
                }
            });
            let book = Answers::open(path).unwrap();
            assert_eq!(book.all().len(), 4 * 20 + 20);
            assert_eq!(book.of("3").count(), 20);
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
                let what = Answers::open(path).unwrap_err().to_string();
                assert!(what.contains(expected), "{what}");
            }
            std::fs::write(path, good).unwrap();
            let mut book = Answers::open(path).unwrap();
            let what = book.take(&[answer("b", "y", None), answer("b", "", None)]).unwrap_err();
            assert!(what.to_string().ends_with("row 1: the caption is empty"), "{what}");
            assert_eq!(std::fs::read_to_string(path).unwrap(), good);
            std::fs::write(path, "").unwrap();
            let what = book.take(&[answer("b", "y", None)]).unwrap_err().to_string();
            assert!(what.ends_with("answers are missing"), "{what}");
            std::fs::remove_file(path).unwrap();
            std::fs::create_dir(path).unwrap();
            assert!(book.take(&[answer("b", "y", None)]).is_err() && Answers::open(path).is_err());
        });
    }

    /// `/dev/full` stands in for a full disk where it can: as a file it is refused before that.
    #[cfg(unix)]
    #[test]
    fn devices_and_missing_folders_are_refused() {
        assert!(Answers::open(Path::new("/dev/full")).is_err());
        let mut book = Answers::open(Path::new("/no/such/folder/answers.jsonl")).unwrap();
        assert!(book.take(&[answer("b", "y", None)]).is_err());
        assert!(book.all().is_empty() && book.of("b").next().is_none());
    }
}
