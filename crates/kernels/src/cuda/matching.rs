//! Scores of some pairs and their gradients on a GPU, stored in single precision.
//!
//! The pairs of a call are taken some at a time. Their queries stand one pair after the other, and
//! contexts are padded to the longest: products of many small matrices are one call. Names are those
//! of `cross`.

mod backward;
mod layers;
mod pass;

use std::sync::Arc;

use nextpair_cuda::{Array, Grid};

use super::Unit;
use super::tables::{MemoryArrays, Rows};
use crate::{Attention, Error};
use backward::{OfMemory, Sums};
use layers::Layers;

/// Queries computed together.
const ROWS: usize = 1 << 14;

/// What all pairs of some contexts and queries share, in one direction.
pub(crate) struct Prepared {
    attending: Array<u32>,
    memory: Option<Layers>,
    context_offsets: Array<u32>,
    /// Contexts, padded.
    padded: Array<f32>,
    /// Gram matrices of the contexts.
    grams: Array<f32>,
    /// Norms of the queries.
    norms: Array<f32>,
    /// What both layers make of the rows of contexts, and of queries.
    tables: Option<(Array<f32>, Array<f32>)>,
}

/// Attention in one direction between contexts and queries that are on a GPU.
pub(crate) struct Matched<'a> {
    unit: &'a Unit,
    dim: usize,
    attention: Attention,
    contexts: Rows<'a>,
    queries: Rows<'a>,
    /// Rows of a context at most, and queries of an item.
    rows: usize,
    most: usize,
    prepared: Arc<Prepared>,
}

/// The gradients of one direction.
pub(crate) struct Gradients {
    pub(crate) contexts: Array<f32>,
    pub(crate) queries: Array<f32>,
    pub(crate) memory: Option<[Array<f32>; 4]>,
}

impl Prepared {
    pub(crate) fn new(
        unit: &Unit,
        dim: usize,
        attention: Attention,
        memory: Option<MemoryArrays<'_>>,
        contexts: Rows<'_>,
        queries: Rows<'_>,
    ) -> Result<Self, Error> {
        let rows = contexts.longest();
        let context_offsets = unit.offsets(contexts.offsets)?;
        let padded = if contexts.is_uniform() {
            contexts.values.clone()
        } else {
            unit.padded(contexts, 0, (rows, dim))?
        };
        let grams = unit.grams(&padded, contexts.len(), (rows, dim))?;
        let norms = unit.norms(queries.values, dim)?;
        let memory = memory.filter(|_| attention.steps > 1);
        let memory = memory.map(|memory| Layers::new(unit, dim, memory)).transpose()?;
        let tables = memory.as_ref().map(|memory| {
            let projected = unit.empty(padded.len() * 2)?;
            memory.project(unit, (&padded, padded.len() / dim), dim, &projected)?;
            let count = queries.values.len() / dim;
            let of_queries = unit.empty(2 * queries.values.len())?;
            memory.project(unit, (queries.values, count), 0, &of_queries)?;
            Ok::<_, Error>((projected, of_queries))
        });
        let (attending, tables) = (unit.attending(&attention)?, tables.transpose()?);
        Ok(Prepared { attending, memory, context_offsets, padded, grams, norms, tables })
    }
}

impl<'a> Matched<'a> {
    pub(crate) fn new(
        unit: &'a Unit,
        dim: usize,
        attention: Attention,
        contexts: Rows<'a>,
        queries: Rows<'a>,
        prepared: Arc<Prepared>,
    ) -> Self {
        let (rows, most) = (contexts.longest(), queries.longest());
        Matched { unit, dim, attention, contexts, queries, rows, most, prepared }
    }

    /// Pairs computed together.
    fn at_once(&self) -> usize {
        (ROWS / self.most.max(1)).max(1)
    }

    /// Adds the scores of `(context, item)` pairs to `out`.
    pub(crate) fn add_scores(
        &self,
        pairs: &[(u32, u32)],
        out: &mut Array<f32>,
    ) -> Result<(), Error> {
        let mut first = 0;
        for pairs in pairs.chunks(self.at_once()) {
            let pass = self.forward(pairs)?;
            let arguments = [out.at(first).into(), (&pass.scores).into(), pairs.len().into()];
            self.unit.run("add", Grid::each(pairs.len()), &arguments)?;
            first += pairs.len();
        }
        Ok(())
    }

    /// The gradients of the scores of pairs, with `upstream` those of the scores.
    pub(crate) fn gradients(
        &self,
        pairs: &[(u32, u32)],
        upstream: &Array<f32>,
    ) -> Result<Gradients, Error> {
        let (unit, dim) = (self.unit, self.dim);
        let memory = self.prepared.memory.as_ref().map(|_| {
            let projected = unit.zeros(self.prepared.padded.len() * 2)?;
            let (weights, bias) = (unit.zeros(4 * dim * dim)?, unit.zeros(2 * dim)?);
            Ok::<_, Error>(OfMemory { projected, weights, bias })
        });
        let mut sums = Sums {
            padded: unit.zeros(self.prepared.padded.len())?,
            queries: unit.zeros(self.queries.values.len())?,
            memory: memory.transpose()?,
        };
        let mut first = 0;
        for pairs in pairs.chunks(self.at_once()) {
            let pass = self.forward(pairs)?;
            self.backward(&pass, upstream.at(first), &mut sums)?;
            first += pairs.len();
        }
        self.finish(sums)
    }
}
