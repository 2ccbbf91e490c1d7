//! The rows of a feature set, by item or caption.

use std::path::Path;

use super::items::Items;
use super::manifest::{FeatureSet, Per};
use crate::{Error, Matrix, npy};

/// A mapped matrix, and the row of each item or caption.
#[derive(Clone, Debug)]
pub struct Features {
    matrix: Matrix,
    rows: Option<Vec<Option<usize>>>,
}

impl Features {
    /// Maps the files and checks that their rows match the items or captions.
    pub(crate) fn open(folder: &Path, set: &FeatureSet, items: &Items) -> Result<Self, Error> {
        let mut parts: Vec<Matrix> = Vec::with_capacity(set.files.len());
        for file in &set.files {
            let path = folder.join(file);
            let matrix = npy::open(&path)?;
            let shape = |m: &Matrix| format!("{} x {} {:?}", m.locals(), m.dim(), m.dtype());
            if let Some(first) = parts.first().map(shape)
                && first != shape(&matrix)
            {
                let what = format!("rows of {}, but the first file has {first}", shape(&matrix));
                return Err(Error::format(&path, what));
            }
            parts.push(matrix);
        }
        let matrix = Matrix::concatenate(parts).ok_or_else(|| {
            let what = format!("the feature set {} has no files", set.name);
            Error::format(&folder.join(super::MANIFEST), what)
        })?;
        let (expected, what) = match set.per {
            Per::Item => (items.len(), "items"),
            Per::Caption => (items.captions(), "captions"),
        };
        let rows = match &set.rows {
            None if matrix.rows() == expected => None,
            None => {
                let found = matrix.rows();
                let what =
                    format!("{} has {found} rows for {expected} {what}", set.files[0].display());
                return Err(Error::format(&folder.join(super::MANIFEST), what));
            }
            Some(file) => Some(read_rows(&folder.join(file), expected, what, matrix.rows())?),
        };
        Ok(Features { matrix, rows })
    }

    /// All rows of the files, used or not.
    pub fn matrix(&self) -> &Matrix {
        &self.matrix
    }

    /// The row of item or caption `index`, if it has one.
    pub fn row(&self, index: usize) -> Option<usize> {
        match &self.rows {
            Some(rows) => rows[index],
            None => Some(index),
        }
    }
}

fn read_rows(
    path: &Path,
    expected: usize,
    what: &str,
    available: usize,
) -> Result<Vec<Option<usize>>, Error> {
    let numbers = npy::read_integers(path)?;
    if numbers.len() != expected {
        let what = format!("{} numbers for {expected} {what}", numbers.len());
        return Err(Error::format(path, what));
    }
    let row = |(at, number): (usize, i64)| match usize::try_from(number) {
        Ok(row) if row < available => Ok(Some(row)),
        _ if number == -1 => Ok(None),
        _ => Err(Error::row(path, at, format!("{number} is not one of {available} rows"))),
    };
    numbers.into_iter().enumerate().map(row).collect()
}
