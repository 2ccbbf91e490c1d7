//! One checked vector per item, and canonical products.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use half::{bf16, f16};
use nextpair_core::{Dtype, Element, Matrix};
use rayon::prelude::*;

use crate::device::Residence;
use crate::duplicates::stored_print;
use crate::halves;
use crate::{Device, Error};

/// The vectors of a matrix, all finite, with their norms. Clones share both.
#[derive(Clone)]
pub struct Vectors {
    matrix: Matrix,
    checked: Arc<CheckedNorms>,
    name: &'static str,
    /// The row that errors call the first.
    first: usize,
    residence: Arc<Residence>,
}

/// Norms and fingerprints, computed on first use. Two threads may check the same vector: both get the same.
struct CheckedNorms {
    norms: Box<[AtomicU64]>,
    /// Fingerprints that tell copies, if they are wanted.
    prints: Option<Box<[AtomicU64]>>,
    /// Whether every vector must have a direction.
    directed: AtomicBool,
    /// Whether every vector has been checked and is valid.
    complete: AtomicBool,
}

/// Products computed side by side. Each is a chain of dependent additions; four hide its latency.
const LANES: usize = 4;
/// Vectors that one thread checks together.
const TOGETHER: usize = 1024;

/// Norms are kept as their bits, inverted: zero stands for a norm that is not computed yet.
fn kept(norm: f64) -> u64 {
    !(if norm.is_nan() { f64::NAN } else { norm }).to_bits()
}

