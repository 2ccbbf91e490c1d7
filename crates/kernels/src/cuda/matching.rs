//! Scores of some pairs and their gradients on a GPU, in single precision.
//!
//! The pairs of a call are taken some at a time. Their queries are padded to the longest, and so are
//! contexts: products of many small matrices are one call. Names are those of `cross`.

mod backward;
mod layers;
mod pass;

use nextpair_cuda::{Array, Grid, Operand};

use super::Unit;
use super::tables::{MemoryArrays, Rows};
use crate::{Attention, Error};
use backward::{OfMemory, Sums};
use layers::{Layers, pad};

/// Rows of queries computed together.
const ROWS: usize = 1 << 14;

/// Threads of a block that attends for a pair.
const PAIR_THREADS: u32 = 128;

/// Attention in one direction between contexts and queries that are on a GPU.
pub(crate) struct Matched<'a> {
    unit: &'a Unit,
    dim: usize,
    attention: Attention,
    attending: Array<u32>,
    memory: Option<Layers>,
    contexts: Rows<'a>,
    queries: Rows<'a>,
    context_offsets: Array<u32>,
    query_offsets: Array<u32>,
    /// Rows of a context at most, and queries of an item.
    rows: usize,
    most: usize,
    /// Contexts, padded.
    padded: Array<f32>,
    /// Gram matrices of the contexts.
    grams: Array<f32>,
    /// Norms of the queries.
    norms: Array<f32>,
    /// What both layers make of the rows of contexts, and of queries with the biases.
    tables: Option<(Array<f32>, Array<f32>)>,
}

/// The gradients of one direction.
pub(crate) struct Gradients {
    pub(crate) contexts: Array<f32>,
    pub(crate) queries: Array<f32>,
    pub(crate) memory: Option<[Array<f32>; 4]>,
}

impl<'a> Matched<'a> {
    pub(crate) fn new(
        unit: &'a Unit,
        dim: usize,
        attention: Attention,
        memory: Option<MemoryArrays<'a>>,
        contexts: Rows<'a>,
        queries: Rows<'a>,
    ) -> Result<Self, Error> {
        let (rows, most) = (contexts.longest(), queries.longest());
        let context_offsets = unit.offsets(contexts.offsets)?;
        let query_offsets = unit.offsets(queries.offsets)?;
        let padded = if contexts.is_uniform() {
            contexts.values.clone()
        } else {
            pad(unit, contexts.values, &context_offsets, None, (contexts.len(), rows, dim))?
        };
        let grams = unit.empty(contexts.len() * rows * rows)?;
        let own = Operand::new(&padded, 0, dim).apart(rows * dim);
        let to = Operand::new(&grams, 0, rows).apart(rows * rows);
        unit.multiply_each(contexts.len(), (rows, rows, dim), own, own.turned(), 0.0, to)?;
        let norms = unit.norms(queries.values, dim)?;
        let memory = memory.filter(|_| attention.steps > 1);
        let memory = memory.map(|memory| Layers::new(unit, dim, memory)).transpose()?;
        let tables = memory.as_ref().map(|memory| {
            let projected = unit.empty(padded.len() * 2)?;
            memory.project(unit, (&padded, padded.len() / dim), dim, 0.0, &projected)?;
            let count = queries.values.len() / dim;
            let of_queries = unit.empty(2 * queries.values.len())?;
            memory.biased(unit, count, &of_queries)?;
            memory.project(unit, (queries.values, count), 0, 1.0, &of_queries)?;
            Ok::<_, Error>((projected, of_queries))
        });
        Ok(Matched {
            unit,
            dim,
            attention,
            attending: unit.attending(&attention)?,
            memory,
            contexts,
            queries,
            context_offsets,
            query_offsets,
            rows,
            most,
            padded,
            grams,
            norms,
            tables: tables.transpose()?,
        })
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
        let memory = self.memory.as_ref().map(|_| {
            let projected = unit.zeros(self.padded.len() * 2)?;
            let (weights, bias) = (unit.zeros(4 * dim * dim)?, unit.zeros(2 * dim)?);
            Ok::<_, Error>(OfMemory { projected, weights, bias })
        });
        let mut sums = Sums {
            padded: unit.zeros(self.padded.len())?,
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
