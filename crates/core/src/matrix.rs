//! Matrices on disk or in memory, read one row at a time.

use std::ops::Range;
use std::sync::Arc;

use half::{bf16, f16};

use crate::Error;
use crate::mapping::{Bytes, Holder};

/// Storage type of a number; always little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// IEEE half precision.
    F16,
    /// The upper half of single precision.
    Bf16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

impl Dtype {
    /// Bytes of one number.
    pub fn size(self) -> usize {
        match self {
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::F32 => 4,
            Dtype::F64 => 8,
        }
    }

    /// The type of a `.npy` file that holds such numbers exactly.
    pub fn in_npy(self) -> Self {
        match self {
            Dtype::Bf16 => Dtype::F32,
            other => other,
        }
    }
}

/// A stored number type, for code that is compiled once per type.
///
/// The bytes of a mapped file need not be aligned, so elements are decoded, never transmuted;
/// on little-endian machines that is a plain load.
pub trait Element: bytemuck::NoUninit + Send + Sync {
    /// Bytes of one number.
    const SIZE: usize;
    /// The storage type.
    const DTYPE: Dtype;
    /// Decodes the number that starts at `bytes[0]`, exactly.
    fn decode(bytes: &[u8]) -> f64;
}

impl Element for f16 {
    const SIZE: usize = 2;
    const DTYPE: Dtype = Dtype::F16;
    #[inline(always)]
    fn decode(bytes: &[u8]) -> f64 {
        half_to_single(u16::from_le_bytes(first(bytes))) as f64
    }
}

impl Element for bf16 {
    const SIZE: usize = 2;
    const DTYPE: Dtype = Dtype::Bf16;
    #[inline(always)]
    fn decode(bytes: &[u8]) -> f64 {
        f32::from_bits(u32::from(u16::from_le_bytes(first(bytes))) << 16) as f64
    }
}

impl Element for f32 {
    const SIZE: usize = 4;
    const DTYPE: Dtype = Dtype::F32;
    #[inline(always)]
    fn decode(bytes: &[u8]) -> f64 {
        f32::from_le_bytes(first(bytes)) as f64
    }
}

impl Element for f64 {
    const SIZE: usize = 8;
    const DTYPE: Dtype = Dtype::F64;
    #[inline(always)]
    fn decode(bytes: &[u8]) -> f64 {
        f64::from_le_bytes(first(bytes))
    }
}

/// The bytes of one number in one load: the compiler does not always merge several byte loads.
#[inline(always)]
fn first<const SIZE: usize>(bytes: &[u8]) -> [u8; SIZE] {
    *bytes.first_chunk().expect("a number has all its bytes")
}

/// Numbers in memory, viewed as bytes.
struct Numbers<E>(Vec<E>);

impl<E: Element> AsRef<[u8]> for Numbers<E> {
    fn as_ref(&self) -> &[u8] {
        const { assert!(cfg!(target_endian = "little"), "numbers are stored little-endian") };
        bytemuck::cast_slice(&self.0)
    }
}

/// Converts half-precision bits exactly. It has no branch, so the compiler can decode whole
/// vectors.
#[inline(always)]
fn half_to_single(bits: u16) -> f32 {
    // Moves exponent and mantissa to their places in single precision, then corrects the exponent
    // bias by a factor of 2^112. Infinities and NaN keep the highest exponent.
    let magnitude = f32::from_bits(((bits & 0x7fff) as u32) << 13) * f32::from_bits(0x7780_0000);
    let highest = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(magnitude.to_bits() | highest | ((bits & 0x8000) as u32) << 16)
}

/// `rows` items of `locals` vectors of `dim` numbers each. `locals` is 1 for one vector per item
/// and, say, 36 for region features. Several files in a row (shards) read as one matrix.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The first row within the parts.
    start: usize,
    rows: usize,
    locals: usize,
    dim: usize,
    dtype: Dtype,
    parts: Vec<Part>,
    /// The selected rows, if this is a selection.
    chosen: Option<RowSelection>,
}

/// A selection of rows, in any order.
#[derive(Clone, Debug)]
struct RowSelection {
    places: Arc<[u32]>,
    /// Rows per selected place: 1, or the local vectors of a flattened item.
    each: usize,
}

impl RowSelection {
    fn place(&self, row: usize) -> usize {
        match self.each {
            1 => self.places[row] as usize,
            each => self.places[row / each] as usize * each + row % each,
        }
    }
}

