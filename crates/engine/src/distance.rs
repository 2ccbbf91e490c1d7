//! Euclidean distance as a similarity: the search behind thresholds also finds nearest centres.

use std::sync::Arc;

use nextpair_core::Matrix;
use rayon::prelude::*;

use crate::device::{Device, Farthest, Residence};
use crate::screen::{Planner, Route, Scale, Source};
use crate::similarity::{Sieve, Similarity};
use crate::{Error, Vectors};

/// Minus the squared distance between rows (centres) and columns (items).
///
/// Canonically minus the float64 sum of squared differences in ascending dimension. The search uses
/// `-|x - c|² = 2 (x·c - |c|²/2) - |x|²`: an inner product with a bias per row, on vectors shifted
/// by their mean to keep the bias small.
pub(crate) struct NegativeDistance {
    rows: ShiftedVectors,
    columns: ShiftedVectors,
    /// Upper bound on every distance.
    reach: f64,
    planner: Planner,
}

/// Vectors shifted by a common mean.
struct ShiftedVectors {
    vectors: Vectors,
    shift: Vec<f64>,
    squares: Vec<f64>,
    residence: Arc<Residence>,
}

impl ShiftedVectors {
    fn new(vectors: &Vectors, shift: &[f64]) -> Self {
        let mut squares = vec![0.0; vectors.len()];
        squares.par_chunks_mut(64).enumerate().for_each(|(chunk, squares)| {
            let mut x = vec![0.0; shift.len()];
            for (i, square) in squares.iter_mut().enumerate() {
                vectors.matrix().read_f64(chunk * 64 + i, &mut x);
                *square = x.iter().zip(shift).map(|(x, m)| (x - m) * (x - m)).sum();
            }
        });
        let residence = Residence::new(vectors.device());
        ShiftedVectors { vectors: vectors.clone(), shift: shift.to_vec(), squares, residence }
    }

    fn longest(&self) -> f64 {
        self.squares.iter().fold(0.0, |m: f64, &s| m.max(s)).sqrt()
    }
}

impl Source for ShiftedVectors {
    fn dim(&self) -> usize {
        self.shift.len()
    }

    fn norm(&self, item: u32) -> f64 {
        self.squares[item as usize].sqrt()
    }

    fn bias(&self, item: u32) -> f64 {
        -self.squares[item as usize] / 2.0
    }

    fn read(&self, item: u32, factor: f64, out: &mut [f32]) {
        let mut x = vec![0.0; self.shift.len()];
        self.vectors.matrix().read_f64(item as usize, &mut x);
        for ((out, x), shift) in out.iter_mut().zip(&x).zip(&self.shift) {
            *out = ((x - shift) * factor) as f32;
        }
    }

    fn matrix(&self) -> &Matrix {
        self.vectors.matrix()
    }

    fn shift(&self) -> Option<&[f64]> {
        Some(&self.shift)
    }

    fn residence(&self) -> &Residence {
        &self.residence
    }
}

impl NegativeDistance {
    /// Rows (centres) and columns (items) of the same dimension.
    pub(crate) fn new(rows: &Vectors, columns: &Vectors) -> Self {
        let shift = mean_of(rows, columns);
        let (rows, columns) =
            (ShiftedVectors::new(rows, &shift), ShiftedVectors::new(columns, &shift));
        let reach = rows.longest() + columns.longest();
        NegativeDistance { rows, columns, reach, planner: Planner::new(Route::Auto) }
    }

    /// Looks for the columns that are farthest on a GPU, if `budget` of them are worth it there;
    /// `squares` has their distances to their nearest rows.
    pub(crate) fn farthest(
        &self,
        squares: &[f64],
        budget: usize,
    ) -> Result<Option<Farthest<'_>>, Error> {
        match Device::for_search(&self.columns, &self.columns, (squares.len(), budget)) {
            Some(card) => Farthest::new(card, &self.columns, squares),
            None => Ok(None),
        }
    }

    /// The same distances, searched on another route.
    #[cfg(test)]
    pub(crate) fn with_route(self, route: Route) -> Self {
        NegativeDistance { planner: Planner::new(route), ..self }
    }
}

/// The mean of a sample of both sides.
fn mean_of(a: &Vectors, b: &Vectors) -> Vec<f64> {
    const SAMPLE: usize = 1024;
    let mut mean = vec![0.0; a.dim()];
    let mut x = vec![0.0; a.dim()];
    let mut count = 0.0f64;
    for vectors in [a, b] {
        for item in (0..vectors.len()).step_by(vectors.len().div_ceil(SAMPLE).max(1)) {
            vectors.matrix().read_f64(item, &mut x);
            mean.iter_mut().zip(&x).for_each(|(m, x)| *m += x);
            count += 1.0;
        }
    }
    mean.iter_mut().for_each(|m| *m /= count.max(1.0));
    mean
}

impl Similarity for NegativeDistance {
    fn rows(&self) -> usize {
        self.rows.vectors.len()
    }

