//! Rules out pairs of vectors faster than brute force, and never one above its cut.
//!
//! To find the pairs with `x·y > cut`, the search projects both sides on their leading principal
//! axes, and codes them in 8 bits where the CPU multiplies bytes. With `x̂`, `ŷ` the codes, `e` the
//! norm of the coding error and `r` the norm of the projection residual, Cauchy-Schwarz gives
//!
//! ```text
//! x·y <= x̂·ŷ + e_x |y| + |x̂| e_y + r_x r_y
//! ```
//!
//! (and a little more, because computed axes are not quite orthonormal).
//!
//! The right side is one cheap product and two numbers per vector. Pairs it cannot rule out get a
//! second product over all dimensions. The engine computes the canonical value of the pairs that
//! remain. The bound covers every rounding on the way.

mod axes;
mod float;
mod int8;
mod kernel;
mod mixer;
mod plan;
mod sums;

use std::sync::Arc;

use nextpair_core::Matrix;
use rayon::prelude::*;

use crate::device::Residence;
use crate::product::product;
use crate::{Error, Sieve};
use axes::Basis;
use kernel::{PANEL, Unit};
use mixer::Mixer;
pub use plan::{Code, Route};
pub(crate) use plan::{Planner, bytes_per_number, fitted_bytes};
pub(crate) use sums::squared_distance;

/// One side of an inner product: vectors that can be read scaled, with known norms.
pub(crate) trait Source: Sync {
    /// Dimensions of a vector.
    fn dim(&self) -> usize;
    /// Checks the numbers of some vectors, if that has not been done yet. Comes before any other use of
    /// them.
    fn check_rows(&self, _items: &[u32]) -> Result<(), Error> {
        Ok(())
    }
    /// The norm of a vector.
    fn norm(&self, item: u32) -> f64;
    /// A number, zero or negative, added to every product of a row.
    fn bias(&self, _item: u32) -> f64 {
        0.0
    }
    /// `factor` times a vector, each number rounded once to single precision.
    fn read(&self, item: u32, factor: f64, out: &mut [f32]);
    /// The numbers as they are stored: the vectors, or the vectors with a shift.
    fn matrix(&self) -> &Matrix;
    /// What a vector is less than its stored numbers, if it is.
    fn shift(&self) -> Option<&[f64]> {
        None
    }
    /// Where the vectors are searched.
    fn residence(&self) -> &Residence;

    /// A vector divided by `length`; zero if `length` is zero.
    fn read_over(&self, item: u32, length: f64, out: &mut [f32]) {
        self.read(item, if length > 0.0 { 1.0 / length } else { 0.0 }, out);
    }
}

/// The products that the cuts of a search refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Products of normalised vectors.
    Directions,
    /// Products of the vectors as they are.
    Vectors,
}

/// Unit roundoff of single precision.
pub(crate) const U: f64 = 1.0 / (1u64 << 24) as f64;

/// The relative error of a single-precision dot product of `n` terms, in any order (Higham,
/// Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1).
pub(crate) fn gamma(n: usize) -> f64 {
    let nu = n as f64 * U;
    nu / (1.0 - nu)
}

/// The columns of a search, projected and coded once.
pub(crate) struct Screen<'a> {
    target: Target<'a>,
    mixer: Mixer,
    basis: Option<Arc<Basis>>,
    columns: Columns,
}

enum Columns {
    Float(Vec<float::Block>),
    Int8(Unit, Vec<int8::Panel>),
}

impl<'a> Screen<'a> {
    /// Prepares `columns` of `source` for products with `rows`, by a unit that multiplies bytes or
    /// in single precision.
    fn new(
        rows: &'a dyn Source,
        source: &dyn Source,
        columns: &[u32],
        scale: Scale,
        basis: Option<Arc<Basis>>,
        unit: Option<Unit>,
    ) -> Self {
        let mixer = Mixer::new(source.dim());
        let project = |columns: &[u32]| {
            let units = read_units(source, &mixer, columns, |column| source.norm(column));
            Projected::of(units, &mixer, basis.as_deref())
        };
        let coded = match unit {
            None => Columns::Float(
                columns.par_chunks(float::BLOCK).map(|c| float::Block::new(project(c))).collect(),
            ),
            Some(unit) => Columns::Int8(
                unit,
                columns.par_chunks(PANEL).map(|c| int8::Panel::new(unit, &project(c))).collect(),
            ),
        };
        let target = Target::new(rows, source, columns, scale);
        Screen { target, mixer, basis, columns: coded }
    }

