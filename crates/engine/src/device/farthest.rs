//! Which items may be farthest from all centres, by a GPU.
//!
//! It keeps, for every item, an upper bound on the squared distance to its nearest centre. New centres
//! lower the bounds by one product with all items. Items below a floor cannot be the farthest while
//! another is known to be above it, so that the CPU looks at few.

use std::ops::Range;
use std::sync::Arc;

use half::f16;
use nextpair_cuda::{Argument, Array, Grid, Operand, Precision, Product};
use rayon::prelude::*;

use super::card::{Card, KERNELS, Lane, width};
use super::codes::{BLOCK, Codes};
use super::search::{AT_ONCE, coding_error, summing_error};
use crate::Error;
use crate::screen::{Source, U, round_up};

/// Bounds on the distances of the items of a source.
pub(crate) struct Farthest<'a> {
    card: Arc<Card>,
    source: &'a dyn Source,
    codes: Arc<Codes>,
    count: usize,
    /// The largest norm of an item: the unit of lengths on the GPU.
    unit: f64,
    norms: Array<f32>,
    bounds: Array<f32>,
}

/// Items that may be the farthest: the squared distances of all others are below the floor.
pub(crate) struct FarItems {
    pub(crate) floor: f64,
    pub(crate) items: Vec<u32>,
}

/// New centres on the GPU.
struct Centres {
    codes: Array<f16>,
    norms: Array<f32>,
    count: usize,
}

/// Least size of the sample of bounds that floors are taken from, if there are as many.
const SAMPLE: usize = 1 << 16;
/// The widest step between those of a sample.
const STEP: usize = 256;
/// Lengths that a largest norm may have: their squares keep their digits.
const UNITS: Range<f64> = 1e-140..1e150;

impl<'a> Farthest<'a> {
    /// The items of `source`, whose squared distances to their nearest centres are known. `None` if their lengths are
    /// beyond the range of a GPU.
    pub(crate) fn new(
        card: Arc<Card>,
        source: &'a dyn Source,
        squares: &[f64],
    ) -> Result<Option<Self>, Error> {
        let count = squares.len();
        let items = || (0..count as u32).into_par_iter();
        let unit = items().map(|item| source.norm(item)).reduce(|| 0.0, f64::max);
        if !UNITS.contains(&unit) {
            return Ok(None);
        }
        let norms: Vec<f32> = items().map(|item| (source.norm(item) / unit) as f32).collect();
        // With the rounding of canonical squares and of this.
        let bound = |square: &f64| round_up(square / (unit * unit) * (1.0 + 1e-9));
        let bounds: Vec<f32> = squares.par_iter().map(bound).collect();
        let codes = source.residence().codes(&card, source)?;
        let (norms, bounds) = (Array::of(&card.queue, &norms)?, Array::of(&card.queue, &bounds)?);
        // Other queues use them.
        card.queue.wait()?;
        let farthest = Farthest { card, source, codes, count, unit, norms, bounds };
        farthest.load()?;
        Ok(Some(farthest))
    }

    /// Puts the codes of all items there, if there is room.
    fn load(&self) -> Result<(), Error> {
        (0..self.count).into_par_iter().step_by(BLOCK).try_for_each(|first| {
            let rows = first..self.count.min(first + BLOCK);
            if self.codes.has(rows.clone()) {
                return Ok(());
            }
            let mut lane = self.card.lane()?;
            let loaded = self.codes.load(&mut lane, self.source, rows)?;
            lane.gpu.wait()?;
            self.codes.done(loaded);
            Ok(())
        })
    }

    /// Multiplications of the CPU that cost as much as another pass of the GPU.
    pub(crate) fn patience(&self) -> usize {
        (self.count * self.source.dim() / 16).max(8 * self.card.tiles.found)
    }

    /// The fewest items that are worth a pass of the GPU.
    pub(crate) fn at_least(&self) -> usize {
        (self.card.tiles.found / 256).max(1)
    }

    /// Makes some items centres.
    pub(crate) fn add(&self, items: &[u32]) -> Result<(), Error> {
        for items in items.chunks(self.card.tiles.columns) {
            let centres = self.centres(items)?;
            let (stride, width) = (items.len().next_multiple_of(8), width(self.source.dim()));
            let tiles = self.card.tiles;
            let mut at_once = tiles.rows * (tiles.columns / stride).max(1);
            if self.codes.kept.is_none() {
                at_once = at_once.min((AT_ONCE / width).max(1));
            }
            (0..self.count).into_par_iter().step_by(at_once).try_for_each(|first| {
                let rows = first..self.count.min(first + at_once);
                let mut lane = self.card.lane()?;
                let (codes, first) = self.codes_of(&mut lane, &rows)?;
                let left = Operand::new(&codes, first * width, width);
                self.approach(&lane, rows, left, &centres)?;
                // What it used goes back to its queue, and other queues read the bounds.
                lane.gpu.wait().map_err(Error::from)
            })?;
        }
        Ok(())
    }

