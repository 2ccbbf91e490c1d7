//! What attention on a GPU needs of settings, items and weights.

use std::ops::Range;

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

/// Items of members as batched products take them: every member has as many rows, the last of which may be
/// zeros.
#[derive(Clone)]
pub(crate) struct EvenRows {
    pub(crate) members: usize,
    /// Rows of a member.
    pub(crate) width: usize,
    pub(crate) values: Array<f32>,
    /// The rows of each item.
    pub(crate) spans: Vec<Range<usize>>,
    padded: bool,
}

/// Padded members have a multiple of so many rows: few sizes change from step to step.
const EVEN: usize = 32;

impl Rows<'_> {
    /// The same for members that have equally many items.
    pub(crate) fn even(&self, unit: &Unit, dim: usize, members: usize) -> Result<EvenRows, Error> {
        let each = self.len() / members;
        let firsts: Vec<usize> = (0..=members).map(|member| self.offsets[member * each]).collect();
        let longest = firsts.windows(2).map(|own| own[1] - own[0]).max().unwrap_or(0);
        let padded = firsts.windows(2).any(|own| own[1] - own[0] != longest);
        let width = if padded { longest.next_multiple_of(EVEN) } else { longest };
        let spans = self.offsets.windows(2).enumerate().map(|(item, span)| {
            let member = item / each;
            let moved = |row: usize| member * width + row - firsts[member];
            moved(span[0])..moved(span[1])
        });
        let spans = spans.collect();
        let values = match padded {
            true => unit.padded(Rows { values: self.values, offsets: &firsts }, 0, (width, dim))?,
            false => self.values.clone(),
        };
        Ok(EvenRows { members, width, values, spans, padded })
    }
}

impl EvenRows {
    /// Items of a member.
    pub(crate) fn items(&self) -> usize {
        self.spans.len() / self.members
    }

    /// Vectors of an item at most.
    pub(crate) fn longest(&self) -> usize {
        self.spans.iter().map(ExactSizeIterator::len).max().unwrap_or(0)
    }

    /// What belongs to the rows of items, as these were given.
    pub(crate) fn given(
        &self,
        unit: &Unit,
        values: Array<f32>,
        dim: usize,
    ) -> Result<Array<f32>, Error> {
        if !self.padded {
            return Ok(values);
        }
        let places = self.spans.iter().flat_map(|span| span.start as u32..span.end as u32);
        unit.gathered(&values, places.collect(), dim)
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
