//! Ruling out pairs of vectors below brute force, without ever ruling out a wrong one.
//!
//! To find the pairs with `x·y > cut`, both sides are projected on their leading principal axes
//! and coded in 8 bits where the machine multiplies bytes. With `x̂`, `ŷ` the codes, `e` the norm
//! of what coding lost and `r` the norm of what projection left out, Cauchy-Schwarz gives
//!
//! ```text
//! x·y <= x̂·ŷ + e_x |y| + |x̂| e_y + r_x r_y
//! ```
//!
//! The right side is one cheap product and two numbers per vector. Pairs it cannot rule out are
//! finished in single precision, and what is still standing goes back to the engine, which
//! computes the canonical value. Every rounding on the way is part of the bound.

mod axes;
mod kernel;
mod plan;

use rayon::prelude::*;

use axes::Basis;
pub(crate) use kernel::squared_distance;
use kernel::{PANEL, Panels, RowCodes, dot};
pub use plan::{Code, Route};

/// One side of an inner product: vectors that can be read scaled, with known norms.
pub(crate) trait Source: Sync {
    /// Numbers per vector.
    fn dim(&self) -> usize;
    /// The norm of a vector.
    fn norm(&self, item: u32) -> f64;
    /// `factor` times a vector, each number rounded once to single precision.
    fn read(&self, item: u32, factor: f64, out: &mut [f32]);
}

/// What the cuts of a search are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// The product of the directions of both vectors.
    Directions,
    /// The product of the vectors as they are.
    Vectors,
}

/// Unit roundoff of single precision.
const U: f64 = 1.0 / (1u64 << 24) as f64;

/// Columns of one single-precision tile.
const TILE: usize = 512;

/// The relative error of a single-precision dot product of `n` terms, in any order (Higham,
/// Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1).
fn gamma(n: usize) -> f64 {
    let nu = n as f64 * U;
    nu / (1.0 - nu)
}

/// The columns of a search, projected and coded once.
pub(crate) struct Screen<'a> {
    rows: &'a dyn Source,
    scale: Scale,
    basis: Option<Basis>,
    columns: Columns,
}

struct Columns {
    norms: Vec<f64>,
    /// Unit vectors, column by column.
    units: Vec<f32>,
    codes: Codes,
    /// What coding and projecting lost.
    errors: Vec<f64>,
    /// What projection left out.
    residuals: Vec<f64>,
}

enum Codes {
    /// Leading coordinates in single precision; `None` where they are the unit vectors.
    Float(Option<Vec<f32>>),
    /// Eight-bit codes and their scales.
    Int8(Panels, Vec<f32>),
}

impl<'a> Screen<'a> {
    /// Prepares `columns` of `source` for products with `rows`, on the given route.
    fn new(
        rows: &'a dyn Source,
        source: &dyn Source,
        columns: &[u32],
        scale: Scale,
        basis: Option<Basis>,
        code: Code,
    ) -> Self {
        let dim = source.dim();
        let lead = basis.as_ref().map_or(dim, |b| b.axes);
        let mut units = vec![0.0; columns.len() * dim];
        let norms: Vec<f64> = columns.iter().map(|&c| source.norm(c)).collect();
        let mut errors = vec![0.0; columns.len()];
        let mut residuals = vec![0.0; columns.len()];
        let float_lead = match (code, &basis) {
            (Code::Float, Some(_)) => columns.len() * lead,
            _ => 0,
        };
        let mut leads = vec![0.0; float_lead];
        let mut scales = vec![0.0; columns.len()];
        let mut panels = Panels::new(if code == Code::Int8 { columns.len() } else { 0 }, lead);

        // Panel by panel: read, project, code.
        let mut no_lead: Vec<&mut [f32]> = Vec::new();
        no_lead.resize_with(columns.len().div_ceil(PANEL), Default::default);
        let lead_parts: Vec<&mut [f32]> = match float_lead {
            0 => no_lead,
            _ => leads.chunks_mut(PANEL * lead).collect(),
        };
        let mut panel_parts: Vec<_> = panels.split().into_iter().map(Some).collect();
        panel_parts.resize_with(columns.len().div_ceil(PANEL), || None);
        (
            columns.par_chunks(PANEL),
            units.par_chunks_mut(PANEL * dim),
            errors.par_chunks_mut(PANEL),
            residuals.par_chunks_mut(PANEL),
            scales.par_chunks_mut(PANEL),
            lead_parts,
            panel_parts,
        )
            .into_par_iter()
            .for_each(|(columns, units, errors, residuals, scales, leads, panel)| {
                for (&column, unit) in columns.iter().zip(units.chunks_exact_mut(dim)) {
                    let norm = source.norm(column);
                    source.read(column, if norm > 0.0 { 1.0 / norm } else { 0.0 }, unit);
                }
                let projected = Projected::of(units, dim, basis.as_ref());
                residuals.copy_from_slice(&projected.residuals);
                match panel {
                    None => {
                        errors.fill(projected.error);
                        if !leads.is_empty() {
                            leads.copy_from_slice(&projected.lead);
                        }
                    }
                    Some(mut panel) => {
                        let mut codes = vec![0; lead];
                        for (c, lead) in projected.lead.chunks_exact(lead).enumerate() {
                            let (scale, lost) = quantise(lead, |k, code| codes[k] = code);
                            panel.set(c, &codes);
                            scales[c] = scale;
                            errors[c] = lost + projected.error;
                        }
                    }
                }
            });
        let codes = match (code, float_lead) {
            (Code::Int8, _) => Codes::Int8(panels, scales),
            (Code::Float, 0) => Codes::Float(None),
            (Code::Float, _) => Codes::Float(Some(leads)),
        };
        Screen { rows, scale, basis, columns: Columns { norms, units, codes, errors, residuals } }
    }

