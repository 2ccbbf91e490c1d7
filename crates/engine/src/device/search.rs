//! The search for high products on a GPU.
//!
//! With `x̂`, `ŷ` the codes of two directions and `e` a bound on the norm of their rounding,
//! Cauchy-Schwarz gives `x·y <= x̂·ŷ + e_x |y| + |x̂| e_y`, as on the CPU. Half precision has 11
//! bits, so that `e` is 5e-4, an eighth of that of bf16, at the same speed; directions need no larger
//! range. The sum of the products is bounded as [`summing_error`] says, and its own rounding to half
//! precision by the kernel.

use std::ops::Range;
use std::sync::Arc;

use half::f16;
use nextpair_cuda::{Argument, Array, Grid, Operand, Precision, Product};

use super::card::{Card, KERNELS, Lane, width};
use super::codes::Codes;
use crate::screen::{BlockCuts, Scale, Source, Target, U, round_down};
use crate::{Error, Sieve};

/// The columns of a search, coded once, on a GPU.
pub(crate) struct GpuSieve<'a> {
    card: Arc<Card>,
    target: Target<'a>,
    rows: Arc<Codes>,
    columns: Columns,
}

/// Codes of columns, one after the other in an array.
struct Columns {
    codes: Array<f16>,
    first: usize,
    count: usize,
}

/// Codes of rows that lie together.
struct Rows {
    codes: Array<f16>,
    first: usize,
}

/// The scale of a product of codes, as in the kernels.
const SCALE: f32 = 64.0 * 64.0;
/// Numbers of all rows of a call: 16,384 rows of 512.
pub(super) const AT_ONCE: usize = 1 << 23;
/// Pairs that are fetched along with their count: enough for most calls.
const FETCHED: usize = 1 << 15;

/// A bound on the norm of what coding loses of a direction: the rounding to half precision and before
/// it to single precision, and what is too small for a normal number.
pub(super) fn coding_error(dim: usize) -> f64 {
    let smallest = 1.0 / (1u64 << 20) as f64;
    1.01 * (1.0 / 2048.0 + U) + smallest * (dim as f64).sqrt()
}

/// A bound on the error of a sum of `width` products of codes of norm 1 by the matrix units.
///
/// Products of numbers of 11 bits are exact. A unit adds `n >= 4` of them to the sum so far: it
/// shifts all to the largest exponent and cuts what is below 24 bits, which is less than `2 U` of the
/// sum of all magnitudes, at most 1, for each of `n + 1` terms and for the result (Fasi, Higham,
/// Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores, 2021). That makes less than `3 n U`;
/// sums of a few parts in single precision are less than the rest.
pub(super) fn summing_error(width: usize) -> f64 {
    4.0 * (width + 8) as f64 * U
}

impl<'a> GpuSieve<'a> {
    /// Codes `columns` of `source` for products with `rows`.
    pub(crate) fn new(
        card: Arc<Card>,
        rows: &'a dyn Source,
        source: &dyn Source,
        columns: &[u32],
        scale: Scale,
    ) -> Result<Self, Error> {
        let of_rows = rows.residence().codes(&card, rows)?;
        let coded = Columns::new(&card, source, columns)?;
        let target = Target::new(rows, source, columns, scale);
        Ok(GpuSieve { card, target, rows: of_rows, columns: coded })
    }

    fn search(&self, rows: &[u32], aim: &BlockCuts, largest: f64) -> Result<Vec<u64>, Error> {
        let source = self.target.rows;
        let error = coding_error(source.dim());
        // The sum is rounded too; that counts as an error of the rows.
        let row_error = error + 1.01 * summing_error(width(source.dim()));
        let limits: Vec<f32> = (0..self.columns.count)
            .map(|column| round_down(aim.limit(column, row_error, error)))
            .collect();
        let factor = |&row: &u32| match self.target.scale {
            Scale::Vectors if largest > 0.0 => (source.norm(row) / largest) as f32 / SCALE,
            _ => 1.0 / SCALE,
        };
        let factors: Vec<f32> = rows.iter().map(factor).collect();
        let tilted = aim.largest_offset > 0.0;
        let tilts: Vec<f32> = aim.tilts.iter().map(|&tilt| tilt as f32).collect();

        let mut lane = self.card.lane()?;
        let gpu = lane.gpu.clone();
        let of = |numbers: &[f32]| Array::of(&gpu, numbers);
        let stride = self.columns.count.min(self.card.tiles.columns).next_multiple_of(8);
        let loaded = match run(rows) {
            Some(together) => Some(self.rows.load(&mut lane, source, together)?),
            None => None,
        };
        let job = Job {
            card: &self.card,
            width: width(source.dim()),
            rows: self.together(&mut lane, rows)?,
            columns: &self.columns,
            factors: of(&factors)?,
            offsets: if tilted { Some(of(&aim.offsets)?) } else { None },
            limits: of(&limits)?,
            tilts: if tilted { Some(of(&tilts)?) } else { None },
            stride,
            products: Array::empty(&gpu, rows.len().min(self.card.tiles.rows) * stride)?,
            found: Array::empty(&gpu, 1 + self.room(rows.len()))?,
        };
        let mut found = Vec::new();
        job.sift(&mut lane, 0..rows.len(), &mut found)?;
        if let Some(loaded) = loaded {
            self.rows.done(loaded);
        }
        Ok(found)
    }