#[derive(Clone, Debug)]
struct Part {
    first: usize,
    bytes: Bytes,
}

impl Matrix {
    /// A matrix over raw bytes. The caller has checked that they hold exactly `rows * locals * dim`
    /// numbers.
    pub fn over(bytes: Bytes, rows: usize, locals: usize, dim: usize, dtype: Dtype) -> Self {
        assert_eq!(bytes.as_slice().len(), rows * locals * dim * dtype.size());
        let parts = vec![Part { first: 0, bytes }];
        Matrix { start: 0, rows, locals, dim, dtype, parts, chosen: None }
    }

    /// One vector per row, from memory.
    ///
    /// # Panics
    /// If `values` does not divide into rows of `dim`.
    pub fn from_f32(dim: usize, values: &[f32]) -> Self {
        Self::from_vec(dim, values.to_vec())
    }

    /// One vector per row, from memory.
    ///
    /// # Panics
    /// If `values` does not divide into rows of `dim`.
    pub fn from_f64(dim: usize, values: &[f64]) -> Self {
        Self::from_vec(dim, values.to_vec())
    }

    /// One vector per row, over numbers in memory, without a copy.
    ///
    /// # Panics
    /// If `values` does not divide into rows of `dim`.
    pub fn from_vec<E: Element>(dim: usize, values: Vec<E>) -> Self {
        let count = values.len();
        assert!(dim > 0 && count.is_multiple_of(dim), "{count} values in rows of {dim}");
        Self::over(Bytes::held(Arc::new(Numbers(values))), count / dim, 1, dim, E::DTYPE)
    }

    /// Items of `locals` vectors of `dim` numbers, over memory that `holder` keeps, without a copy:
    /// an array of another language, say. The numbers are little-endian, row by row. They must not
    /// change while this matrix or anything made from it lives.
    ///
    /// # Errors
    /// If the bytes are not `rows * locals * dim` numbers.
    pub fn lent(
        holder: Holder,
        rows: usize,
        locals: usize,
        dim: usize,
        dtype: Dtype,
    ) -> Result<Self, Error> {
        let found = (*holder).as_ref().len();
        let needed =
            [locals, dim, dtype.size()].iter().try_fold(rows, |all, &n| all.checked_mul(n));
        if needed != Some(found) || locals == 0 || dim == 0 {
            let what =
                format!("{found} bytes are not {rows} x {locals} x {dim} numbers of {dtype:?}");
            return Err(Error::Argument { name: "matrix", what });
        }
        Ok(Self::over(Bytes::held(holder), rows, locals, dim, dtype))
    }

    /// The same numbers, read as items of `locals` vectors each.
    ///
    /// # Panics
    /// If the rows do not divide into items of `locals` vectors, or do not lie in one piece.
    pub fn with_locals(self, locals: usize) -> Self {
        assert!(self.parts.len() == 1 && self.chosen.is_none(), "one piece");
        assert!(self.locals == 1 && self.rows.is_multiple_of(locals));
        Matrix { rows: self.rows / locals, locals, ..self }
    }

    /// Concatenates the rows of `parts`; `None` unless they agree in shape and type.
    pub fn concatenate(parts: Vec<Matrix>) -> Option<Matrix> {
        let first = parts.first()?;
        let (locals, dim, dtype) = (first.locals, first.dim, first.dtype);
        let (parts_of, chosen) = (Vec::new(), None);
        let mut whole = Matrix { start: 0, rows: 0, locals, dim, dtype, parts: parts_of, chosen };
        for part in parts {
            assert!(part.start == 0 && part.chosen.is_none(), "whole files are put together");
            if (part.locals, part.dim, part.dtype) != (locals, dim, dtype) {
                return None;
            }
            for piece in part.parts {
                whole.parts.push(Part { first: whole.rows + piece.first, bytes: piece.bytes });
            }
            whole.rows += part.rows;
        }
        Some(whole)
    }

    /// The local vectors of all items, each as a row of its own.
    pub fn flattened(&self) -> Matrix {
        let part = |p: &Part| Part { first: p.first * self.locals, bytes: p.bytes.clone() };
        let chosen = |c: &RowSelection| RowSelection {
            each: c.each * self.locals,
            places: c.places.clone(),
        };
        Matrix {
            start: self.start * self.locals,
            rows: self.rows * self.locals,
            locals: 1,
            parts: self.parts.iter().map(part).collect(),
            chosen: self.chosen.as_ref().map(chosen),
            ..*self
        }
    }

