//! One checked vector per item, and canonical products.

use std::sync::Arc;

use half::{bf16, f16};
use nextpair_core::{Dtype, Element, Matrix};
use rayon::prelude::*;

use crate::device::Residence;
use crate::{Device, Error};

/// The vectors of a matrix, all finite, with their norms. Clones share both.
#[derive(Clone)]
pub struct Vectors {
    matrix: Matrix,
    norms: Arc<[f64]>,
    name: &'static str,
    residence: Arc<Residence>,
}

/// Products computed side by side. Each is a chain of dependent additions; four hide its latency.
const LANES: usize = 4;

impl Vectors {
    /// Checks every number of `matrix`; errors call it `name`.
    pub fn new(matrix: Matrix, name: &'static str) -> Result<Self, Error> {
        let what = name;
        if matrix.locals() != 1 {
            return Err(Error::LocalVectors { what, locals: matrix.locals() });
        }
        if u32::try_from(matrix.rows()).is_err() {
            return Err(Error::TooManyRows { what, rows: matrix.rows() });
        }
        let mut norms: Arc<[f64]> = std::iter::repeat_n(0.0, matrix.rows()).collect();
        Arc::make_mut(&mut norms).par_chunks_mut(LANES).enumerate().for_each(|(chunk, norms)| {
            let first = chunk * LANES;
            let last = first + norms.len() - 1;
            let rows = std::array::from_fn(|l| matrix.row_bytes((first + l).min(last)));
            let squares: [f64; LANES] = match matrix.dtype() {
                Dtype::F16 => squares::<f16>(rows),
                Dtype::Bf16 => squares::<bf16>(rows),
                Dtype::F32 => squares::<f32>(rows),
                Dtype::F64 => squares::<f64>(rows),
            };
            for (norm, square) in norms.iter_mut().zip(squares) {
                *norm = square.sqrt();
            }
        });
        // Squares of smaller or larger numbers lose digits, and the bounds with them.
        let suspect = |&(_, norm): &(usize, &f64)| !(norm.is_finite() && within(*norm));
        for (row, &norm) in norms.iter().enumerate().filter(suspect) {
            let mut values = vec![0.0; matrix.dim()];
            matrix.read_f64(row, &mut values);
            if let Some(dimension) = values.iter().position(|v| !v.is_finite()) {
                let value = values[dimension];
                return Err(Error::NotFinite { what, row, vector: None, dimension, value });
            }
            if values.iter().any(|&v| v != 0.0) {
                return Err(Error::NormOutOfRange { what, row, norm });
            }
        }
        Ok(Vectors { matrix, norms, name, residence: Arc::default() })
    }

    /// The same vectors, searched on a device. Where it is a GPU with room for them, they stay there for
    /// as long as these vectors and their clones live.
    pub fn on(self, device: &Device) -> Self {
        Vectors { residence: Residence::new(device), ..self }
    }

    /// Where they are searched.
    pub fn device(&self) -> &Device {
        self.residence.device()
    }

    pub(crate) fn residence(&self) -> &Residence {
        &self.residence
    }

    /// Fails if a vector is zero, which cosine similarity cannot divide by.
    pub fn require_directions(&self) -> Result<(), Error> {
        match self.norms.iter().position(|&n| n == 0.0) {
            Some(row) => Err(Error::ZeroVector { what: self.name, row }),
            None => Ok(()),
        }
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.norms.len()
    }