    /// The capacity of the list for so many rows: at least all pairs of one row.
    fn room(&self, rows: usize) -> usize {
        let columns = self.columns.count;
        self.card.tiles.found.max(columns).min(rows * columns)
    }

    /// The codes of some rows, kept on the GPU if the rows are consecutive and there is room.
    fn together(&self, lane: &mut Lane, rows: &[u32]) -> Result<Rows, Error> {
        let source = self.target.rows;
        if let (Some(kept), Some(run)) = (&self.rows.kept, run(rows)) {
            return Ok(Rows { codes: kept.clone(), first: run.start });
        }
        let width = width(source.dim());
        let codes = Array::empty(&lane.gpu, rows.len() * width)?;
        match self.rows.having(rows) {
            Some(kept) => {
                let places = Array::of(&lane.gpu, rows)?;
                let (count, eighths) = (rows.len(), width / 8);
                let arguments: [Argument; 5] =
                    [kept.into(), (&places).into(), (&codes).into(), count.into(), eighths.into()];
                let grid = Grid::blocks(count.div_ceil(8), 256);
                // SAFETY: the kernel takes these; rows are in `kept`, and `codes` has room for them.
                unsafe { lane.gpu.launch(&KERNELS, "gather", grid, &arguments)? };
            }
            None => lane.code(source, rows, &codes, 0)?,
        }
        Ok(Rows { codes, first: 0 })
    }
}

impl Sieve for GpuSieve<'_> {
    fn above(&self, rows: &[u32], cuts: &[f64]) -> Result<Vec<(u32, u32)>, Error> {
        if rows.is_empty() || cuts.is_empty() {
            return Ok(Vec::new());
        }
        self.target.rows.check_rows(rows)?;
        let largest = self.target.largest(rows);
        let aim = self.target.aim(rows, cuts, largest, 0.0);
        let mut found = match self.search(rows, &aim, largest) {
            // Fewer rows need less.
            Err(Error::Gpu(error)) if error.is_out_of_memory() && rows.len() > 1 => {
                let (first, rest) = rows.split_at(rows.len() / 2);
                let mut found = self.above(first, cuts)?;
                let after = |(row, column)| (row + first.len() as u32, column);
                found.extend(self.above(rest, cuts)?.into_iter().map(after));
                return Ok(found);
            }
            found => found?,
        };
        found.sort_unstable();
        Ok(found.into_iter().map(|pair| ((pair >> 32) as u32, pair as u32)).collect())
    }

    fn rows_at_once(&self) -> usize {
        (AT_ONCE / width(self.target.rows.dim())).max(1024)
    }
}

impl Columns {
    fn new(card: &Arc<Card>, source: &dyn Source, columns: &[u32]) -> Result<Self, Error> {
        let count = columns.len();
        if let Some(run) = run(columns) {
            let (first, all) = (run.start, source.residence().codes(card, source)?);
            if let Some(codes) = &all.kept {
                let mut lane = card.lane()?;
                let loaded = all.load(&mut lane, source, run)?;
                lane.gpu.wait()?;
                all.done(loaded);
                return Ok(Columns { codes: codes.clone(), first, count });
            }
        }
        let mut lane = card.lane()?;
        let codes = Array::empty(&card.queue, count * width(source.dim()))?;
        lane.code(source, columns, &codes, 0)?;
        // Other queues read them.
        lane.gpu.wait()?;
        Ok(Columns { codes, first: 0, count })
    }
}

/// The places of items if they follow each other.
fn run(items: &[u32]) -> Option<Range<usize>> {
    let first = *items.first()? as usize;
    let follow = items.iter().enumerate().all(|(at, &item)| item as usize == first + at);
    follow.then_some(first..first + items.len())
}

/// The arrays of a call on the GPU.
struct Job<'a> {
    card: &'a Card,
    width: usize,
    rows: Rows,
    columns: &'a Columns,
    factors: Array<f32>,
    offsets: Option<Array<f32>>,
    limits: Array<f32>,
    tilts: Option<Array<f32>>,
    stride: usize,
    products: Array<f16>,
    /// The number of pairs found, then pairs.
    found: Array<u64>,
}