    /// Selects rows in any order, without copying their numbers.
    ///
    /// # Panics
    /// If a row does not exist or is beyond 2^32.
    pub fn view(&self, rows: impl IntoIterator<Item = usize>) -> Matrix {
        let place = |row: usize| {
            assert!(row < self.rows, "row {row} of {}", self.rows);
            u32::try_from(self.place(row)).expect("views are of at most 2^32 rows")
        };
        let places: Arc<[u32]> = rows.into_iter().map(place).collect();
        let (rows, chosen) = (places.len(), Some(RowSelection { places, each: 1 }));
        Matrix { start: 0, rows, chosen, ..self.clone() }
    }

    /// Appends the rows of `other` to these, without a copy; `None` unless they agree in shape and
    /// type.
    ///
    /// # Panics
    /// If the underlying files have more than 2^32 rows.
    pub fn followed_by(&self, other: &Matrix) -> Option<Matrix> {
        let shape = |m: &Matrix| (m.locals, m.dim, m.dtype);
        if shape(self) != shape(other) {
            return None;
        }
        let stride = (self.locals * self.dim * self.dtype.size()).max(1);
        let behind = |p: &Part| p.first + p.bytes.as_slice().len() / stride;
        let extent = self.parts.last().map_or(0, behind);
        let moved = |p: &Part| Part { first: extent + p.first, bytes: p.bytes.clone() };
        let parts = self.parts.iter().cloned().chain(other.parts.iter().map(moved)).collect();
        let own = (0..self.rows).map(|row| self.place(row));
        let places = own.chain((0..other.rows).map(|row| extent + other.place(row)));
        let place = |place| u32::try_from(place).expect("views are of at most 2^32 rows");
        let places: Arc<[u32]> = places.map(place).collect();
        let (rows, chosen) = (places.len(), Some(RowSelection { places, each: 1 }));
        Some(Matrix { start: 0, rows, parts, chosen, ..*self })
    }

    /// The position of a row within the parts.
    #[inline]
    fn place(&self, row: usize) -> usize {
        let row = self.start + row;
        self.chosen.as_ref().map_or(row, |chosen| chosen.place(row))
    }