    /// The share of pairs that the first bound cannot rule out.
    fn survival(&self, rows: &[u32], cuts: &[f64]) -> f64 {
        self.search(rows, cuts, false).len() as f64 / (rows.len() * cuts.len()) as f64
    }

    /// Finds the pairs that may be above the cuts. Without `finish`, stops after the first bound.
    fn search(&self, rows: &[u32], cuts: &[f64], finish: bool) -> Vec<(u32, u32)> {
        let (source, largest) = (self.target.rows, self.target.largest(rows));
        let units = read_units(source, &self.mixer, rows, |row| match self.target.scale {
            Scale::Directions => source.norm(row),
            Scale::Vectors => largest,
        });
        let defect = self.basis.as_ref().map_or(0.0, |basis| basis.defect);
        let aim = self.target.aim(rows, cuts, largest, defect);
        let rows = Projected::of(units, &self.mixer, self.basis.as_deref());
        let mut found = Vec::new();
        match &self.columns {
            Columns::Float(blocks) => float::search(blocks, &rows, &aim, finish, &mut found),
            Columns::Int8(unit, panels) => {
                int8::search(*unit, panels, &rows, &aim, finish, &mut found);
            }
        }
        found
    }
}

/// The rows of a search and the norms of its columns.
pub(crate) struct Target<'a> {
    pub(crate) rows: &'a dyn Source,
    pub(crate) scale: Scale,
    norms: Vec<f64>,
}

impl<'a> Target<'a> {
    pub(crate) fn new(
        rows: &'a dyn Source,
        source: &dyn Source,
        columns: &[u32],
        scale: Scale,
    ) -> Self {
        Target { rows, scale, norms: columns.iter().map(|&c| source.norm(c)).collect() }
    }

    /// The largest norm of some rows.
    pub(crate) fn largest(&self, rows: &[u32]) -> f64 {
        rows.iter().map(|&r| self.rows.norm(r)).fold(0.0, f64::max)
    }

    /// The cuts in units of the scaled vectors, so that all products lie within [-1, 1]. `defect` is
    /// how far the axes of projections are from orthonormal.
    pub(crate) fn aim(&self, rows: &[u32], cuts: &[f64], largest: f64, defect: f64) -> BlockCuts {
        let relative = |(&cut, &norm): (&f64, &f64)| match (self.scale, largest * norm) {
            (Scale::Directions, _) => cut,
            (Scale::Vectors, unit) if unit > 1e-290 => cut / unit,
            // All products are zero, or too small to decide here; biases are negative.
            (Scale::Vectors, _) if cut <= 0.0 || (largest > 0.0 && norm > 0.0) => f64::NEG_INFINITY,
            (Scale::Vectors, _) => f64::INFINITY,
        };
        let inverse = |length: f64| if length > 0.0 { 1.0 / length } else { 0.0 };
        // Biases are squared norms; in units of the largest row they are around one.
        let offset =
            |&row: &u32| (self.rows.bias(row) * inverse(largest) * inverse(largest)) as f32;
        let offsets: Vec<f32> = rows.iter().map(offset).collect();
        let largest_offset = offsets.iter().fold(0.0, |m: f32, o| m.max(o.abs())) as f64;
        let mut cuts: Vec<f64> = cuts.iter().zip(&self.norms).map(relative).collect();
        let mut tilts = vec![0.0; cuts.len()];
        if largest_offset > 0.0 {
            for ((cut, tilt), &norm) in cuts.iter_mut().zip(&mut tilts).zip(&self.norms) {
                *tilt = largest * inverse(norm);
                if *tilt > 1e20 {
                    // A column of so small a norm is beyond single precision: every pair stands.
                    (*cut, *tilt) = (f64::NEG_INFINITY, 0.0);
                }
            }
        }
        BlockCuts {
            cuts,
            offsets,
            largest_offset,
            tilts,
            defect,
            canonical: canonical_error(self.rows.dim()),
        }
    }
}

/// The cuts apply to products with the row's bias added.
impl Sieve for Screen<'_> {
    fn above(&self, rows: &[u32], cuts: &[f64]) -> Result<Vec<(u32, u32)>, Error> {
        self.target.rows.check_rows(rows)?;
        let mut found = self.search(rows, cuts, true);
        found.sort_unstable();
        Ok(found)
    }
}

/// Reads vectors, divides each by its `length` and mixes it.
fn read_units(
    source: &dyn Source,
    mixer: &Mixer,
    items: &[u32],
    length: impl Fn(u32) -> f64,
) -> Vec<f32> {
    let mut units = vec![0.0; items.len() * mixer.width()];
    for (&item, unit) in items.iter().zip(units.chunks_exact_mut(mixer.width())) {
        source.read_over(item, length(item), &mut unit[..source.dim()]);
        mixer.mix(unit);
    }
    units
}

