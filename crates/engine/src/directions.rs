//! Items as directions from their mean, with the same bits on every machine, for any threads and any shards.
//!
//! The mean is a sum of whole numbers on a fixed grid. Directions are rounded to multiples of 2^-20: their products
//! are exact, and so are sums of 8,192 of them in any order.

use nextpair_core::Matrix;
use rayon::prelude::*;

use crate::axes::axes;
use crate::error::unless_stopped;
use crate::packed::Packed;
use crate::{Error, Progress};

/// Directions are multiples of this.
pub(crate) const GRID: f64 = 1.0 / (1 << 20) as f64;
/// Directions whose products add up exactly in double precision.
const AT_ONCE: usize = 8192;
/// Values on the grid of the mean have so many bits, and so many of them add up in 64.
const MEAN_BITS: i32 = 40;
const MEAN_ROWS: usize = 1 << 20;

/// The space of some items: their mean and, if there are more dimensions than wanted, their principal axes.
pub(crate) struct Space {
    mean: Vec<f64>,
    axes: Option<Packed>,
}

impl Space {
    /// The space of pool and paired items together, of at most so many dimensions.
    pub(crate) fn of(
        items: [&Matrix; 2],
        dimensions: usize,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let whole = Space { mean: mean_of(items), axes: None };
        let dim = whole.mean.len();
        if dim <= dimensions {
            return Ok(whole);
        }
        // Rows are scaled by a power of two, so that the axes are those of the items' covariance up to the grid.
        let scale = power_above(largest(items, |x| whole.centre(x)));
        let rounded = |matrix: &Matrix, row: usize, out: &mut [f64]| {
            matrix.read_f64(row, out);
            whole.centre(out);
            out.iter_mut().for_each(|x| *x = on_grid(*x / scale));
        };
        let mut sums = vec![0; dim * dim];
        for matrix in items {
            let own = squares(matrix.rows(), dim, |row, out| rounded(matrix, row, out), progress)?;
            sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
        let covariance: Vec<f64> = sums.into_iter().map(|sum| sum as f64).collect();
        let axes = axes(covariance, dim, dimensions);
        let count = axes.len() / dim;
        let axes = Packed::new(dim, count, |at, out| out.copy_from_slice(&axes[at * dim..][..dim]));
        Ok(Space { axes: Some(axes), ..whole })
    }

    /// Dimensions of a direction.
    pub(crate) fn dim(&self) -> usize {
        self.axes.as_ref().map_or(self.mean.len(), Packed::len)
    }

    fn centre(&self, x: &mut [f64]) {
        x.iter_mut().zip(&self.mean).for_each(|(x, mean)| *x -= mean);
    }

    /// The directions of items from the first one on; zero for an item that is the mean.
    fn directions(&self, matrix: &Matrix, first: usize, out: &mut [f64]) {
        let (dim, own) = (self.dim(), self.mean.len());
        let read = |x: &mut [f64]| {
            x.chunks_exact_mut(own).zip(first..).for_each(|(x, row)| {
                matrix.read_f64(row, x);
                self.centre(x);
            });
        };
        match &self.axes {
            None => read(out),
            Some(axes) => {
                let mut x = vec![0.0; out.len() / dim * own];
                read(&mut x);
                axes.products(&x, out);
            }
        }
        for out in out.chunks_exact_mut(dim) {
            // Scaled first, so that squares neither overflow nor underflow.
            let scale = power_above(out.iter().fold(0.0, |most, x| f64::max(most, x.abs())));
            out.iter_mut().for_each(|x| *x /= scale);
            let length = out.iter().fold(0.0, |sum, x| sum + x * x).sqrt();
            let unit = |x: &f64| if length > 0.0 { on_grid(*x / length) } else { 0.0 };
            out.iter_mut().for_each(|x| *x = unit(x));
        }
    }
}

/// Items that lie side by side in memory.
pub(crate) const LANES: usize = 16;

/// The directions of items, dimension by dimension for a group of items. Single precision holds them exactly.
pub(crate) struct Directions {
    pub(crate) count: usize,
    pub(crate) dim: usize,
    pub(crate) groups: Vec<[f32; LANES]>,
}

impl Directions {
    /// The directions of all items.
    pub(crate) fn of(
        space: &Space,
        matrix: &Matrix,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let (count, dim) = (matrix.rows(), space.dim());
        let mut groups = vec![[0.0; LANES]; count.div_ceil(LANES) * dim];
        progress.start("directions", count as u64);
        groups.par_chunks_mut(dim).enumerate().try_for_each(|(group, lanes)| {
            unless_stopped(progress)?;
            let first = group * LANES;
            let mut all = vec![0.0; LANES.min(count - first) * dim];
            space.directions(matrix, first, &mut all);
            for (lane, x) in all.chunks_exact(dim).enumerate() {
                lanes.iter_mut().zip(x).for_each(|(lanes, x)| lanes[lane] = *x as f32);
            }
            progress.advance((all.len() / dim) as u64);
            Ok::<_, Error>(())
        })?;
        Ok(Directions { count, dim, groups })
    }