    /// Selects consecutive rows, without a copy.
    ///
    /// # Panics
    /// If a row does not exist.
    pub fn slice(&self, rows: std::ops::Range<usize>) -> Matrix {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "{rows:?} of {}", self.rows);
        Matrix { start: self.start + rows.start, rows: rows.len(), ..self.clone() }
    }

    /// Tells the system that these rows are read soon, so that it can read their file meanwhile. Rows of
    /// a [selection](Self::view), and rows in memory, are left alone.
    pub fn will_need(&self, rows: Range<usize>) {
        self.advise(rows, Bytes::will_need);
    }

    /// Tells the system that these rows are not read soon, so that its pages of their file do not count
    /// as memory of this process. They can still be read.
    pub fn done_with(&self, rows: Range<usize>) {
        self.advise(rows, Bytes::done_with);
    }

    fn advise(&self, rows: Range<usize>, advise: impl Fn(&Bytes, Range<usize>)) {
        if self.chosen.is_some() {
            return;
        }
        let stride = self.locals * self.dim * self.dtype.size();
        let (start, end) = (self.start + rows.start, self.start + rows.end.min(self.rows));
        for part in &self.parts {
            let length = part.bytes.as_slice().len();
            let at = |row: usize| (row.saturating_sub(part.first) * stride).min(length);
            if at(start) < at(end) {
                advise(&part.bytes, at(start)..at(end));
            }
        }
    }

    /// Copies rows into memory.
    pub fn gather(&self, rows: &[u32]) -> Matrix {
        let bytes: Vec<u8> =
            rows.iter().flat_map(|&row| self.row_bytes(row as usize)).copied().collect();
        Self::over(bytes.into(), rows.len(), self.locals, self.dim, self.dtype)
    }

    /// Returns an error if a mapped file has changed since it was opened. Call this after reading
    /// rows and before using the results.
    pub fn check_unchanged(&self) -> Result<(), Error> {
        self.parts.iter().try_for_each(|part| part.bytes.check_unchanged())
    }

    /// Number of items.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of vectors per item.
    pub fn locals(&self) -> usize {
        self.locals
    }

    /// Dimensions of a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Storage type of the numbers.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The stored bytes of item `row`.
    #[inline]
    pub fn row_bytes(&self, row: usize) -> &[u8] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let row = self.place(row);
        let part = match self.parts.as_slice() {
            [only] => only,
            many => &many[many.partition_point(|p| p.first <= row) - 1],
        };
        let stride = self.locals * self.dim * self.dtype.size();
        &part.bytes.as_slice()[(row - part.first) * stride..][..stride]
    }

    /// Reads item `row` as doubles, exactly. `out` holds `locals * dim` numbers.
    pub fn read_f64(&self, row: usize, out: &mut [f64]) {
        let bytes = self.row_bytes(row);
        match self.dtype {
            Dtype::F16 => decode::<f16>(bytes, out),
            Dtype::Bf16 => decode::<bf16>(bytes, out),
            Dtype::F32 => decode::<f32>(bytes, out),
            Dtype::F64 => decode::<f64>(bytes, out),
        }
    }

    /// Reads item `row` in single precision; doubles are rounded. `out` holds `locals * dim`
    /// numbers.
    pub fn read_f32(&self, row: usize, out: &mut [f32]) {
        let bytes = self.row_bytes(row);
        match self.dtype {
            Dtype::F16 => {
                for (value, bytes) in out.iter_mut().zip(bytes.chunks_exact(2)) {
                    *value = half_to_single(u16::from_le_bytes(first(bytes)));
                }
            }
            Dtype::Bf16 => {
                for (value, bytes) in out.iter_mut().zip(bytes.chunks_exact(2)) {
                    *value = f32::from_bits(u32::from(u16::from_le_bytes(first(bytes))) << 16);
                }
            }
            Dtype::F32 => {
                for (value, bytes) in out.iter_mut().zip(bytes.chunks_exact(4)) {
                    *value = f32::from_le_bytes(first(bytes));
                }
            }
            Dtype::F64 => {
                for (value, bytes) in out.iter_mut().zip(bytes.chunks_exact(8)) {
                    *value = f64::decode(bytes) as f32;
                }
            }
        }
    }
}