/// The target of one block of rows: pairs with
/// `product + offset[row] * tilt[column] > cut[column]`.
pub(crate) struct BlockCuts {
    cuts: Vec<f64>,
    pub(crate) offsets: Vec<f32>,
    pub(crate) largest_offset: f64,
    pub(crate) tilts: Vec<f64>,
    /// How far the basis is from orthonormal.
    defect: f64,
    /// How far canonical values are from true products.
    canonical: f64,
}

impl BlockCuts {
    /// The smallest product of codes, residuals included, that a pair above its cut can have if its
    /// codes are within these errors.
    pub(crate) fn limit(&self, column: usize, row_error: f64, column_error: f64) -> f64 {
        let length = 1.0 + self.defect;
        let coding = row_error * length + (length + row_error) * column_error;
        // The bound itself is evaluated in single precision: a handful of roundings of terms that,
        // apart from the offset, add up to less than 5.
        let rounding = 16.0 * U * (3.0 + self.largest_offset * self.tilts[column]);
        self.cuts[column] - (coding + self.defect + rounding + self.canonical)
    }
}

/// Vectors of norm at most one, with their projections on the leading axes.
struct Projected {
    dim: usize,
    units: Vec<f32>,
    /// A bound on the norm of the error of each unit.
    error: f64,
    /// Projections; `None` if there are no axes and the units serve as they are.
    lead: Option<Projections>,
}

struct Projections {
    axes: usize,
    values: Vec<f32>,
    /// A bound on the norm of the error of the values.
    error: f64,
    /// Norms of the projection residuals.
    residuals: Vec<f64>,
}

impl Projected {
    fn of(units: Vec<f32>, mixer: &Mixer, basis: Option<&Basis>) -> Self {
        let dim = mixer.width();
        // Reading rounds each number once, which changes a vector by at most U of its norm. Mixing
        // is a few steps that keep the norm.
        let read_error = 1.01 * U * (1 + mixer.roundings()) as f64;
        let lead = basis.map(|basis| {
            let (count, axes) = (units.len() / dim, basis.axes);
            let mut values = vec![0.0; count * axes];
            product((count, dim, axes), (&units, dim, 1), (&basis.matrix, axes, 1), &mut values);
            let length = 1.0 + basis.defect;
            let error = (gamma(dim + 2) * (axes as f64).sqrt() + 2.0 * read_error) * 1.01 * length;
            let residual = |(unit, lead): (&[f32], &[f32])| {
                let inside = (square(lead).sqrt() - error).max(0.0);
                let whole = square(unit) * (1.0 + 8.0 * read_error);
                (whole - inside * inside / length + 1e-12).max(0.0).sqrt()
            };
            let vectors = units.chunks_exact(dim).zip(values.chunks_exact(axes));
            let residuals = vectors.map(residual).collect();
            Projections { axes, values, error, residuals }
        });
        Projected { dim, units, error: read_error, lead }
    }

    fn count(&self) -> usize {
        self.units.len() / self.dim
    }

    /// The operands of the first product: vectors, their width and their error.
    fn first(&self) -> (&[f32], usize, f64) {
        match &self.lead {
            Some(lead) => (&lead.values, lead.axes, lead.error),
            None => (&self.units, self.dim, self.error),
        }
    }

    fn residual(&self, vector: usize) -> f64 {
        self.lead.as_ref().map_or(0.0, |lead| lead.residuals[vector])
    }
}

/// How far a canonical value, in units of both norms, can be from the true product.
fn canonical_error(dim: usize) -> f64 {
    4.0 * (dim + 8) as f64 * f64::EPSILON
}

/// The squared norm, in eight sums that the compiler can vectorise.
fn square(values: &[f32]) -> f64 {
    let chunks = values.chunks_exact(8);
    let mut sums = [0.0; 8];
    for (l, &value) in chunks.remainder().iter().enumerate() {
        sums[l] += value as f64 * value as f64;
    }
    for chunk in chunks {
        for l in 0..8 {
            sums[l] += chunk[l] as f64 * chunk[l] as f64;
        }
    }
    sums.iter().sum()
}

pub(crate) fn round_up(value: f64) -> f32 {
    let rounded = value as f32;
    if (rounded as f64) < value { rounded.next_up() } else { rounded }
}

pub(crate) fn round_down(value: f64) -> f32 {
    -round_up(-value)
}