    /// Positions of a superset of the pairs whose product is above the cut of their column.
    pub(crate) fn search_above(&self, rows: &[u32], cuts: &[f64]) -> Vec<(u32, u32)> {
        let mut found = self.search(rows, cuts, true);
        found.sort_unstable();
        found
    }

    /// The share of pairs that the bound alone cannot rule out.
    fn survival(&self, rows: &[u32], cuts: &[f64]) -> f64 {
        self.search(rows, cuts, false).len() as f64 / (rows.len() * cuts.len()) as f64
    }

    fn search(&self, rows: &[u32], cuts: &[f64], finish: bool) -> Vec<(u32, u32)> {
        let (dim, columns) = (self.rows.dim(), &self.columns);
        let largest = rows.iter().map(|&r| self.rows.norm(r)).fold(0.0, f64::max);
        let mut units = vec![0.0; rows.len() * dim];
        for (&row, unit) in rows.iter().zip(units.chunks_exact_mut(dim)) {
            let norm = match self.scale {
                Scale::Directions => self.rows.norm(row),
                Scale::Vectors => largest,
            };
            self.rows.read(row, if norm > 0.0 { 1.0 / norm } else { 0.0 }, unit);
        }
        let cuts = self.relative_cuts(cuts, largest);
        let projected = Projected::of(&units, dim, self.basis.as_ref());
        let finisher = Finisher { units: &units, columns, cuts: &cuts, dim };
        match &columns.codes {
            Codes::Int8(panels, scales) => {
                let bound = RowBound::coded(&projected, dim, self.basis.as_ref());
                self.search_int8(panels, scales, &bound, &cuts, finish.then_some(&finisher))
            }
            Codes::Float(leads) => {
                let leads = leads.as_deref().unwrap_or(&columns.units);
                // Without projection the tile is as good as the finisher's product.
                let finisher = (finish && self.basis.is_some()).then_some(&finisher);
                self.search_float(leads, &projected, &cuts, finisher)
            }
        }
    }

    /// The cuts in units of the scaled vectors, so that all products lie within [-1, 1].
    fn relative_cuts(&self, cuts: &[f64], largest: f64) -> Vec<f64> {
        let scaled = |(&cut, &norm): (&f64, &f64)| match (self.scale, largest * norm) {
            (Scale::Directions, _) => cut,
            (Scale::Vectors, unit) if unit > 0.0 => cut / unit,
            // All products are zero, or so small that we do not try to tell.
            (Scale::Vectors, _) if cut < 0.0 || (largest > 0.0 && norm > 0.0) => f64::NEG_INFINITY,
            (Scale::Vectors, _) => f64::INFINITY,
        };
        cuts.iter().zip(&self.columns.norms).map(scaled).collect()
    }

    /// What must be added to the product of the codes of a row and a column, apart from the
    /// residuals, to bound the true product; `row_error` bounds what the rows lost.
    fn slack(&self, row_error: f64, column: usize) -> f64 {
        let defect = self.basis.as_ref().map_or(0.0, |b| b.defect);
        let length = 1.0 + defect;
        let coding = row_error * length + (length + row_error) * self.columns.errors[column];
        // The bound is itself evaluated in single precision: fewer than 16 roundings of terms
        // that add up to less than 3. Canonical values carry float64 rounding.
        coding + defect + 48.0 * U + canonical_error(self.rows.dim())
    }