fn decode<E: Element>(bytes: &[u8], out: &mut [f64]) {
    for (value, bytes) in out.iter_mut().zip(bytes.chunks_exact(E::SIZE)) {
        *value = E::decode(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_reads_back() {
        let values = [1.5, -2.0, 0.25, 4.0, 0.0, -0.5];
        let single = values.map(|v| v as f32);
        let half = values.map(f16::from_f64);
        let brain = Matrix::from_vec(2, values.map(bf16::from_f64).to_vec());
        for matrix in [
            Matrix::from_f64(2, &values),
            Matrix::from_f32(2, &single),
            Matrix::from_vec(2, half.to_vec()),
            brain,
        ] {
            let mut row = [0.0; 2];
            for (r, expected) in values.chunks(2).enumerate() {
                matrix.read_f64(r, &mut row);
                assert_eq!(row, expected);
                let mut single = [0.0; 2];
                matrix.read_f32(r, &mut single);
                assert_eq!(single.map(f64::from), expected);
            }
        }
    }

    #[test]
    fn every_half_precision_number_is_decoded() {
        for bits in 0..=u16::MAX {
            let (found, expected) = (half_to_single(bits), f16::from_bits(bits).to_f32());
            let both_nan = found.is_nan() && expected.is_nan();
            assert!(found.to_bits() == expected.to_bits() || both_nan, "{bits:#x}");
        }
    }

    #[test]
    fn shards_read_as_one() {
        let a = Matrix::from_f32(2, &[0.0, 1.0, 2.0, 3.0]);
        let b = Matrix::from_f32(2, &[4.0, 5.0]);
        let whole = Matrix::concatenate(vec![a, b.clone(), b]).unwrap();
        assert_eq!(whole.rows(), 4);
        let mut row = [0.0; 2];
        whole.read_f64(1, &mut row);
        assert_eq!(row, [2.0, 3.0]);
        whole.read_f64(3, &mut row);
        assert_eq!(row, [4.0, 5.0]);
        let part = whole.slice(1..4).slice(1..3);
        part.read_f64(1, &mut row);
        assert_eq!((part.rows(), row), (2, [4.0, 5.0]));
        let other = Matrix::from_f32(1, &[1.0]);
        assert!(Matrix::concatenate(vec![whole, other]).is_none());
    }

    #[test]
    fn views_are_rows_in_any_order() {
        let a = Matrix::from_f32(1, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).with_locals(2);
        let b = Matrix::from_f32(1, &[6.0, 7.0]).with_locals(2);
        let whole = Matrix::concatenate(vec![a, b]).unwrap();
        let values = |matrix: &Matrix| -> Vec<f64> {
            let row = |row| {
                let mut values = vec![0.0; matrix.locals() * matrix.dim()];
                matrix.read_f64(row, &mut values);
                values
            };
            (0..matrix.rows()).flat_map(row).collect()
        };
        let view = whole.view([3, 0, 0, 2]);
        let expected = [6.0, 7.0, 0.0, 1.0, 0.0, 1.0, 4.0, 5.0];
        assert_eq!((view.rows(), view.locals()), (4, 2));
        assert_eq!(values(&view), expected);
        assert_eq!(values(&view.flattened()), expected);
        assert_eq!(values(&view.flattened().slice(1..4)), expected[1..4]);
        assert_eq!(values(&view.slice(1..4)), expected[2..]);
        assert_eq!(values(&view.slice(2..4).flattened()), expected[4..]);
        assert_eq!(values(&view.slice(1..4).view([2, 0])), [4.0, 5.0, 0.0, 1.0]);
        let of_slice = whole.slice(1..4).view([2, 0]);
        assert_eq!(values(&of_slice), [6.0, 7.0, 2.0, 3.0]);
        assert_eq!(values(&view.flattened().view([7, 0]).flattened()), [5.0, 6.0]);
        assert_eq!(values(&view.gather(&[3, 1])), [4.0, 5.0, 0.0, 1.0]);
        assert_eq!(whole.view([]).rows(), 0);
        for (part, original) in [(&view, 0), (&of_slice, 0)] {
            let place = part.row_bytes(original).as_ptr();
            assert_eq!(place, whole.row_bytes(3).as_ptr(), "no number is copied");
        }
    }

    #[test]
    fn one_matrix_follows_another() {
        let a = Matrix::from_f32(1, &[0.0, 1.0, 2.0]);
        let b = Matrix::from_f32(1, &[3.0, 4.0]);
        let both = Matrix::concatenate(vec![a.clone(), b.clone()]).unwrap();
        let all = both.slice(1..5).followed_by(&both.view([4, 0]).slice(0..1)).unwrap();
        let all = all.followed_by(&Matrix::from_f32(1, &[])).unwrap().followed_by(&b).unwrap();
        let read = |row| {
            let mut value = [0.0];
            all.read_f64(row, &mut value);
            value[0]
        };
        assert_eq!(
            (0..all.rows()).map(read).collect::<Vec<_>>(),
            [1.0, 2.0, 3.0, 4.0, 4.0, 3.0, 4.0]
        );
        assert!(a.followed_by(&Matrix::from_f64(1, &[1.0])).is_none());
        assert!(a.followed_by(&Matrix::from_f32(2, &[1.0, 2.0])).is_none());
    }

    #[test]
    fn lent_memory_is_read_where_it_lies() {
        let held: Arc<Vec<u8>> =
            Arc::new([1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|v| v.to_le_bytes()).collect());
        let matrix = Matrix::lent(held.clone(), 2, 1, 2, Dtype::F32).unwrap();
        assert_eq!(matrix.row_bytes(1).as_ptr(), held[8..].as_ptr(), "no number is copied");
        let numbers = vec![1.0f64, 2.0];
        let place = numbers.as_ptr().cast::<u8>();
        assert_eq!(Matrix::from_vec(1, numbers).row_bytes(0).as_ptr(), place);
        for (rows, locals, dim) in [(3, 1, 2), (2, 0, 2), (usize::MAX, 2, 2)] {
            let refused = Matrix::lent(held.clone(), rows, locals, dim, Dtype::F32);
            assert!(refused.unwrap_err().to_string().contains("16 bytes are not"));
        }
    }

    #[test]
    #[should_panic(expected = "row 3 of 3")]
    fn a_view_of_a_row_that_is_not_there_is_refused() {
        Matrix::from_f32(1, &[0.0, 1.0, 2.0]).view([0, 3]);
    }
}
