//! Lines of text files made by people: with any line ends, perhaps a byte-order mark, perhaps
//! damage.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::stamp::Stamp;
use crate::{Error, ordinary};

/// Longest line in bytes; a file with a longer one is not a text file of lines.
const LONGEST: u64 = 64 << 20;

/// The byte-order mark that some editors write at the start of a UTF-8 file. It is not part of the
/// text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file read line by line, with line numbers for error messages.
pub(crate) struct Lines {
    path: PathBuf,
    reader: BufReader<File>,
    stamp: Stamp,
    line: usize,
}

/// One line: its number from 1, and its text or the problem with it.
pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) text: Result<String, String>,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let file = ordinary::open(path)?;
        let stamp = Stamp::of(&file).map_err(|e| Error::io(path, e))?;
        Ok(Lines { path: path.to_path_buf(), reader: BufReader::new(file), stamp, line: 0 })
    }

    /// Reads the next line without its end. A line that is not UTF-8 is returned as a bad line, so
    /// that callers can skip it. At the end of the file, returns an error if the file changed
    /// meanwhile.
    pub(crate) fn next(&mut self) -> Result<Option<Line>, Error> {
        let mut bytes = Vec::new();
        let mut limited = (&mut self.reader).take(LONGEST);
        limited.read_until(b'\n', &mut bytes).map_err(|e| Error::io(&self.path, e))?;
        if bytes.is_empty() {
            self.stamp.check_open(self.reader.get_ref(), &self.path)?;
            return Ok(None);
        }
        self.line += 1;
        let ended = bytes.pop_if(|byte| *byte == b'\n').is_some();
        if !ended && bytes.len() as u64 == LONGEST {
            return Err(Error::line(&self.path, self.line, "the line is longer than 64 MB"));
        }
        bytes.pop_if(|byte| ended && *byte == b'\r');
        if self.line == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        let text = String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned());
        Ok(Some(Line { number: self.line, text }))
    }

    /// Reads all lines; the first bad one is an error.
    pub(crate) fn all(path: &Path) -> Result<Vec<String>, Error> {
        let mut lines = Lines::open(path)?;
        let mut all = Vec::new();
        while let Some(Line { number, text }) = lines.next()? {
            all.push(text.map_err(|what| Error::line(path, number, what))?);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(content: &[u8], read: impl Fn(&Path) -> T) -> T {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, content).unwrap();
        read(&path)
    }

    #[test]
    fn line_ends_and_marks_are_not_text() {
        for content in ["a\nb\n\né", "a\r\nb\r\n\r\né\r\n", "\u{feff}a\nb\n\né\n"] {
            assert_eq!(with(content.as_bytes(), Lines::all).unwrap(), ["a", "b", "", "é"]);
        }
        assert!(with(b"", Lines::all).unwrap().is_empty());
        assert_eq!(with(b"a\rb", Lines::all).unwrap(), ["a\rb"]);
    }

    #[test]
    fn a_bad_line_does_not_hide_the_next() {
        with(b"a\n\xff\nc", |path| {
            let mut lines = Lines::open(path).unwrap();
            let mut found = Vec::new();
            while let Some(line) = lines.next().unwrap() {
                found.push((line.number, line.text.is_ok()));
            }
            assert_eq!(found, [(1, true), (2, false), (3, true)]);
        });
        let what = with(b"a\n\xff\nc", Lines::all).unwrap_err().to_string();
        assert!(what.ends_with("text:2: not UTF-8"), "{what}");
    }

    #[test]
    fn a_file_that_is_one_endless_line_is_refused() {
        let what = with(&vec![b'x'; LONGEST as usize + 1], Lines::all).unwrap_err().to_string();
        assert!(what.ends_with("text:1: the line is longer than 64 MB"), "{what}");
    }
}