impl Job<'_> {
    /// Appends the pairs of some rows that may be above the limits: row and column in one number.
    fn sift(&self, lane: &mut Lane, rows: Range<usize>, all: &mut Vec<u64>) -> Result<(), Error> {
        let tiles = self.card.tiles;
        self.found.write(0, &[0])?;
        for row in rows.clone().step_by(tiles.rows) {
            let rows = row..rows.end.min(row + tiles.rows);
            for column in (0..self.columns.count).step_by(tiles.columns) {
                let columns = column..self.columns.count.min(column + tiles.columns);
                self.tile(lane, rows.clone(), columns)?;
            }
        }
        let room = self.found.len() - 1;
        let fetched = FETCHED.min(room);
        lane.staging.fetch(&self.found, 0, 1 + fetched)?;
        let numbers = lane.staging.numbers::<u64>()?;
        let count = numbers[0];
        if count > room as u64 {
            // A row alone always has room.
            let parts = (count / room as u64 + 2).min(rows.len() as u64) as usize;
            let size = rows.len().div_ceil(parts.max(2));
            for first in rows.clone().step_by(size) {
                self.sift(lane, first..rows.end.min(first + size), all)?;
            }
            return Ok(());
        }
        let count = count as usize;
        all.extend_from_slice(&numbers[1..=count.min(fetched)]);
        let at_once = lane.staging.capacity::<u64>();
        for first in (fetched..count).step_by(at_once) {
            let more = at_once.min(count - first);
            lane.staging.fetch(&self.found, 1 + first, more)?;
            all.extend_from_slice(&lane.staging.numbers::<u64>()?[..more]);
        }
        Ok(())
    }

    fn tile(&self, lane: &Lane, rows: Range<usize>, columns: Range<usize>) -> Result<(), Error> {
        let (width, stride) = (self.width, self.stride);
        let left = Operand::new(&self.rows.codes, (self.rows.first + rows.start) * width, width);
        let first = (self.columns.first + columns.start) * width;
        let right = Operand::new(&self.columns.codes, first, width).turned();
        let product = Product {
            rows: rows.len(),
            columns: columns.len(),
            depth: width,
            left,
            right,
            keep: 0.0,
            precision: Precision::Single,
        };
        lane.gpu.multiply(product, Operand::new(&self.products, 0, stride))?;
        let arguments: [Argument; 12] = [
            (&self.products).into(),
            rows.len().into(),
            columns.len().into(),
            stride.into(),
            rows.start.into(),
            columns.start.into(),
            (&self.factors).into(),
            self.offsets.as_ref().into(),
            (&self.limits).into(),
            self.tilts.as_ref().into(),
            (&self.found).into(),
            (self.found.len() - 1).into(),
        ];
        let grid = Grid::plane(columns.len().div_ceil(256), rows.len().div_ceil(64), 256);
        // SAFETY: the kernel takes these; products, numbers of rows and of columns are as many, and it
        // lists no more pairs than there is room for.
        unsafe { lane.gpu.launch(&KERNELS, "sift", grid, &arguments)? };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draws;

    /// As the kernel codes.
    fn code(unit: f64) -> f64 {
        let scaled = unit as f32 * 64.0;
        match scaled.abs() < f16::MIN_POSITIVE.to_f32() {
            true => 0.0,
            false => f16::from_f32(scaled).to_f64() / 64.0,
        }
    }

    #[test]
    fn coding_error_is_bounded() {
        let mut draws = Draws::new(8);
        for dim in [1, 3, 64, 700] {
            for kind in 0..4 {
                let number = |draws: &mut Draws, k: usize| match kind {
                    0 => draws.normal(),
                    1 => 1.0 + (2 * (k % 1000) + 1) as f64 / 2048.0,
                    // Next to the smallest normal number.
                    2 => 1.0 / (1u64 << 20) as f64 * (1.0 - 1e-6),
                    _ => draws.normal() * 10f64.powi(-(k as i32 % 12)),
                };
                let mut values: Vec<f64> = (0..dim).map(|k| number(&mut draws, k)).collect();
                if kind == 2 {
                    values[0] = 1.0;
                }
                let norm = values.iter().map(|v| v * v).sum::<f64>().sqrt();
                let lost = values.iter().map(|v| (v / norm - code(v / norm)).powi(2));
                let lost = lost.sum::<f64>().sqrt();
                assert!(lost <= coding_error(dim), "{dim} {kind}: {lost}");
                if kind == 1 && dim >= 64 {
                    assert!(lost > coding_error(dim) / 4.0, "a bound that says something");
                }
            }
        }
    }

    #[test]
    fn runs_of_items() {
        assert_eq!(run(&[4, 5, 6]), Some(4..7));
        assert_eq!(run(&[7]), Some(7..8));
        assert_eq!(run(&[4, 6]), None);
        assert_eq!(run(&[5, 4]), None);
        assert_eq!(run(&[4, 4]), None);
        assert_eq!(run(&[]), None);
    }
}
