//! Chooses a route for ruling out pairs, by trying each on a sample.

use std::sync::{Arc, OnceLock};

use super::axes::{Basis, principal_axes};
use super::kernel::{MOST, Unit};
use super::mixer::Mixer;
use super::{Scale, Screen, Source, read_units};
use crate::ahead::fetch;
use crate::device::{Device, GpuSieve, if_it_fits};
use crate::product::product;
use crate::{Error, Sieve};

/// How to search for high inner products. Results never depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Chosen by a quick probe of the data.
    Auto,
    /// Fixed: the leading axes to project on (a power of two), or all dimensions as they are.
    Fixed {
        /// Axes, or `None` for no projection.
        axes: Option<usize>,
        /// The arithmetic of the first product.
        code: Code,
    },
}

/// The arithmetic of the first product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Single precision.
    Float,
    /// Eight bits; single precision on CPUs without byte products.
    Int8,
}

/// Pairs per dimension below which fitting axes costs more than it could save: fitting takes about
/// `FITTED * dim²` multiplications, a dense search `dim` bytes per pair.
const WORTH_A_PROBE: usize = 1 << 16;
/// Rows and columns of the probe.
const PROBE: (usize, usize) = (192, 256);
/// Vectors of each side to fit the axes on.
const FITTED: usize = 2048;
/// Numbers of axes to try.
const AXES: [usize; 5] = [32, 64, 128, 256, 512];

/// The route of one similarity, chosen at the first search and kept for the others.
pub(crate) struct Planner {
    route: Route,
    chosen: OnceLock<(Option<Arc<Basis>>, Option<Unit>)>,
}

impl Planner {
    pub(crate) fn new(route: Route) -> Self {
        Planner { route, chosen: OnceLock::new() }
    }

    /// Prepares the search for products of `rows` (all `count` of them, in the end) with `columns`
    /// of `source` that are above about `expected`, on the device where these vectors are searched.
    pub(crate) fn sieve<'a>(
        &self,
        (rows, count): (&'a dyn Source, usize),
        source: &dyn Source,
        columns: &[u32],
        scale: Scale,
        expected: Option<&[f64]>,
    ) -> Result<Box<dyn Sieve + 'a>, Error> {
        if let Some(card) = Device::for_search(rows, source, (count, columns.len())) {
            // Columns that do not fit on the device are searched on the CPU.
            if let Some(sieve) = if_it_fits(GpuSieve::new(card, rows, source, columns, scale))? {
                return Ok(Box::new(sieve));
            }
        }
        if self.route != Route::Auto || worth_a_probe(count, columns.len(), source.dim()) {
            for sample in [FITTED, PROBE.0].map(|sample| spread_over(count, sample)) {
                fetch(rows.matrix(), &sample);
                rows.check_rows(&sample)?;
            }
        }
        Ok(Box::new(self.screen((rows, count), source, columns, scale, expected)))
    }

    fn screen<'a>(
        &self,
        (rows, count): (&'a dyn Source, usize),
        source: &dyn Source,
        columns: &[u32],
        scale: Scale,
        expected: Option<&[f64]>,
    ) -> Screen<'a> {
        let task = Task { rows, count, source, columns, scale };
        let (basis, unit) = self.chosen.get_or_init(|| match self.route {
            Route::Fixed { axes, code } => {
                let width = Mixer::new(source.dim()).width();
                let axes = axes.map(|a| a.next_power_of_two()).filter(|&a| a <= width);
                let basis = axes.map(|a| Arc::new(Basis::leading(&task.fit(a), width, a)));
                (basis, best_unit(width, code))
            }
            Route::Auto => task.choose(expected),
        });
        Screen::new(rows, source, columns, scale, basis.clone(), *unit)
    }
}

/// A search to choose a route for.
struct Task<'a> {
    rows: &'a dyn Source,
    count: usize,
    source: &'a dyn Source,
    columns: &'a [u32],
    scale: Scale,
}

