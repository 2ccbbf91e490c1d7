//! A matrix in several files: the rows of one continue those of the one before.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use nextpair_core::{Matrix, Side};
use nextpair_data::{Columns, Table, open_columns};

use crate::Error;

/// Endings of the files of a folder that are read.
const READ: [&str; 4] = ["npy", "npz", "parquet", "safetensors"];

/// Opens files, and folders of files in the order of their names, as one table. Ids are kept if all
/// files have them.
pub(super) fn open(paths: &[PathBuf], side: Side, columns: &Columns) -> Result<Table, Error> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(listed(path)?);
        } else {
            files.push(path.clone());
        }
    }
    let Some(first) = files.first().cloned() else {
        return Err(Error::Files("no files of similarities".to_owned()));
    };
    let (mut matrices, mut ids) = (Vec::with_capacity(files.len()), Some(Vec::new()));
    for path in &files {
        let Table { matrix, ids: own } = open_columns(path, side, columns)?;
        if let Some(before) = matrices.first() {
            check_alike((&first, before), (path, &matrix))?;
        }
        ids = ids.zip(own).map(|(all, own)| [all, own].concat());
        matrices.push(matrix);
    }
    let matrix = Matrix::concatenate(matrices)
        .ok_or_else(|| Error::Files(format!("{}: no rows", first.display())))?;
    Ok(Table { matrix, ids })
}

/// Fails unless two files have the same columns and type.
fn check_alike(
    (first, one): (&Path, &Matrix),
    (path, other): (&Path, &Matrix),
) -> Result<(), Error> {
    let shape = |matrix: &Matrix| (matrix.locals() * matrix.dim(), matrix.dtype());
    if shape(one) == shape(other) {
        return Ok(());
    }
    let said = |path: &Path, matrix: &Matrix| {
        let (columns, dtype) = shape(matrix);
        format!("{} has {columns} columns of {dtype:?}", path.display())
    };
    let (one, other) = (said(first, one), said(path, other));
    Err(Error::Files(format!("{one}, but {other}: rows of several files need the same of both")))
}

/// The files of a folder, in the order of their names, in which numbers count as numbers.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |error| nextpair_core::Error::io(folder, error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if READ.contains(&ending) {
            files.push(path);
        }
    }
    if files.is_empty() {
        let what = format!("{}: no .npy, .parquet or .safetensors files in it", folder.display());
        return Err(Error::Files(what));
    }
    files.sort_by(|a, b| by_number(&a.to_string_lossy(), &b.to_string_lossy()));
    Ok(files)
}

/// The order of names in which `part-10` comes after `part-9`.
fn by_number(one: &str, other: &str) -> Ordering {
    let pieces = |name: &str| -> Vec<(String, Option<u128>)> {
        let chars: Vec<char> = name.chars().collect();
        let runs = chars.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
        let piece = |run: &[char]| -> (String, Option<u128>) {
            let text: String = run.iter().collect();
            let number = text.parse().ok();
            (text, number)
        };
        runs.map(piece).collect()
    };
    let (left, right) = (pieces(one), pieces(other));
    for (left, right) in left.iter().zip(&right) {
        let order = match (left.1, right.1) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => left.0.cmp(&right.0),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count() {
        let mut names = ["p-10.npy", "p-9.npy", "p-1.npy", "p-01.npy", "o.npy", "p.npy"];
        names.sort_by(|a, b| by_number(a, b));
        assert_eq!(names, ["o.npy", "p-01.npy", "p-1.npy", "p-9.npy", "p-10.npy", "p.npy"]);
    }
}