    fn search_int8(
        &self,
        panels: &Panels,
        scales: &[f32],
        bound: &RowBound,
        cuts: &[f64],
        finisher: Option<&Finisher<'_>>,
    ) -> Vec<(u32, u32)> {
        let (mut found, mut survivors) = (Vec::new(), Vec::new());
        let (mut spread, mut limit) = ([0.0; PANEL], [0.0; PANEL]);
        for first in (0..cuts.len()).step_by(PANEL) {
            let width = PANEL.min(cuts.len() - first);
            for c in 0..PANEL {
                let column = first + c;
                (spread[c], limit[c]) = (0.0, f32::INFINITY);
                if c < width {
                    let scale = scales[column] as f64;
                    spread[c] = round_up(self.columns.residuals[column] / scale);
                    limit[c] =
                        round_down((cuts[column] - self.slack(bound.error, column)) / scale);
                }
            }
            survivors.clear();
            kernel::survivors(panels, first / PANEL, &bound.codes, &spread, &limit, &mut survivors);
            let inside = survivors.iter().map(|&(r, c)| (r, first as u32 + c));
            match finisher {
                Some(finisher) => found.extend(inside.filter(|&pair| finisher.stands(pair))),
                None => found.extend(inside),
            }
        }
        found
    }

    fn search_float(
        &self,
        leads: &[f32],
        projected: &Projected<'_>,
        cuts: &[f64],
        finisher: Option<&Finisher<'_>>,
    ) -> Vec<(u32, u32)> {
        let lead = self.basis.as_ref().map_or(self.rows.dim(), |b| b.axes);
        let rows = projected.lead.len() / lead;
        let mut found = Vec::new();
        let mut tile = vec![0.0; rows * TILE.min(cuts.len())];
        let residuals: Vec<f32> = projected.residuals.iter().map(|&r| round_up(r)).collect();
        for first in (0..cuts.len()).step_by(TILE) {
            let width = TILE.min(cuts.len() - first);
            let tile = &mut tile[..rows * width];
            let columns = &leads[first * lead..][..width * lead];
            product((rows, lead, width), (&projected.lead, lead, 1), (columns, 1, lead), tile);
            let spread: Vec<f32> =
                self.columns.residuals[first..][..width].iter().map(|&r| round_up(r)).collect();
            // The rows' error counts for the rounding of the product as well.
            let error = projected.error + gamma(lead + 8);
            let limit: Vec<f32> = (first..first + width)
                .map(|column| round_down(cuts[column] - self.slack(error, column)))
                .collect();
            for (r, (values, &residual)) in tile.chunks_exact(width).zip(&residuals).enumerate() {
                let stands = |c: usize| {
                    let bound = values[c] + residual * spread[c];
                    // Written so that a NaN stands.
                    !matches!(
                        bound.partial_cmp(&limit[c]),
                        Some(std::cmp::Ordering::Less | std::cmp::Ordering::Equal)
                    )
                };
                for chunk in (0..width).step_by(16) {
                    let end = width.min(chunk + 16);
                    // One test for the whole chunk lets the compiler use vectors for it.
                    if (chunk..end).fold(false, |any, c| any | stands(c)) {
                        let pairs = (chunk..end)
                            .filter(|&c| stands(c))
                            .map(|c| (r as u32, (first + c) as u32));
                        match finisher {
                            Some(finisher) => found.extend(pairs.filter(|&p| finisher.stands(p))),
                            None => found.extend(pairs),
                        }
                    }
                }
            }
        }
        found
    }
}

/// Leading coordinates of some vectors.
struct Projected<'a> {
    lead: std::borrow::Cow<'a, [f32]>,
    /// Norms of what projection left out.
    residuals: Vec<f64>,
    /// A bound on the norm of the error of the leading coordinates.
    error: f64,
}

impl<'a> Projected<'a> {
    /// `units` are vectors of norm at most one, rounded to single precision.
    fn of(units: &'a [f32], dim: usize, basis: Option<&Basis>) -> Self {
        let count = units.len() / dim;
        // Reading rounded each number once, which changes the vector by U of its norm.
        let read = 1.01 * U;
        let Some(basis) = basis else {
            return Projected { lead: units.into(), residuals: vec![0.0; count], error: read };
        };
        let axes = basis.axes;
        let mut lead = vec![0.0; count * axes];
        product((count, dim, axes), (units, dim, 1), (&basis.matrix, axes, 1), &mut lead);
        let length = 1.0 + basis.defect;
        let error = (gamma(dim + 2) * (axes as f64).sqrt() + 2.0 * read) * 1.01 * length;
        let residual = |(unit, lead): (&[f32], &[f32])| {
            let inside = (norm(lead) - error).max(0.0);
            let whole = norm(unit) * (1.0 + 2.0 * read);
            (whole * whole - inside * inside / length + 1e-12).max(0.0).sqrt()
        };
        let residuals =
            units.chunks_exact(dim).zip(lead.chunks_exact(axes)).map(residual).collect();
        Projected { lead: lead.into(), residuals, error }
    }
}

