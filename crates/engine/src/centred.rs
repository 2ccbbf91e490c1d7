//! Cosines of feature vectors less a common mean.
//!
//! Features of a network share a large part that says nothing about an item. Without it, cosines
//! spread over their whole range.

use std::sync::Arc;

use nextpair_core::Matrix;
use rayon::prelude::*;

use crate::device::{Device, Residence};
use crate::packed::Packed;
use crate::product::product;
use crate::screen::{Planner, Route, Scale, Source, gamma};
use crate::similarity::{Sieve, Similarity};
use crate::{Error, Vectors};

/// Vectors less a common mean, with the norms of the differences.
pub(crate) struct Centred {
    matrix: Matrix,
    mean: Arc<[f64]>,
    norms: Vec<f64>,
    residence: Arc<Residence>,
}

impl Centred {
    pub(crate) fn new(vectors: &Matrix, mean: &Arc<[f64]>, device: &Device) -> Self {
        let mut centred = Centred {
            matrix: vectors.clone(),
            mean: mean.clone(),
            norms: vec![0.0; vectors.rows()],
            residence: Residence::new(device),
        };
        let mut norms = std::mem::take(&mut centred.norms);
        norms.par_chunks_mut(64).enumerate().for_each(|(chunk, norms)| {
            let mut x = vec![0.0; mean.len()];
            for (at, norm) in norms.iter_mut().enumerate() {
                centred.difference(chunk * 64 + at, &mut x);
                *norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
            }
        });
        Centred { norms, ..centred }
    }

    pub(crate) fn len(&self) -> usize {
        self.norms.len()
    }

    /// The norm of a vector less the mean.
    pub(crate) fn length(&self, item: usize) -> f64 {
        self.norms[item]
    }

    /// A vector less the mean.
    pub(crate) fn difference(&self, item: usize, out: &mut [f64]) {
        self.matrix.read_f64(item, out);
        out.iter_mut().zip(&*self.mean).for_each(|(x, mean)| *x -= mean);
    }

    /// The differences of some vectors, one after the other.
    pub(crate) fn differences(&self, items: &[u32]) -> Vec<f64> {
        let dim = self.mean.len();
        let mut values = vec![0.0; items.len() * dim];
        for (&item, out) in items.iter().zip(values.chunks_exact_mut(dim)) {
            self.difference(item as usize, out);
        }
        values
    }

    /// The directions of some vectors in single precision, one after the other.
    pub(crate) fn directions(&self, items: &[u32]) -> Vec<f32> {
        let dim = self.mean.len();
        let mut values = vec![0.0; items.len() * dim];
        for (&item, out) in items.iter().zip(values.chunks_exact_mut(dim)) {
            self.read_over(item, self.norm(item), out);
        }
        values
    }

    /// Packs some vectors, for canonical products with others.
    pub(crate) fn packed(&self, items: &[u32]) -> Packed {
        Packed::new(self.mean.len(), items.len(), |at, out| {
            self.difference(items[at] as usize, out);
        })
    }
}

impl Source for Centred {
    fn dim(&self) -> usize {
        self.mean.len()
    }

    fn norm(&self, item: u32) -> f64 {
        self.norms[item as usize]
    }

    fn read(&self, item: u32, factor: f64, out: &mut [f32]) {
        let mut x = vec![0.0; self.mean.len()];
        self.difference(item as usize, &mut x);
        out.iter_mut().zip(&x).for_each(|(out, x)| *out = (x * factor) as f32);
    }

    fn matrix(&self) -> &Matrix {
        &self.matrix
    }

    fn shift(&self) -> Option<&[f64]> {
        Some(&self.mean)
    }

    fn residence(&self) -> &Residence {
        &self.residence
    }
}

/// The mean of some vectors: float64, in the order of `items`.
pub(crate) fn mean_of(vectors: &[(&Vectors, &[u32])], dim: usize) -> Arc<[f64]> {
    let mut mean = vec![0.0; dim];
    let mut x = vec![0.0; dim];
    let mut count = 0usize;
    for (vectors, items) in vectors {
        for &item in *items {
            vectors.matrix().read_f64(item as usize, &mut x);
            mean.iter_mut().zip(&x).for_each(|(mean, x)| *mean += x);
        }
        count += items.len();
    }
    mean.iter_mut().for_each(|mean| *mean /= count.max(1) as f64);
    mean.into()
}

/// A canonical cosine from a canonical product: 0 if a vector is the mean itself and has no
/// direction.
pub(crate) fn cosine(product: f64, row: f64, column: f64) -> f64 {
    let lengths = row * column;
    if lengths > 0.0 { product / lengths } else { 0.0 }
}

/// The bound on the error of a single-precision product of directions.
pub(crate) fn direction_error(dim: usize) -> f64 {
    gamma(dim + 8) + f32::MIN_POSITIVE as f64
}

/// Cosines between rows and columns.
pub(crate) struct Cosines<'a> {
    rows: &'a Centred,
    columns: &'a Centred,
    planner: Planner,
}

impl<'a> Cosines<'a> {
    pub(crate) fn new(rows: &'a Centred, columns: &'a Centred) -> Self {
        Cosines { rows, columns, planner: Planner::new(Route::Auto) }
    }
}

impl Similarity for Cosines<'_> {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn columns(&self) -> usize {
        self.columns.len()
    }

    fn tile(&self, rows: &[u32], columns: &[u32], out: &mut [f32]) -> Result<(), Error> {
        let dim = self.rows.mean.len();
        let (x, y) = (self.rows.directions(rows), self.columns.directions(columns));
        product((rows.len(), dim, columns.len()), (&x, dim, 1), (&y, 1, dim), out);
        Ok(())
    }

    fn tile_error(&self, _: &[u32], _: &[u32]) -> f64 {
        direction_error(self.rows.mean.len())
    }

    fn exact(&self, row: u32, columns: &[u32], out: &mut [f64]) -> Result<(), Error> {
        let x = self.rows.differences(&[row]);
        let mut y = vec![0.0; x.len()];
        for (&column, out) in columns.iter().zip(out) {
            self.columns.difference(column as usize, &mut y);
            let product = x.iter().zip(&y).fold(0.0, |sum, (x, y)| sum + x * y);
            *out = cosine(product, self.rows.norm(row), self.columns.norm(column));
        }
        Ok(())
    }

    fn sieve<'b>(
        &'b self,
        columns: &'b [u32],
        expected: Option<&[f64]>,
    ) -> Result<Box<dyn Sieve + 'b>, Error> {
        let rows = (self.rows as &dyn Source, self.rows.len());
        let scale = Scale::Directions;
        self.planner.sieve(rows, self.columns, columns, scale, expected)
    }
}