    fn columns(&self) -> usize {
        self.columns.vectors.len()
    }

    fn tile(&self, rows: &[u32], columns: &[u32], out: &mut [f32]) -> Result<(), Error> {
        for (out, &row) in out.chunks_exact_mut(columns.len()).zip(rows) {
            let mut values = vec![0.0; columns.len()];
            self.exact(row, columns, &mut values)?;
            out.iter_mut().zip(values).for_each(|(out, value)| *out = value as f32);
        }
        Ok(())
    }

    fn tile_error(&self, _: &[u32], _: &[u32]) -> f64 {
        4.0 * self.reach * self.reach * f32::EPSILON as f64 + f32::MIN_POSITIVE as f64
    }

    fn exact(&self, row: u32, columns: &[u32], out: &mut [f64]) -> Result<(), Error> {
        let mut x = vec![0.0; self.rows.vectors.dim()];
        self.rows.vectors.matrix().read_f64(row as usize, &mut x);
        self.columns.vectors.squared_distances(&x, columns, out);
        out.iter_mut().for_each(|square| *square = -*square);
        Ok(())
    }

    fn sieve<'a>(
        &'a self,
        columns: &'a [u32],
        expected: Option<&[f64]>,
    ) -> Result<Box<dyn Sieve + 'a>, Error> {
        let cuts = expected.map(|cuts| self.product_cuts(columns, cuts));
        let rows = (&self.rows as &dyn Source, self.rows.vectors.len());
        let (planner, scale) = (&self.planner, Scale::Vectors);
        let products = planner.sieve(rows, &self.columns, columns, scale, cuts.as_deref())?;
        Ok(Box::new(ShiftedSieve { similarity: self, columns, products }))
    }
}

impl NegativeDistance {
    /// Turns cuts on distances into cuts on biased products, lowered by the float64 rounding error
    /// of both.
    fn product_cuts(&self, columns: &[u32], cuts: &[f64]) -> Vec<f64> {
        let rounding = 16.0 * (self.rows.shift.len() + 8) as f64 * f64::EPSILON;
        let lower = |(&column, &cut): (&u32, &f64)| {
            let square = self.columns.squares[column as usize];
            let margin = rounding * (cut.abs().min(f64::MAX) + self.reach * self.reach);
            if cut == f64::NEG_INFINITY { cut } else { (cut + square) / 2.0 - margin }
        };
        columns.iter().zip(cuts).map(lower).collect()
    }
}

struct ShiftedSieve<'a> {
    similarity: &'a NegativeDistance,
    columns: &'a [u32],
    products: Box<dyn Sieve + 'a>,
}

impl Sieve for ShiftedSieve<'_> {
    fn above(&self, rows: &[u32], cuts: &[f64]) -> Result<Vec<(u32, u32)>, Error> {
        self.products.above(rows, &self.similarity.product_cuts(self.columns, cuts))
    }

    fn rows_at_once(&self) -> usize {
        self.products.rows_at_once()
    }
}

#[cfg(test)]
mod tests {
    use nextpair_core::Matrix;

    use super::*;
    use crate::top::{Field, kth_largest};
    use crate::{Code, Draws, reference};

    #[test]
    fn nearest_centres_are_found_on_every_route() {
        let (centres, items, dim) = (700, 900, 33);
        let mut draws = Draws::new(9);
        // Far from the origin, on a coarse grid: large norms, small distances, many ties.
        let mut values = |count: usize| -> Vec<f64> {
            (0..count * dim).map(|_| 100.0 + (draws.normal() * 2.0).round()).collect()
        };
        let (rows, columns) = (values(centres), values(items));
        let (a, b) = (Matrix::from_f64(dim, &rows), Matrix::from_f64(dim, &columns));
        let (a, b) = (Vectors::new(a, "rows").unwrap(), Vectors::new(b, "columns").unwrap());
        let all: Vec<u32> = (0..centres as u32).collect();
        let every: Vec<u32> = (0..items as u32).collect();
        let field = Field { rows: &all, group_of_row: &|row| row, barred: &|_| None };
        for route in [
            Route::Auto,
            Route::Fixed { axes: None, code: Code::Float },
            Route::Fixed { axes: None, code: Code::Int8 },
            Route::Fixed { axes: Some(8), code: Code::Float },
            Route::Fixed { axes: Some(8), code: Code::Int8 },
        ] {
            let distance = NegativeDistance::new(&a, &b).with_route(route);
            let found = kth_largest(&distance, &field, &every, 1, &()).unwrap();
            for (item, entry) in columns.chunks(dim).zip(found) {
                let squares =
                    rows.chunks(dim).map(|c| reference::squared_distance(c, item)).enumerate();
                let (row, square) =
                    squares.min_by(|x, y| x.1.total_cmp(&y.1).then(x.0.cmp(&y.0))).unwrap();
                let entry = entry.unwrap();
                assert_eq!((entry.row as usize, -entry.value), (row, square), "{route:?}");
            }
        }
    }
}
