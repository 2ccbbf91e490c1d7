//! What attention on a GPU needs of settings, items and weights.

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

    /// The norms of rows.
    pub(crate) fn norms(&self, rows: &Array<f32>, dim: usize) -> Result<Array<f32>, Error> {
        let count = rows.len() / dim;
        let out = self.empty(count)?;
        self.run("row_norms", Unit::rows(count), &[(&out).into(), rows.into(), dim.into()])?;
        Ok(out)
    }
}