    /// The codes of items and norms of new centres.
    fn centres(&self, items: &[u32]) -> Result<Centres, Error> {
        let norm = |&item: &u32| (self.source.norm(item) / self.unit) as f32;
        let norms: Vec<f32> = items.iter().map(norm).collect();
        let mut lane = self.card.lane()?;
        let codes = Array::empty(&self.card.queue, items.len() * width(self.source.dim()))?;
        lane.code(self.source, items, &codes, 0)?;
        let norms = Array::of(&self.card.queue, &norms)?;
        lane.gpu.wait()?;
        self.card.queue.wait()?;
        Ok(Centres { codes, norms, count: items.len() })
    }

    /// Where the codes of some items are.
    fn codes_of(&self, lane: &mut Lane, rows: &Range<usize>) -> Result<(Array<f16>, usize), Error> {
        if let Some(kept) = &self.codes.kept {
            return Ok((kept.clone(), rows.start));
        }
        let items: Vec<u32> = (rows.start as u32..rows.end as u32).collect();
        let codes = Array::empty(&lane.gpu, rows.len() * width(self.source.dim()))?;
        lane.code(self.source, &items, &codes, 0)?;
        Ok((codes, 0))
    }

    /// Lowers the bounds of some items, whose codes are the rows of `left`.
    fn approach(
        &self,
        lane: &Lane,
        rows: Range<usize>,
        left: Operand,
        centres: &Centres,
    ) -> Result<(), Error> {
        let (width, stride) = (width(self.source.dim()), centres.count.next_multiple_of(8));
        let products: Array<f16> = Array::empty(&lane.gpu, rows.len() * stride)?;
        let product = Product {
            rows: rows.len(),
            columns: centres.count,
            depth: width,
            left,
            right: Operand::new(&centres.codes, 0, width).turned(),
            keep: 0.0,
            precision: Precision::Single,
        };
        lane.gpu.multiply(product, Operand::new(&products, 0, stride))?;
        let coding = coding_error(self.source.dim());
        let of_item = coding + 1.01 * summing_error(width);
        let error = round_up(of_item + (1.0 + of_item) * coding);
        let arguments: [Argument; 10] = [
            (&products).into(),
            rows.len().into(),
            centres.count.into(),
            stride.into(),
            rows.start.into(),
            (&self.norms).into(),
            (&centres.norms).into(),
            error.into(),
            // Norms, the cosine and the sum are rounded a dozen times.
            round_up(32.0 * U).into(),
            (&self.bounds).into(),
        ];
        let grid = Grid::each(rows.len() * (stride / 8));
        // SAFETY: the kernel takes these; there are as many products as items and centres, and norms
        // and bounds of all items.
        unsafe { lane.gpu.launch(&KERNELS, "approach", grid, &arguments)? };
        Ok(())
    }

    /// About `wanted` items that may be farthest. `None` if they are so many that the CPU may as well compute all.
    pub(crate) fn farthest(&self, wanted: usize) -> Result<Option<FarItems>, Error> {
        if wanted > self.count / 2 {
            return Ok(None);
        }
        let lane = self.card.lane()?;
        let step = (self.count / SAMPLE).clamp(1, STEP);
        let sampled: Array<f32> = Array::empty(&lane.gpu, self.count.div_ceil(step))?;
        let arguments: [Argument; 4] =
            [(&self.bounds).into(), step.into(), (&sampled).into(), sampled.len().into()];
        // SAFETY: the kernel takes these, and there is room for the sample.
        unsafe { lane.gpu.launch(&KERNELS, "sample", Grid::each(sampled.len()), &arguments)? };
        let mut bounds = sampled.to_vec()?;
        let place = (wanted / step).min(bounds.len() - 1);
        let (_, &mut floor, _) = bounds.select_nth_unstable_by(place, |a, b| b.total_cmp(a));
        if !(floor > 0.0 && floor.is_finite()) {
            return Ok(None);
        }
        let items = self.at_least_as_far(&lane, floor, 2 * wanted)?;
        // Bounds that are lower are so by more than this product is rounded.
        let floor = f64::from(floor) * (self.unit * self.unit);
        Ok((items.len() <= self.count / 2).then_some(FarItems { floor, items }))
    }

    /// The items whose bounds are at least `floor`; about `expected`.
    fn at_least_as_far(&self, lane: &Lane, floor: f32, expected: usize) -> Result<Vec<u32>, Error> {
        let mut room = expected;
        loop {
            let found: Array<u32> = Array::empty(&lane.gpu, 1 + room)?;
            found.write(0, &[0])?;
            let arguments: [Argument; 5] = [
                (&self.bounds).into(),
                self.count.into(),
                floor.into(),
                (&found).into(),
                room.into(),
            ];
            // SAFETY: the kernel takes these, and lists no more items than there is room for.
            unsafe { lane.gpu.launch(&KERNELS, "reach", Grid::each(self.count), &arguments)? };
            let count = found.read(0, 1)?[0] as usize;
            if count <= room {
                return Ok(found.read(1, count)?);
            }
            room = count;
        }
    }
}