fn numbers(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

impl Vectors {
    /// Checks every number of `matrix`; errors call it `name`.
    pub fn new(matrix: Matrix, name: &'static str) -> Result<Self, Error> {
        let vectors = Self::unread(matrix, name, 0, false)?;
        vectors.check_all()?;
        Ok(vectors)
    }

    /// Checks the numbers of `matrix` when they are first used, so that a large file is read once, and
    /// keeps [fingerprints](Self::prints) of them if copies are to be found. Errors call its first row `first`. Callers
    /// [check](Self::check_rows) vectors before they use them, and [the rest](Self::check_all) at the end.
    pub(crate) fn unread(
        matrix: Matrix,
        name: &'static str,
        first: usize,
        prints: bool,
    ) -> Result<Self, Error> {
        let (what, rows) = (name, matrix.rows());
        if matrix.locals() != 1 {
            return Err(Error::LocalVectors { what, locals: matrix.locals() });
        }
        if u32::try_from(rows).is_err() {
            return Err(Error::TooManyRows { what, rows });
        }
        let checked = CheckedNorms {
            norms: numbers(rows),
            prints: prints.then(|| numbers(rows)),
            directed: AtomicBool::new(false),
            complete: AtomicBool::new(false),
        };
        Ok(Vectors { matrix, checked: Arc::new(checked), name, first, residence: Arc::default() })
    }

    /// Checks some vectors, unless that was done, and fails if one is invalid.
    pub(crate) fn check_rows(&self, items: &[u32]) -> Result<(), Error> {
        if self.checked.complete.load(Ordering::Acquire) {
            return Ok(());
        }
        self.see(items);
        match items.iter().any(|&item| self.is_wrong(item as usize)) {
            true => self.check_all(),
            false => Ok(()),
        }
    }

    /// Checks all vectors that are not checked yet, and fails with the first invalid one.
    pub(crate) fn check_all(&self) -> Result<(), Error> {
        if self.checked.complete.load(Ordering::Acquire) {
            return Ok(());
        }
        let items: Vec<u32> = (0..self.len() as u32).filter(|&item| !self.is_seen(item)).collect();
        items.par_chunks(TOGETHER).for_each(|items| self.see(items));
        let what = self.name;
        for row in (0..self.len()).filter(|&row| is_odd(self.norm(row))) {
            let mut values = vec![0.0; self.dim()];
            self.matrix.read_f64(row, &mut values);
            let (norm, row) = (self.norm(row), row + self.first);
            if let Some(dimension) = values.iter().position(|v| !v.is_finite()) {
                let value = values[dimension];
                return Err(Error::NotFinite { what, row, vector: None, dimension, value });
            }
            if values.iter().any(|&v| v != 0.0) {
                return Err(Error::NormOutOfRange { what, row, norm });
            }
        }
        if self.checked.directed.load(Ordering::Acquire) {
            self.check_directions()?;
        }
        self.checked.complete.store(true, Ordering::Release);
        Ok(())
    }

    /// The fingerprint of every vector, if they were wanted.
    ///
    /// # Errors
    /// If a vector that is not checked yet is invalid.
    pub(crate) fn prints(&self) -> Result<Option<impl Fn(usize) -> u64 + Sync + '_>, Error> {
        let Some(prints) = &self.checked.prints else { return Ok(None) };
        self.check_all()?;
        Ok(Some(|item: usize| prints[item].load(Ordering::Relaxed)))
    }

    fn is_seen(&self, item: u32) -> bool {
        self.checked.norms[item as usize].load(Ordering::Relaxed) != 0
    }

    fn is_wrong(&self, item: usize) -> bool {
        match self.norm(item) {
            // Zero, or so small that its squares are.
            0.0 => self.checked.directed.load(Ordering::Relaxed) || self.has_numbers(item),
            norm => is_odd(norm),
        }
    }

    fn has_numbers(&self, item: usize) -> bool {
        let mut values = vec![0.0; self.dim()];
        self.matrix.read_f64(item, &mut values);
        values.iter().any(|&value| value != 0.0)
    }

    /// Computes norms, and fingerprints if they are wanted.
    fn see(&self, items: &[u32]) {
        for items in items.chunks(LANES).filter(|items| !items.iter().all(|&i| self.is_seen(i))) {
            let last = items.len() - 1;
            let rows = std::array::from_fn(|l| self.matrix.row_bytes(items[l.min(last)] as usize));
            let squares: [f64; LANES] = match self.matrix.dtype() {
                Dtype::F16 => half_squares(rows),
                Dtype::Bf16 => squares::<bf16>(rows),
                Dtype::F32 => squares::<f32>(rows),
                Dtype::F64 => squares::<f64>(rows),
            };
            for (&item, square) in items.iter().zip(squares) {
                let item = item as usize;
                if let Some(prints) = &self.checked.prints {
                    prints[item].store(stored_print(&self.matrix, item), Ordering::Relaxed);
                }
                // Last: a stored norm says that the vector is checked.
                self.checked.norms[item].store(kept(square.sqrt()), Ordering::Release);
            }
        }
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

    /// Fails if a vector is zero, which cosine similarity cannot divide by. Vectors that are not checked yet fail when they
    /// are checked.
    pub fn require_directions(&self) -> Result<(), Error> {
        self.checked.directed.store(true, Ordering::Release);
        match self.checked.complete.load(Ordering::Acquire) {
            true => self.check_directions(),
            false => Ok(()),
        }
    }

    fn check_directions(&self) -> Result<(), Error> {
        match (0..self.len()).position(|item| self.norm(item) == 0.0) {
            Some(row) => Err(Error::ZeroVector { what: self.name, row: row + self.first }),
            None => Ok(()),
        }
    }

    /// Number of vectors.
    pub fn len(&self) -> usize {
        self.checked.norms.len()
    }

    /// Whether there are no vectors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
    #[inline]
    pub fn norm(&self, item: usize) -> f64 {
        match self.checked.norms[item].load(Ordering::Acquire) {
            0 => self.norm_now(item),
            kept => f64::from_bits(!kept),
        }
    }

    /// The norm of a vector that is not checked yet.
    #[cold]
    fn norm_now(&self, item: usize) -> f64 {
        self.see(&[item as u32]);
        f64::from_bits(!self.checked.norms[item].load(Ordering::Acquire))
    }

    /// The largest norm.
    pub fn longest(&self) -> f64 {
        (0..self.len()).map(|item| self.norm(item)).fold(0.0, f64::max)
    }

    /// The canonical dot products of `x` with the vectors of `items`: float64, ascending dimension.
    pub fn dots(&self, x: &[f64], items: &[u32], out: &mut [f64]) {
        self.folds(x, items, out, |x, y| x * y);
    }

    /// The same for an `x` of this norm whose numbers half precision holds.
    pub(crate) fn dots_of_half(&self, x: &[f64], norm: f64, items: &[u32], out: &mut [f64]) {
        let exact = |&item: &u32| norm * self.norm(item as usize) < 0.99 * halves::EXACT;
        if self.matrix.dtype() != Dtype::F16 || !items.iter().all(exact) {
            return self.dots(x, items, out);
        }
        for (out, &item) in out.iter_mut().zip(items) {
            *out = halves::dot(x, self.matrix.row_bytes(item as usize));
        }
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

/// Whether the squares of numbers lose digits, and bounds with them; so does zero, which may be meant.
fn is_odd(norm: f64) -> bool {
    !(1e-145..1e150).contains(&norm)
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

/// The sums of squares of numbers in half precision, which are small for most embeddings.
fn half_squares(rows: [&[u8]; LANES]) -> [f64; LANES] {
    let sums = rows.map(halves::squares);
    if sums.iter().all(|&sum| sum < halves::EXACT) { sums } else { squares::<f16>(rows) }
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