/// The 8-bit codes of a block of rows and the largest error among them.
struct RowBound {
    codes: RowCodes,
    error: f64,
}

impl RowBound {
    fn coded(projected: &Projected<'_>, dim: usize, basis: Option<&Basis>) -> Self {
        let lead = basis.map_or(dim, |b| b.axes);
        let mut codes = RowCodes::new(projected.residuals.len(), lead);
        let mut error = 0.0;
        for (r, values) in projected.lead.chunks_exact(lead).enumerate() {
            let row = &mut codes.codes[r * codes.stride..][..lead];
            let (scale, lost) = quantise(values, |k, code| row[k] = (code as i16 + 128) as u8);
            codes.scales[r] = scale;
            codes.residuals[r] = round_up(projected.residuals[r]);
            error = f64::max(error, lost);
        }
        RowBound { codes, error: error + projected.error }
    }
}

/// Finishes single pairs in single precision.
struct Finisher<'a> {
    units: &'a [f32],
    columns: &'a Columns,
    cuts: &'a [f64],
    dim: usize,
}

impl Finisher<'_> {
    /// Whether the pair may be above its cut.
    fn stands(&self, (row, column): (u32, u32)) -> bool {
        let x = &self.units[row as usize * self.dim..][..self.dim];
        let y = &self.columns.units[column as usize * self.dim..][..self.dim];
        let error = gamma(self.dim + 8) + canonical_error(self.dim);
        dot(x, y) as f64 + error > self.cuts[column as usize]
    }
}

/// How far a canonical value, in units of both norms, can be from the real product.
fn canonical_error(dim: usize) -> f64 {
    4.0 * (dim + 8) as f64 * f64::EPSILON
}

/// Hands the 8-bit code of each value to `store`; the scale, and the norm of what is lost.
fn quantise(values: &[f32], mut store: impl FnMut(usize, i8)) -> (f32, f64) {
    let largest = values.iter().fold(0.0, |m: f32, v| m.max(v.abs()));
    if largest < 1e-30 {
        (0..values.len()).for_each(|k| store(k, 0));
        return (1.0, norm(values));
    }
    let scale = largest / 127.0;
    let inverse = 1.0 / scale;
    let mut lost = 0.0f64;
    for (k, &value) in values.iter().enumerate() {
        let code = (value * inverse).round_ties_even().clamp(-127.0, 127.0);
        store(k, code as i8);
        let rest = value as f64 - scale as f64 * code as f64;
        lost += rest * rest;
    }
    (scale, lost.sqrt() * (1.0 + 1e-9))
}

fn norm(values: &[f32]) -> f64 {
    values.iter().map(|&v| v as f64 * v as f64).sum::<f64>().sqrt()
}

fn round_up(value: f64) -> f32 {
    let rounded = value as f32;
    if (rounded as f64) < value { rounded.next_up() } else { rounded }
}

fn round_down(value: f64) -> f32 {
    -round_up(-value)
}

/// `out = left · right` for a `(rows, inner, columns)` product; each operand comes with its row
/// and column strides. `out` is row by row.
pub(crate) fn product(
    (rows, inner, columns): (usize, usize, usize),
    (left, left_row, left_column): (&[f32], usize, usize),
    (right, right_row, right_column): (&[f32], usize, usize),
    out: &mut [f32],
) {
    assert_eq!(out.len(), rows * columns);
    if rows == 0 || columns == 0 {
        return;
    }
    assert!(inner > 0);
    assert!(left.len() > (rows - 1) * left_row + (inner - 1) * left_column);
    assert!(right.len() > (inner - 1) * right_row + (columns - 1) * right_column);
    // SAFETY: the assertions keep every element that the strides reach inside its slice, `out`
    // is as large as the result and, being borrowed mutably, apart from both operands.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            out.as_mut_ptr(),
            1,
            columns as isize,
            false,
            left.as_ptr(),
            left_column as isize,
            left_row as isize,
            right.as_ptr(),
            right_column as isize,
            right_row as isize,
            0.0f32,
            1.0f32,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
