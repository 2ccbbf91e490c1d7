//! Small files beside the matrices: ids, groups and sets of row indices.

use std::collections::HashMap;
use std::path::Path;

use crate::lines::Lines;
use crate::{Error, npy};

/// Reads one distinct id per line.
pub fn read_ids(path: &Path) -> Result<Vec<String>, Error> {
    let ids = read_lines(path)?;
    let mut first_lines = HashMap::with_capacity(ids.len());
    for (at, id) in ids.iter().enumerate() {
        if let Some(first) = first_lines.insert(id, at + 1) {
            return Err(Error::line(path, at + 1, format!("{id} is on line {first} already")));
        }
    }
    Ok(ids)
}

/// Reads one group name per line, or a `.npy` file of integers.
pub fn read_groups(path: &Path) -> Result<Vec<String>, Error> {
    if is_npy(path) {
        let numbers = npy::read_integers(path)?;
        return Ok(numbers.iter().map(i64::to_string).collect());
    }
    read_lines(path)
}

/// Reads one row index per line, or a `.npy` file of integers. The engine checks that they are
/// distinct and within the rows.
pub fn read_indices(path: &Path) -> Result<Vec<usize>, Error> {
    if is_npy(path) {
        let numbers = npy::read_integers(path)?.into_iter().enumerate();
        return numbers
            .map(|(row, number)| {
                usize::try_from(number)
                    .map_err(|_| Error::row(path, row, format!("{number} is not a row index")))
            })
            .collect();
    }
    let lines = read_lines(path)?.into_iter().enumerate();
    lines
        .map(|(at, text)| {
            let number = text.trim().parse();
            number.map_err(|_| Error::line(path, at + 1, format!("'{text}' is not a row index")))
        })
        .collect()
}

fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy"))
}

/// The lines of a UTF-8 file, none of them empty.
fn read_lines(path: &Path) -> Result<Vec<String>, Error> {
    let lines = Lines::all(path)?;
    match lines.iter().position(|line| line.trim().is_empty()) {
        Some(at) => Err(Error::line(path, at + 1, "the line is empty")),
        None => Ok(lines),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `read` with a file of this name and content.
    fn with<T>(name: &str, content: &[u8], read: impl Fn(&Path) -> T) -> T {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        read(&path)
    }

    fn integers(descr: &str, data: &[u8]) -> Vec<u8> {
        let header = format!(
            "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({},)}}",
            data.len() / 8
        );
        let length = (header.len() as u16).to_le_bytes();
        [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
    }

    #[test]
    fn ids_are_lines() {
        for content in ["a\nb c\né\n", "a\nb c\né", "a\r\nb c\r\né\r\n"] {
            assert_eq!(with("ids", content.as_bytes(), read_ids).unwrap(), ["a", "b c", "é"]);
        }
        assert!(with("ids", b"", read_ids).unwrap().is_empty());
    }

    #[test]
    fn wrong_lines_are_named() {
        for (content, expected) in [
            (&b"a\n\nb\n"[..], ":2: the line is empty"),
            (b"\n", ":1: the line is empty"),
            (b"a\n\n", ":2: the line is empty"),
            (b"a\nb\nc\nb\n", ":4: b is on line 2 already"),
            (b"a\n\xff\n", ":2: not UTF-8"),
        ] {
            let what = with("ids", content, read_ids).unwrap_err().to_string();
            assert!(what.ends_with(expected), "{what}");
        }
        assert!(matches!(read_ids(Path::new("none")), Err(Error::Io { .. })));
    }

    #[test]
    fn groups_may_repeat() {
        assert_eq!(with("g.txt", b"a\nb\na", read_groups).unwrap(), ["a", "b", "a"]);
        let numbers = integers("<i8", &[5i64, -1, 5].map(i64::to_le_bytes).concat());
        assert_eq!(with("g.npy", &numbers, read_groups).unwrap(), ["5", "-1", "5"]);
    }

    #[test]
    fn indices_are_not_negative() {
        assert_eq!(with("i.txt", b"3\n0\r\n3\n", read_indices).unwrap(), [3, 0, 3]);
        for (content, expected) in [
            (&b"3\n-1\n"[..], ":2: '-1' is not a row index"),
            (b"1.5", ":1: '1.5' is not a row index"),
            (b"1\nx", ":2: 'x' is not a row index"),
        ] {
            let what = with("i.txt", content, read_indices).unwrap_err().to_string();
            assert!(what.ends_with(expected), "{what}");
        }
        let numbers = integers("<i8", &[2i64, -7].map(i64::to_le_bytes).concat());
        let what = with("i.npy", &numbers, read_indices).unwrap_err().to_string();
        assert!(what.ends_with("row 1: -7 is not a row index"), "{what}");
        let what = with("i.npy", b"", read_indices).unwrap_err().to_string();
        assert!(what.ends_with("the file is empty"), "{what}");
    }
}
