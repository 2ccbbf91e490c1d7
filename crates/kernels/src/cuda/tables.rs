//! What attention on a GPU needs of settings, items and weights.

use std::ops::Range;

use nextpair_cuda::Array;

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
            true => unit.padded(self.values, &unit.offsets(&firsts)?, (members, width, dim))?,
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
        unit.unpadded(&values, &places.collect::<Vec<_>>(), dim)
    }
}

impl Unit {
    /// The rows of items, padded with zeros to as many.
    pub(crate) fn padded(
        &self,
        rows: &Array<f32>,
        offsets: &Array<u32>,
        (count, most, dim): (usize, usize, usize),
    ) -> Result<Array<f32>, Error> {
        let out = self.empty(count * most * dim)?;
        let arguments = [(&out).into(), rows.into(), offsets.into(), most.into(), dim.into()];
        self.run("pad_items", Unit::rows(count * most), &arguments)?;
        Ok(out)
    }

    /// Rows that lie at some places of a padded buffer.
    pub(crate) fn unpadded(
        &self,
        padded: &Array<f32>,
        places: &[u32],
        dim: usize,
    ) -> Result<Array<f32>, Error> {
        let (out, of) = (self.empty(places.len() * dim)?, self.array(places)?);
        let arguments = [(&out).into(), padded.into(), (&of).into(), dim.into()];
        self.run("unpad_rows", Unit::rows(places.len()), &arguments)?;
        Ok(out)
    }

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

    /// The norms of rows.
    pub(crate) fn norms(&self, rows: &Array<f32>, dim: usize) -> Result<Array<f32>, Error> {
        let count = rows.len() / dim;
        let out = self.empty(count)?;
        self.run("row_norms", Unit::rows(count), &[(&out).into(), rows.into(), dim.into()])?;
        Ok(out)
    }
}
