//! Tables of images or captions.

use nextpair_cuda::{Array, Operand, Pointer};

use super::{AllMessages, MessageArrays};
use crate::cuda::tables::Rows;
use crate::{Error, MessageForm};

/// Images or captions with what depends on them alone, a row for each vector.
pub(super) struct Table {
    pub(super) items: usize,
    /// Rows of all items, and of an item at most.
    pub(super) rows: usize,
    pub(super) longest: usize,
    /// The first row of each item, then the end of the last.
    pub(super) offsets: Array<u32>,
    /// Vectors, from this row on.
    values: Array<f32>,
    first: usize,
    pub(super) keys: Array<f32>,
    pub(super) queries: Option<Array<f32>>,
    /// Products of the vectors of each item, and of their message queries and keys.
    pub(super) grams: Option<Array<f32>>,
    pub(super) affinities: Option<Array<f32>>,
    /// Vectors through the first half of the fusion.
    pub(super) own: Option<Array<f32>>,
    /// Vectors as messages through the other side's fusion or pool.
    pub(super) sent: Option<Array<f32>>,
    /// Vectors through the first layer of the pool.
    pub(super) pooled: Option<Array<f32>>,
}

impl Table {
    /// Its vectors as a matrix.
    pub(super) fn values(&self, dim: usize) -> Operand {
        Operand::new(&self.values, self.first * dim, dim)
    }

    pub(super) fn values_on_device(&self, dim: usize) -> Pointer {
        self.values.at(self.first * dim)
    }
}

impl AllMessages<'_> {
    /// Tables of items of one side: images (0) or captions (1).
    pub(super) fn table(&self, side: usize, items: Rows<'_>) -> Result<Table, Error> {
        let AllMessages { unit, dim, form, .. } = *self;
        let MessageArrays { key, query, message, fuse, pool, .. } = &self.weights[side];
        let other = &self.weights[1 - side];
        let (first, end) = (items.offsets[0], items.offsets[items.len()]);
        let (rows, longest) = (end - first, items.longest());
        let left = Operand::new(items.values, first * dim, dim);
        let through = |weight: Operand| {
            let out = unit.empty::<f32>(rows * dim)?;
            let to = Operand::new(&out, 0, dim);
            unit.multiply((rows, dim, dim), left, weight.turned(), 0.0, to)?;
            Ok::<_, Error>(out)
        };
        let square = |weight: &Array<f32>| through(Operand::new(weight, 0, dim));
        let half =
            |weight: &Array<f32>, of: usize| through(Operand::new(weight, of * dim, 2 * dim));
        let sent = match (other.fuse, &other.pool) {
            (Some(fuse), _) => Some(half(fuse, 1)?),
            (None, Some(pool)) => Some(square(pool.first)?),
            (None, None) => None,
        };
        let relative: Vec<usize> = items.offsets.iter().map(|offset| offset - first).collect();
        let padded = |values: &Array<f32>, offsets: &[usize]| {
            unit.padded(Rows { values, offsets }, 0, (longest, dim))
        };
        let affinities = message.map(|[query, key]| {
            let [queries, keys] = [query, key].map(|weight| padded(&square(weight)?, &relative));
            unit.products_of_items((&queries?, &keys?), items.len(), (longest, dim))
        });
        let grams = (form != MessageForm::GateFusion).then(|| {
            unit.grams(&padded(items.values, items.offsets)?, items.len(), (longest, dim))
        });
        Ok(Table {
            items: items.len(),
            rows,
            longest,
            offsets: unit.offsets(&relative)?,
            values: items.values.clone(),
            first,
            keys: square(key)?,
            queries: query.map(square).transpose()?,
            grams: grams.transpose()?,
            affinities: affinities.transpose()?,
            own: fuse.map(|fuse| half(fuse, 0)).transpose()?,
            sent,
            pooled: pool.filter(|_| fuse.is_some()).map(|pool| square(pool.first)).transpose()?,
        })
    }
}