impl Task<'_> {
    /// The leading axes of a sample of both sides.
    fn fit(&self, axes: usize) -> Vec<f64> {
        let mixer = Mixer::new(self.source.dim());
        let of_columns: Vec<u32> = pick(self.columns, FITTED);
        let mut sample = unit_sample(self.rows, &mixer, &spread_over(self.count, FITTED));
        sample.extend(unit_sample(self.source, &mixer, &of_columns));
        principal_axes(&sample, mixer.width(), axes)
    }

    /// The cheapest way, by a trial of each on a few rows and columns.
    fn choose(&self, expected: Option<&[f64]>) -> (Option<Arc<Basis>>, Option<Unit>) {
        let width = Mixer::new(self.source.dim()).width();
        let unit = best_unit(width, Code::Int8);
        let tried: Vec<usize> = AXES.into_iter().filter(|a| a * 2 <= width).collect();
        let worth_it = worth_a_probe(self.count, self.columns.len(), self.source.dim());
        let (Some(&most), true) = (tried.last(), worth_it) else { return (None, unit) };
        let principal = self.fit(most);
        let rows = spread_over(self.count, PROBE.0);
        let positions = spread_over(self.columns.len(), PROBE.1);
        let columns: Vec<u32> = positions.iter().map(|&c| self.columns[c as usize]).collect();
        let cuts: Vec<f64> = match expected {
            Some(cuts) => positions.iter().map(|&c| cuts[c as usize]).collect(),
            None => self.highest(&rows, &columns),
        };
        let mut best = (f64::INFINITY, None);
        for axes in std::iter::once(None).chain(tried.into_iter().map(Some)) {
            let basis = axes.map(|a| Arc::new(Basis::leading(&principal, width, a)));
            let source = self.source;
            let screen = Screen::new(self.rows, source, &columns, self.scale, basis.clone(), unit);
            let survival = screen.survival(&rows, &cuts);
            let cost = cycles(width, axes, survival, self.columns.len(), unit);
            if cost < best.0 {
                best = (cost, basis);
            }
        }
        (best.1, unit)
    }

    /// The largest similarity of each column with the sampled rows: the best guess of its cut.
    fn highest(&self, rows: &[u32], columns: &[u32]) -> Vec<f64> {
        let mixer = Mixer::new(self.source.dim());
        let width = mixer.width();
        let x = unit_sample(self.rows, &mixer, rows);
        let y = unit_sample(self.source, &mixer, columns);
        let mut tile = vec![0.0; rows.len() * columns.len()];
        product((rows.len(), width, columns.len()), (&x, width, 1), (&y, 1, width), &mut tile);
        let largest = |(c, &column): (usize, &u32)| {
            let products = rows.iter().zip(tile.chunks_exact(columns.len())).map(|(&row, tile)| {
                let unit = match self.scale {
                    Scale::Directions => 1.0,
                    Scale::Vectors => self.rows.norm(row) * self.source.norm(column),
                };
                tile[c] as f64 * unit + self.rows.bias(row)
            });
            products.fold(f64::NEG_INFINITY, f64::max)
        };
        columns.iter().enumerate().map(largest).collect()
    }
}

/// Whether a search is so large that a probe pays.
fn worth_a_probe(rows: usize, columns: usize, dim: usize) -> bool {
    rows * columns >= WORTH_A_PROBE * Mixer::new(dim).width()
}

/// The unit for products of `width` numbers; `None` is single precision.
fn best_unit(width: usize, wanted: Code) -> Option<Unit> {
    Unit::best().filter(|_| wanted == Code::Int8 && width <= MOST)
}

/// Maximum bytes per number of a prepared column.
pub(crate) fn bytes_per_number() -> usize {
    // Codes of all dimensions and of up to half as many axes; or both in single precision.
    if Unit::best().is_some() { 2 } else { 6 }
}

/// Bytes needed to fit the axes.
pub(crate) fn fitted_bytes(dim: usize) -> usize {
    let axes = AXES.into_iter().filter(|a| a * 2 <= dim).max().unwrap_or(0);
    4 * (2 * FITTED * dim + dim * dim) + 24 * axes * dim
}

/// Estimated cost of one pair, in cycles of a core that multiplies 16 floats per cycle. Only the
/// order of its values matters, and only for speed.
fn cycles(
    dim: usize,
    axes: Option<usize>,
    survival: f64,
    columns: usize,
    unit: Option<Unit>,
) -> f64 {
    let width = axes.unwrap_or(dim) as f64;
    let (first, second) = match unit {
        Some(unit) => (width / unit.products_per_cycle() + 0.4, dim as f64 / 24.0 + 40.0),
        None => (width / 16.0 * 1.1 + 0.5, dim as f64 / 8.0 + 20.0),
    };
    // The cost of reading, projecting and coding a row is spread over its columns.
    let project = axes.map_or(0.0, |a| (dim * a) as f64 / 16.0 * 1.1 + 3.0 * dim as f64);
    // Without projection there is no second product, and survivors go straight to the engine.
    let second = if axes.is_some() { second } else { dim as f64 };
    first + survival * second + project / columns as f64
}

/// At most `count` of `0..len`, evenly spread.
fn spread_over(len: usize, count: usize) -> Vec<u32> {
    let count = count.min(len);
    (0..count).map(|i| (i * len / count) as u32).collect()
}

fn pick(items: &[u32], count: usize) -> Vec<u32> {
    spread_over(items.len(), count).into_iter().map(|i| items[i as usize]).collect()
}

fn unit_sample(source: &dyn Source, mixer: &Mixer, items: &[u32]) -> Vec<f32> {
    read_units(source, mixer, items, |item| source.norm(item))
}
