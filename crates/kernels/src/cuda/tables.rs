//! What attention on a GPU needs of settings, items and weights.

use nextpair_cuda::{Array, Operand};

use super::Unit;
use crate::{Aggregation, Attention, Error, Normaliser};

/// The weights of a memory on a GPU: those of the proposal, its biases, those of the gate, its
/// biases.
pub(crate) type MemoryArrays<'a> = [&'a Array<f32>; 4];

/// Items with several vectors each on a GPU.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    /// The vectors of all items.
    pub(crate) values: &'a Array<f32>,
    /// The first row of each item, then the end of the last.
    pub(crate) offsets: &'a [usize],
}

impl Rows<'_> {
    /// Number of items.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Vectors of an item at most.
    pub(crate) fn longest(&self) -> usize {
        self.offsets.windows(2).map(|span| span[1] - span[0]).max().unwrap_or(0)
    }

    /// Whether all items have as many vectors.
    pub(crate) fn is_uniform(&self) -> bool {
        let longest = self.longest();
        self.offsets.windows(2).all(|span| span[1] - span[0] == longest)
    }
}

impl Unit {
    /// The settings of attention, as kernels read them.
    pub(crate) fn attending(&self, attention: &Attention) -> Result<Array<u32>, Error> {
        let normaliser = match attention.normaliser {
            Normaliser::Clipped | Normaliser::None => 0,
            Normaliser::ClippedL2 | Normaliser::L2 => 1,
            Normaliser::ClippedL1 | Normaliser::L1 => 2,
            Normaliser::Softmax => 3,
        };
        let (aggregation, factor) = match attention.aggregation {
            Aggregation::Mean => (0, 0.0),
            Aggregation::Sum => (1, 0.0),
            Aggregation::Max => (2, 0.0),
            Aggregation::LogSumExp(factor) => (3, factor),
        };
        self.array(&[
            normaliser,
            attention.normaliser.clips().into(),
            attention.temperature.to_bits(),
            aggregation,
            factor.to_bits(),
        ])
    }

    /// The rows of items but for the first ones that are `skipped`, padded to `most` of each.
    pub(crate) fn padded(
        &self,
        items: Rows<'_>,
        skipped: usize,
        (most, dim): (usize, usize),
    ) -> Result<Array<f32>, Error> {
        let count = items.len() * most;
        let (out, offsets) = (self.empty(count * dim)?, self.offsets(items.offsets)?);
        let arguments = [
            (&out).into(),
            items.values.into(),
            (&offsets).into(),
            skipped.into(),
            most.into(),
            dim.into(),
        ];
        self.run("pad_items", Unit::rows(count), &arguments)?;
        Ok(out)
    }

    /// The rows of items that were padded to `most` of each.
    pub(crate) fn unpadded(
        &self,
        padded: Array<f32>,
        items: Rows<'_>,
        (most, dim): (usize, usize),
    ) -> Result<Array<f32>, Error> {
        if items.is_uniform() {
            return Ok(padded);
        }
        let spans = items.offsets.windows(2).enumerate();
        let places = spans.flat_map(|(item, span)| {
            (0..span[1] - span[0]).map(move |row| (item * most + row) as u32)
        });
        self.gathered(&padded, places.collect(), dim)
    }

    /// Some rows of a table, one after the other.
    pub(crate) fn gathered(
        &self,
        table: &Array<f32>,
        rows: Vec<u32>,
        dim: usize,
    ) -> Result<Array<f32>, Error> {
        let (out, places) = (self.empty(rows.len() * dim)?, self.array(&rows)?);
        let arguments = [(&out).into(), table.into(), (&places).into(), dim.into()];
        self.run("gather", Unit::rows(rows.len()), &arguments)?;
        Ok(out)
    }

    /// Products of the rows of each of `count` items, which have `rows` of `dim` numbers.
    pub(crate) fn grams(
        &self,
        padded: &Array<f32>,
        count: usize,
        size: (usize, usize),
    ) -> Result<Array<f32>, Error> {
        self.products_of_items((padded, padded), count, size)
    }

    /// Products of the rows that two tables have of each of `count` items.
    pub(crate) fn products_of_items(
        &self,
        (left, right): (&Array<f32>, &Array<f32>),
        count: usize,
        (rows, dim): (usize, usize),
    ) -> Result<Array<f32>, Error> {
        let out = self.empty(count * rows * rows)?;
        let item = |table: &Array<f32>| Operand::new(table, 0, dim).apart(rows * dim);
        let to = Operand::new(&out, 0, rows).apart(rows * rows);
        let (left, right) = (item(left), item(right).turned());
        self.multiply_each(count, (rows, rows, dim), left, right, 0.0, to)?;
        Ok(out)
    }

    /// The norms of rows.
    pub(crate) fn norms(&self, rows: &Array<f32>, dim: usize) -> Result<Array<f32>, Error> {
        let count = rows.len() / dim;
        let out = self.empty(count)?;
        self.run("row_norms", Unit::rows(count), &[(&out).into(), rows.into(), dim.into()])?;
        Ok(out)
    }
}
