//! Similarity of embeddings: cosine or dot product.

use half::bf16;
use nextpair_core::{Dtype, Element, Matrix};

use crate::device::Residence;
use crate::halves;
use crate::packed::Packed;
use crate::product::product;
use crate::screen::{Planner, Route, Scale, Source, gamma};
use crate::similarity::{Sieve, Similarity};
use crate::{Error, Vectors};

/// How to compare two embeddings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metric {
    /// Cosine similarity.
    #[default]
    Cosine,
    /// Dot product.
    Dot,
}

/// The similarity of two sets of embeddings.
///
/// Canonically the float64 dot product in ascending dimension; for cosine, divided by the product
/// of the float64 norms.
pub struct Embeddings {
    rows: Vectors,
    columns: Vectors,
    metric: Metric,
    planner: Planner,
}

impl Embeddings {
    /// Compares rows with columns.
    ///
    /// # Errors
    /// If their dimensions differ, or a vector is zero under cosine.
    pub fn new(rows: Vectors, columns: Vectors, metric: Metric) -> Result<Self, Error> {
        if rows.dim() != columns.dim() {
            return Err(Error::DimensionMismatch {
                left: rows.name(),
                left_dim: rows.dim(),
                right: columns.name(),
                right_dim: columns.dim(),
            });
        }
        if metric == Metric::Cosine {
            rows.require_directions()?;
            columns.require_directions()?;
        }
        Ok(Embeddings { rows, columns, metric, planner: Planner::new(Route::Auto) })
    }

    /// The same similarities, searched on another route.
    pub fn with_route(self, route: Route) -> Self {
        Embeddings { planner: Planner::new(route), ..self }
    }
}

impl Similarity for Embeddings {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn columns(&self) -> usize {
        self.columns.len()
    }

    fn tile(&self, rows: &[u32], columns: &[u32], out: &mut [f32]) -> Result<(), Error> {
        self.rows.check_rows(rows)?;
        let dim = self.rows.dim();
        let unit = |source: &Vectors, items: &[u32]| {
            let mut units = vec![0.0; items.len() * dim];
            for (&item, unit) in items.iter().zip(units.chunks_exact_mut(dim)) {
                source.read_over(item, source.norm(item as usize), unit);
            }
            units
        };
        let (x, y) = (unit(&self.rows, rows), unit(&self.columns, columns));
        product((rows.len(), dim, columns.len()), (&x, dim, 1), (&y, 1, dim), out);
        if self.metric == Metric::Dot {
            for (values, &row) in out.chunks_exact_mut(columns.len()).zip(rows) {
                for (value, &column) in values.iter_mut().zip(columns) {
                    let scale = self.rows.norm(row as usize) * self.columns.norm(column as usize);
                    *value = (*value as f64 * scale) as f32;
                }
            }
        }
        Ok(())
    }

    fn tile_error(&self, rows: &[u32], columns: &[u32]) -> f64 {
        let largest = |source: &Vectors, items: &[u32]| {
            items.iter().map(|&i| source.norm(i as usize)).fold(0.0, f64::max)
        };
        let scale = match self.metric {
            Metric::Cosine => 1.0,
            Metric::Dot => largest(&self.rows, rows) * largest(&self.columns, columns),
        };
        // The product has `dim` terms; both operands and the result are rounded.
        gamma(self.rows.dim() + 8) * scale + f32::MIN_POSITIVE as f64
    }

    fn exact(&self, row: u32, columns: &[u32], out: &mut [f64]) -> Result<(), Error> {
        self.rows.check_rows(&[row])?;
        let mut x = vec![0.0; self.rows.dim()];
        self.rows.matrix().read_f64(row as usize, &mut x);
        match self.rows.matrix().dtype() {
            Dtype::F16 => {
                self.columns.dots_of_half(&x, self.rows.norm(row as usize), columns, out);
            }
            _ => self.columns.dots(&x, columns, out),
        }
        if self.metric == Metric::Cosine {
            for (out, &column) in out.iter_mut().zip(columns) {
                *out /= self.rows.norm(row as usize) * self.columns.norm(column as usize);
            }
        }
        Ok(())
    }

    fn exact_tile(&self, rows: &[u32], columns: &[u32], out: &mut [f64]) -> Result<(), Error> {
        self.rows.check_rows(rows)?;
        let dim = self.rows.dim();
        let mut own = vec![0.0; rows.len() * dim];
        for (&row, own) in rows.iter().zip(own.chunks_exact_mut(dim)) {
            self.rows.matrix().read_f64(row as usize, own);
        }
        let packed = Packed::new(dim, columns.len(), |at, out| {
            self.columns.matrix().read_f64(columns[at] as usize, out);
        });
        packed.products(&own, out);
        if self.metric == Metric::Cosine && !columns.is_empty() {
            for (&row, out) in rows.iter().zip(out.chunks_exact_mut(columns.len())) {
                for (out, &column) in out.iter_mut().zip(columns) {
                    *out /= self.rows.norm(row as usize) * self.columns.norm(column as usize);
                }
            }
        }
        Ok(())
    }

    fn scale(&self) -> f64 {
        match self.metric {
            Metric::Cosine => 1.0,
            Metric::Dot => self.rows.longest() * self.columns.longest(),
        }
    }

    fn sieve<'a>(
        &'a self,
        columns: &'a [u32],
        expected: Option<&[f64]>,
    ) -> Result<Box<dyn Sieve + 'a>, Error> {
        let scale = match self.metric {
            Metric::Cosine => Scale::Directions,
            Metric::Dot => Scale::Vectors,
        };
        let rows = (&self.rows as &dyn Source, self.rows.len());
        self.planner.sieve(rows, &self.columns, columns, scale, expected)
    }
}

impl Source for Vectors {
    fn dim(&self) -> usize {
        self.dim()
    }

    fn check_rows(&self, items: &[u32]) -> Result<(), Error> {
        self.check_rows(items)
    }

    fn norm(&self, item: u32) -> f64 {
        self.norm(item as usize)
    }

    fn read(&self, item: u32, factor: f64, out: &mut [f32]) {
        fn scaled<E: Element>(bytes: &[u8], factor: f64, out: &mut [f32]) {
            for (out, bytes) in out.iter_mut().zip(bytes.chunks_exact(E::SIZE)) {
                *out = (E::decode(bytes) * factor) as f32;
            }
        }
        let bytes = Vectors::matrix(self).row_bytes(item as usize);
        match Vectors::matrix(self).dtype() {
            Dtype::F16 => halves::scaled(bytes, factor, out),
            Dtype::Bf16 => scaled::<bf16>(bytes, factor, out),
            Dtype::F32 => scaled::<f32>(bytes, factor, out),
            Dtype::F64 => scaled::<f64>(bytes, factor, out),
        }
    }

    fn matrix(&self) -> &Matrix {
        Vectors::matrix(self)
    }

    fn residence(&self) -> &Residence {
        Vectors::residence(self)
    }
}
