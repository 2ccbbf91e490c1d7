//! Intermediate rows kept on disk: a nameless temporary file that ends with the process.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use crate::{Dtype, Error, Matrix, mapping};

/// A matrix that is written row by row and then mapped, so that it does not count as memory.
///
/// It is stored in the folder for temporary files (`TMPDIR`).
pub struct Spill {
    file: BufWriter<File>,
    folder: PathBuf,
    bytes: usize,
}

impl Spill {
    /// Creates an empty spill.
    pub fn new() -> Result<Self, Error> {
        let folder = std::env::temp_dir();
        let file = tempfile::tempfile_in(&folder).map_err(|e| Error::io(&folder, e))?;
        Ok(Spill { file: BufWriter::new(file), folder, bytes: 0 })
    }

    /// Appends numbers in their storage type, as bytes.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.bytes += bytes.len();
        self.file.write_all(bytes).map_err(|e| Error::io(&self.folder, e))
    }

    /// Appends numbers in double precision.
    pub fn append_f64(&mut self, values: &[f64]) -> Result<(), Error> {
        values.iter().try_for_each(|value| self.append(&value.to_le_bytes()))
    }

    /// Appends numbers in single precision.
    pub fn append_f32(&mut self, values: &[f32]) -> Result<(), Error> {
        values.iter().try_for_each(|value| self.append(&value.to_le_bytes()))
    }

    /// Returns the appended numbers as rows of `dim`.
    ///
    /// # Panics
    /// If the numbers do not divide into such rows.
    pub fn finish(self, dim: usize, dtype: Dtype) -> Result<Matrix, Error> {
        let stride = dim * dtype.size();
        assert!(stride > 0 && self.bytes.is_multiple_of(stride), "whole rows were appended");
        if self.bytes == 0 {
            return Ok(Matrix::from_f64(dim, &[]));
        }
        let fail = |e| Error::io(&self.folder, e);
        let file = self.file.into_inner().map_err(|e| fail(e.into_error()))?;
        let bytes = mapping::map_temporary(&file, &self.folder)?;
        Ok(Matrix::over(bytes, self.bytes / stride, 1, dim, dtype))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back() {
        let mut spill = Spill::new().unwrap();
        spill.append_f64(&[1.0, 2.0]).unwrap();
        spill.append_f64(&[3.0, 4.0]).unwrap();
        let matrix = spill.finish(2, Dtype::F64).unwrap();
        let mut row = [0.0; 2];
        matrix.read_f64(1, &mut row);
        assert_eq!((matrix.rows(), row), (2, [3.0, 4.0]));
        assert_eq!(Spill::new().unwrap().finish(2, Dtype::F32).unwrap().rows(), 0);
    }
}
