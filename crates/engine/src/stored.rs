//! Similarities that another model computed: a matrix on disk or in memory.

use half::{bf16, f16};
use nextpair_core::{Dtype, Element, Matrix};
use rayon::prelude::*;

use crate::{Error, Similarity};

/// Known similarities in a matrix of rows by columns, which may be a mapped file and larger than
/// memory. [`KnownSimilarities`](crate::KnownSimilarities) is the same over numbers in memory.
///
/// The canonical similarity is the stored number.
pub struct Stored {
    matrix: Matrix,
    largest: f64,
}

impl Stored {
    /// Checks every number of `matrix`; errors call it `what`.
    ///
    /// # Errors
    /// If a number is NaN or infinite.
    pub fn new(matrix: Matrix, what: &'static str) -> Result<Self, Error> {
        if matrix.locals() != 1 {
            return Err(Error::LocalVectors { what, locals: matrix.locals() });
        }
        if u32::try_from(matrix.rows()).is_err() {
            return Err(Error::TooManyRows { what, rows: matrix.rows() });
        }
        let largest = |row: usize| {
            let bytes = matrix.row_bytes(row);
            match matrix.dtype() {
                Dtype::F16 => largest::<f16>(bytes),
                Dtype::Bf16 => largest::<bf16>(bytes),
                Dtype::F32 => largest::<f32>(bytes),
                Dtype::F64 => largest::<f64>(bytes),
            }
        };
        let rows = (0..matrix.rows()).into_par_iter();
        let found: Result<f64, usize> = rows
            .map(|row| largest(row).ok_or(row))
            .try_reduce(|| 0.0, |one: f64, other| Ok(one.max(other)));
        match found {
            Ok(largest) => Ok(Stored { matrix, largest }),
            Err(_) => Err(first_odd(&matrix, what)),
        }
    }
}

/// The largest magnitude, or `None` if a number is NaN or infinite. Without a branch within a row, so
/// that the compiler vectorises it.
fn largest<E: Element>(bytes: &[u8]) -> Option<f64> {
    let numbers = || bytes.chunks_exact(E::SIZE).map(E::decode);
    let finite = numbers().fold(true, |finite, value| finite & value.is_finite());
    finite.then(|| numbers().fold(0.0, |largest: f64, value| largest.max(value.abs())))
}

/// The place of the first number that is NaN or infinite.
fn first_odd(matrix: &Matrix, what: &'static str) -> Error {
    let mut values = vec![0.0; matrix.dim()];
    for row in 0..matrix.rows() {
        matrix.read_f64(row, &mut values);
        if let Some(column) = values.iter().position(|value| !value.is_finite()) {
            return Error::StoredNotFinite { what, row, column, value: values[column] };
        }
    }
    // The file changes while it is read; the mapping's check reports that.
    Error::StoredNotFinite { what, row: 0, column: 0, value: f64::NAN }
}

impl Similarity for Stored {
    fn rows(&self) -> usize {
        self.matrix.rows()
    }

    fn columns(&self) -> usize {
        self.matrix.dim()
    }

    fn tile(&self, rows: &[u32], columns: &[u32], out: &mut [f32]) -> Result<(), Error> {
        if columns.is_empty() {
            return Ok(());
        }
        for (&row, out) in rows.iter().zip(out.chunks_exact_mut(columns.len())) {
            let bytes = self.matrix.row_bytes(row as usize);
            match self.matrix.dtype() {
                Dtype::F16 => read::<f16, f32>(bytes, columns, out, |value| value as f32),
                Dtype::Bf16 => read::<bf16, f32>(bytes, columns, out, |value| value as f32),
                Dtype::F32 => read::<f32, f32>(bytes, columns, out, |value| value as f32),
                Dtype::F64 => read::<f64, f32>(bytes, columns, out, |value| value as f32),
            }
        }
        Ok(())
    }

    fn tile_error(&self, _: &[u32], _: &[u32]) -> f64 {
        match self.matrix.dtype() {
            // Single precision holds them.
            Dtype::F16 | Dtype::Bf16 | Dtype::F32 => 0.0,
            Dtype::F64 => self.largest * f32::EPSILON as f64 + f32::MIN_POSITIVE as f64,
        }
    }

    fn exact(&self, row: u32, columns: &[u32], out: &mut [f64]) -> Result<(), Error> {
        let bytes = self.matrix.row_bytes(row as usize);
        // No negative zero, so that equal values have equal bits.
        match self.matrix.dtype() {
            Dtype::F16 => read::<f16, f64>(bytes, columns, out, |value| value + 0.0),
            Dtype::Bf16 => read::<bf16, f64>(bytes, columns, out, |value| value + 0.0),
            Dtype::F32 => read::<f32, f64>(bytes, columns, out, |value| value + 0.0),
            Dtype::F64 => read::<f64, f64>(bytes, columns, out, |value| value + 0.0),
        }
        Ok(())
    }

    fn scale(&self) -> f64 {
        self.largest.max(1.0)
    }
}

#[inline(always)]
fn read<E: Element, T>(bytes: &[u8], columns: &[u32], out: &mut [T], as_is: impl Fn(f64) -> T) {
    for (out, &column) in out.iter_mut().zip(columns) {
        *out = as_is(E::decode(&bytes[column as usize * E::SIZE..]));
    }
}
