//! Choosing how to rule pairs out: by trying each way on a sample.

use super::axes::{Basis, principal_axes};
use super::kernel::has_int8;
use super::mixer::Mixer;
use super::{Scale, Screen, Source, product, read_units};

/// How a search for high inner products is carried out. Results never depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// By a quick probe of the data.
    Auto,
    /// As told: the leading axes to project on (a power of two), or all dimensions as they are.
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
    /// Eight bits; single precision on machines without byte products.
    Int8,
}

/// Pairs below which choosing costs more than it saves.
const WORTH_A_PROBE: usize = 1 << 22;
/// Rows and columns of the probe.
const PROBE: (usize, usize) = (192, 256);
/// Vectors of each side that the axes are fitted on.
const FITTED: usize = 2048;
/// The numbers of axes that are tried.
const AXES: [usize; 5] = [32, 64, 128, 256, 512];

impl<'a> Screen<'a> {
    /// Prepares the search for products of `rows` (all `count` of them, in the end) with
    /// `columns` of `source` that are above about `expected`.
    pub(crate) fn plan(
        (rows, count): (&'a dyn Source, usize),
        source: &dyn Source,
        columns: &[u32],
        scale: Scale,
        expected: Option<&[f64]>,
        route: Route,
    ) -> Self {
        let mixer = Mixer::new(source.dim());
        let dim = mixer.width();
        let best_code =
            |code| if code == Code::Int8 && fits_int8(dim) { code } else { Code::Float };
        let build = |columns: &[u32], basis, code| {
            Screen::new(rows, source, columns, scale, basis, best_code(code))
        };
        let every_row = || spread_over(count, FITTED);
        let fit = |most: usize| {
            let of_columns = pick(columns, FITTED);
            let sample = sample_of(&mixer, (rows, &every_row()), (source, &of_columns));
            principal_axes(&sample, dim, most)
        };
        match route {
            Route::Fixed { axes, code } => {
                let axes = axes.map(|a| a.next_power_of_two()).filter(|&a| a <= dim);
                build(columns, axes.map(|a| Basis::leading(&fit(a), dim, a)), code)
            }
            Route::Auto => {
                let tried: Vec<usize> = AXES.into_iter().filter(|a| a * 2 <= dim).collect();
                let (Some(&most), true) = (tried.last(), count * columns.len() >= WORTH_A_PROBE)
                else {
                    return build(columns, None, Code::Int8);
                };
                let principal = fit(most);
                let probe_rows = spread_over(count, PROBE.0);
                let probe = spread_over(columns.len(), PROBE.1);
                let probe_columns: Vec<u32> = probe.iter().map(|&c| columns[c as usize]).collect();
                let cuts: Vec<f64> = match expected {
                    Some(cuts) => probe.iter().map(|&c| cuts[c as usize]).collect(),
                    None => highest(&mixer, (rows, &probe_rows), (source, &probe_columns), scale),
                };
                let cost = |axes: Option<usize>| {
                    let basis = axes.map(|a| Basis::leading(&principal, dim, a));
                    let screen = build(&probe_columns, basis, Code::Int8);
                    let survival = screen.survival(&probe_rows, &cuts);
                    cycles(dim, axes, survival, columns.len(), best_code(Code::Int8))
                };
                let dense = (cost(None), None);
                let best = tried.into_iter().map(|a| (cost(Some(a)), Some(a)));
                let (_, axes) =
                    best.fold(dense, |best, other| if other.0 < best.0 { other } else { best });
                let basis = axes.map(|a| Basis::leading(&principal, dim, a));
                build(columns, basis, Code::Int8)
            }
        }
    }
}

/// Whether 8-bit products of `dim` numbers are to be had and cannot overflow 32-bit sums.
fn fits_int8(dim: usize) -> bool {
    has_int8() && dim <= 32768
}

/// Bytes that a prepared column takes for each of its numbers, at most.
pub(crate) fn bytes_per_number() -> usize {
    // Codes of all dimensions and of up to half as many axes; or both in single precision.
    if has_int8() { 2 } else { 6 }
}

/// Bytes taken while the axes are fitted.
pub(crate) fn fitted_bytes(dim: usize) -> usize {
    let axes = AXES.into_iter().filter(|a| a * 2 <= dim).max().unwrap_or(0);
    4 * (2 * FITTED * dim + dim * dim) + 24 * axes * dim
}

/// A model of the cost of one pair, in cycles of a core that multiplies 16 floats or 64 bytes
/// in one. Only the order of its values matters, and only for speed.
fn cycles(dim: usize, axes: Option<usize>, survival: f64, columns: usize, code: Code) -> f64 {
    let width = axes.unwrap_or(dim) as f64;
    let (first, second) = match code {
        Code::Int8 => (width / 64.0 + 0.4, dim as f64 / 24.0 + 40.0),
        Code::Float => (width / 16.0 * 1.1 + 0.5, dim as f64 / 8.0 + 20.0),
    };
    // Reading, projecting and coding a row is spread over its columns.
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

fn sample_of(
    mixer: &Mixer,
    (a, of_a): (&dyn Source, &[u32]),
    (b, of_b): (&dyn Source, &[u32]),
) -> Vec<f32> {
    let mut sample = read_units(a, mixer, of_a, |i| a.norm(i));
    sample.extend(read_units(b, mixer, of_b, |i| b.norm(i)));
    sample
}

/// The largest product of each column with the sampled rows: the best guess of its cut.
fn highest(
    mixer: &Mixer,
    (rows, of_rows): (&dyn Source, &[u32]),
    (source, columns): (&dyn Source, &[u32]),
    scale: Scale,
) -> Vec<f64> {
    let dim = mixer.width();
    let mut tile = vec![0.0; of_rows.len() * columns.len()];
    let x = read_units(rows, mixer, of_rows, |r| rows.norm(r));
    let y = read_units(source, mixer, columns, |c| source.norm(c));
    product((of_rows.len(), dim, columns.len()), (&x, dim, 1), (&y, 1, dim), &mut tile);
    let largest = |(c, &column): (usize, &u32)| {
        let products = of_rows.iter().zip(tile.chunks_exact(columns.len())).map(|(&row, tile)| {
            let unit = match scale {
                Scale::Directions => 1.0,
                Scale::Vectors => rows.norm(row) * source.norm(column),
            };
            tile[c] as f64 * unit + rows.bias(row)
        });
        products.fold(f64::NEG_INFINITY, f64::max)
    };
    columns.iter().enumerate().map(largest).collect()
}