    /// The direction of an item.
    pub(crate) fn read(&self, item: usize, out: &mut [f64]) {
        let own = &self.groups[item / LANES * self.dim..][..self.dim];
        out.iter_mut().zip(own).for_each(|(x, lanes)| *x = f64::from(lanes[item % LANES]));
    }

    /// A copy of the direction of an item.
    pub(crate) fn own(&self, item: usize) -> Vec<f64> {
        let mut direction = vec![0.0; self.dim];
        self.read(item, &mut direction);
        direction
    }
}

/// The sum of `x x'` over vectors on the grid, as multiples of its square: exact, whatever the order.
pub(crate) fn squares(
    count: usize,
    dim: usize,
    read: impl Fn(usize, &mut [f64]) + Sync,
    progress: &dyn Progress,
) -> Result<Vec<i128>, Error> {
    progress.start("covariance", count as u64);
    let block = |first: usize| -> Result<Vec<i128>, Error> {
        unless_stopped(progress)?;
        let rows = AT_ONCE.min(count - first);
        let mut columns = vec![0.0; dim * rows];
        let mut x = vec![0.0; dim];
        for row in 0..rows {
            read(first + row, &mut x);
            columns.iter_mut().skip(row).step_by(rows).zip(&x).for_each(|(place, x)| *place = *x);
        }
        let packed =
            Packed::new(rows, dim, |at, out| out.copy_from_slice(&columns[at * rows..][..rows]));
        let mut products = vec![0.0; dim * dim];
        packed.upper_products(&columns, &mut products);
        for at in 0..dim * dim {
            let (row, column) = (at / dim, at % dim);
            if column < row {
                products[at] = products[column * dim + row];
            }
        }
        progress.advance(rows as u64);
        Ok(products.into_iter().map(|product| (product / (GRID * GRID)) as i128).collect())
    };
    let starts: Vec<usize> = (0..count).step_by(AT_ONCE).collect();
    let add = |mut one: Vec<i128>, other: Vec<i128>| {
        one.iter_mut().zip(other).for_each(|(one, other)| *one += other);
        Ok(one)
    };
    starts.into_par_iter().map(block).try_reduce(|| vec![0; dim * dim], add)
}

/// The mean of all items.
fn mean_of(items: [&Matrix; 2]) -> Vec<f64> {
    let dim = items[0].dim();
    let grid = power_above(largest(items, |_| {})) / (1u64 << MEAN_BITS) as f64;
    let mut sums = vec![0i128; dim];
    for matrix in items {
        for first in (0..matrix.rows()).step_by(MEAN_ROWS) {
            let rows = first..matrix.rows().min(first + MEAN_ROWS);
            let add = |mut sums: Vec<i64>, row: usize| {
                let mut x = vec![0.0; dim];
                matrix.read_f64(row, &mut x);
                sums.iter_mut().zip(&x).for_each(|(sum, x)| *sum += (x / grid).round() as i64);
                sums
            };
            let join = |mut one: Vec<i64>, other: Vec<i64>| {
                one.iter_mut().zip(other).for_each(|(one, other)| *one += other);
                one
            };
            let own = rows.into_par_iter().fold(|| vec![0; dim], add).reduce(|| vec![0; dim], join);
            sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += i128::from(own));
        }
    }
    let count = (items[0].rows() + items[1].rows()) as f64;
    sums.into_iter().map(|sum| sum as f64 / count * grid).collect()
}

/// The largest number of all items, without its sign, after a change of each.
fn largest(items: [&Matrix; 2], change: impl Fn(&mut [f64]) + Sync) -> f64 {
    let of_row = |(matrix, row): (&Matrix, usize)| {
        let mut x = vec![0.0; matrix.dim()];
        matrix.read_f64(row, &mut x);
        change(&mut x);
        x.iter().fold(0.0, |most, x| f64::max(most, x.abs()))
    };
    let of = |matrix: &Matrix| {
        (0..matrix.rows()).into_par_iter().map(|row| of_row((matrix, row))).reduce(|| 0.0, f64::max)
    };
    f64::max(of(items[0]), of(items[1]))
}

/// A power of two above a number that is not negative, and 1 for zero.
fn power_above(number: f64) -> f64 {
    if number == 0.0 {
        return 1.0;
    }
    // Far below every feature, and far enough from the ends for what is done with it.
    let exponent = ((number.to_bits() >> 52) as i64 - 1023 + 1).clamp(-900, 1000);
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// The nearest multiple of the grid.
pub(crate) fn on_grid(number: f64) -> f64 {
    (number / GRID).round() * GRID
}