    /// Whether there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.norms.is_empty()
    }

    /// Dimensions of a vector.
    pub fn dim(&self) -> usize {
        self.matrix.dim()
    }

    /// The underlying matrix.
    pub fn matrix(&self) -> &Matrix {
        &self.matrix
    }

    /// Name of the vectors in errors.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The float64 norm of a vector.
    pub fn norm(&self, item: usize) -> f64 {
        self.norms[item]
    }

    /// The largest norm.
    pub fn longest(&self) -> f64 {
        self.norms.iter().copied().fold(0.0, f64::max)
    }

    /// The canonical dot products of `x` with the vectors of `items`: float64, ascending dimension.
    pub fn dots(&self, x: &[f64], items: &[u32], out: &mut [f64]) {
        self.folds(x, items, out, |x, y| x * y);
    }

    /// The canonical squared distances of `x` to the vectors of `items`: float64, ascending
    /// dimension.
    pub fn squared_distances(&self, x: &[f64], items: &[u32], out: &mut [f64]) {
        self.folds(x, items, out, |x, y| (x - y) * (x - y));
    }

    fn folds(&self, x: &[f64], items: &[u32], out: &mut [f64], term: impl Fn(f64, f64) -> f64) {
        for (out, items) in out.chunks_mut(LANES).zip(items.chunks(LANES)) {
            let last = items.len() - 1;
            let rows = std::array::from_fn(|l| self.matrix.row_bytes(items[l.min(last)] as usize));
            let sums: [f64; LANES] = match self.matrix.dtype() {
                Dtype::F16 => fold::<f16>(x, rows, &term),
                Dtype::Bf16 => fold::<bf16>(x, rows, &term),
                Dtype::F32 => fold::<f32>(x, rows, &term),
                Dtype::F64 => fold::<f64>(x, rows, &term),
            };
            out.copy_from_slice(&sums[..out.len()]);
        }
    }
}

/// Fails with the place of the first NaN or infinity in `matrix`, whose items may have several
/// vectors; errors call it `what`. For inputs that nothing else checks: [`Vectors::new`], and all
/// that computes with vectors, rejects such numbers itself.
pub fn require_finite(matrix: &Matrix, what: &'static str) -> Result<(), Error> {
    let width = matrix.locals() * matrix.dim();
    let bad = (0..matrix.rows()).into_par_iter().find_first(|&row| {
        let bytes = matrix.row_bytes(row);
        !match matrix.dtype() {
            Dtype::F16 => all_finite::<f16>(bytes),
            Dtype::Bf16 => all_finite::<bf16>(bytes),
            Dtype::F32 => all_finite::<f32>(bytes),
            Dtype::F64 => all_finite::<f64>(bytes),
        }
    });
    let Some(row) = bad else { return Ok(()) };
    let mut values = vec![0.0; width];
    matrix.read_f64(row, &mut values);
    match values.iter().position(|value| !value.is_finite()) {
        Some(at) => Err(Error::NotFinite {
            what,
            row,
            vector: (matrix.locals() > 1).then_some(at / matrix.dim()),
            dimension: at % matrix.dim(),
            value: values[at],
        }),
        None => Ok(()),
    }
}

fn within(norm: f64) -> bool {
    (1e-145..1e150).contains(&norm)
}

#[inline(always)]
fn fold<E: Element>(
    x: &[f64],
    rows: [&[u8]; LANES],
    term: impl Fn(f64, f64) -> f64,
) -> [f64; LANES] {
    let rows = rows.map(|row| &row[..x.len() * E::SIZE]);
    let mut sums = [0.0; LANES];
    for (k, &x) in x.iter().enumerate() {
        for (sum, row) in sums.iter_mut().zip(rows) {
            *sum += term(x, E::decode(&row[k * E::SIZE..]));
        }
    }
    sums
}

/// Without a branch within a row, so that the compiler vectorises it.
fn all_finite<E: Element>(bytes: &[u8]) -> bool {
    bytes.chunks_exact(E::SIZE).fold(true, |finite, bytes| finite & E::decode(bytes).is_finite())
}

#[inline(always)]
fn squares<E: Element>(rows: [&[u8]; LANES]) -> [f64; LANES] {
    let dim = rows[0].len() / E::SIZE;
    let mut sums = [0.0; LANES];
    for k in 0..dim {
        for (sum, row) in sums.iter_mut().zip(rows) {
            let value = E::decode(&row[k * E::SIZE..]);
            *sum += value * value;
        }
    }
    sums
}
