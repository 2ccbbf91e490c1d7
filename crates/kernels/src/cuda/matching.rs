//! Scores of some pairs and their gradients on a GPU, stored in single precision.
//!
//! The pairs of a call are taken some at a time. Their queries stand one pair after the other, and
//! contexts are padded to the longest: products of many small matrices are one call. Names are those
//! of `cross`.
//!
//! Several members of an ensemble have equally many contexts each, and their lines are padded to equally
//! many: what their memories make of rows is one product with as many matrices as there are members.

mod backward;
mod layers;
mod pass;
mod portions;

use std::sync::Arc;

use nextpair_cuda::{Array, Grid};

use super::Unit;
use super::tables::{EvenRows, MemoryArrays, Rows};
use crate::{Attention, Error};
use backward::{OfMemory, Sums};
use layers::Layers;
use portions::Portions;

/// What all pairs of some contexts and queries share, in one direction.
pub(crate) struct Prepared {
    attending: Array<u32>,
    memory: Option<Layers>,
    context_offsets: Array<u32>,
    /// Contexts, padded.
    padded: Array<f32>,
    /// Gram matrices of the contexts.
    grams: Array<f32>,
    queries: EvenRows,
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
        queries: EvenRows,
    ) -> Result<Self, Error> {
        let rows = contexts.longest();
        let context_offsets = unit.offsets(contexts.offsets)?;
        let padded = if contexts.is_uniform() {
            contexts.values.clone()
        } else {
            unit.padded(contexts, 0, (rows, dim))?
        };
        let grams = unit.grams(&padded, contexts.len(), (rows, dim))?;
        let norms = unit.norms(&queries.values, dim)?;
        let (members, memory) = (queries.members, memory.filter(|_| attention.steps > 1));
        let memory = memory.map(|memory| Layers::new(unit, dim, members, memory)).transpose()?;
        let tables = memory.as_ref().map(|memory| {
            let projected = unit.empty(padded.len() * 2)?;
            memory.project(unit, &padded, dim, &projected)?;
            let of_queries = unit.empty(2 * queries.values.len())?;
            memory.project(unit, &queries.values, 0, &of_queries)?;
            Ok::<_, Error>((projected, of_queries))
        });
        let (attending, tables) = (unit.attending(&attention)?, tables.transpose()?);
        Ok(Prepared { attending, memory, context_offsets, padded, grams, queries, norms, tables })
    }
}

impl<'a> Matched<'a> {
    pub(crate) fn new(
        unit: &'a Unit,
        dim: usize,
        attention: Attention,
        contexts: Rows<'a>,
        prepared: Arc<Prepared>,
    ) -> Self {
        let (rows, most) = (contexts.longest(), prepared.queries.longest());
        Matched { unit, dim, attention, contexts, rows, most, prepared }
    }

    fn members(&self) -> usize {
        self.prepared.queries.members
    }

    /// Adds the scores of `(context, item)` pairs to `out`.
    pub(crate) fn add_scores(
        &self,
        pairs: &[(u32, u32)],
        out: &mut Array<f32>,
    ) -> Result<(), Error> {
        let portions = self.portions(pairs);
        let mut first = 0;
        // Where the order is another, the scores are put in order at the end.
        let ordered = portions.order.as_ref().map(|_| self.unit.zeros(pairs.len())).transpose()?;
        let sums = ordered.as_ref().unwrap_or(out);
        for pairs in &portions.pairs {
            let pass = self.forward(pairs)?;
            let arguments = [sums.at(first).into(), (&pass.scores).into(), pairs.len().into()];
            self.unit.run("add", Grid::each(pairs.len()), &arguments)?;
            first += pairs.len();
        }
        match (&ordered, portions.places()) {
            (Some(ordered), Some(places)) => self.unit.add_picked(out, ordered, &places),
            _ => Ok(()),
        }
    }

    /// The gradients of the scores of pairs, with `upstream` those of the scores.
    pub(crate) fn gradients(
        &self,
        pairs: &[(u32, u32)],
        upstream: &Array<f32>,
    ) -> Result<Gradients, Error> {
        let (unit, dim, members) = (self.unit, self.dim, self.members());
        let memory = self.prepared.memory.as_ref().map(|_| {
            let projected = unit.zeros(self.prepared.padded.len() * 2)?;
            let weights = unit.zeros(members * 4 * dim * dim)?;
            let bias = unit.zeros(members * 2 * dim)?;
            Ok::<_, Error>(OfMemory { members, projected, weights, bias })
        });
        let mut sums = Sums {
            padded: unit.zeros(self.prepared.padded.len())?,
            queries: unit.zeros(self.prepared.queries.values.len())?,
            memory: memory.transpose()?,
        };
        let Portions { pairs, order } = self.portions(pairs);
        let ordered = order.map(|order| {
            let mut ordered = unit.zeros(order.len())?;
            unit.add_picked(&mut ordered, upstream, &order)?;
            Ok::<_, Error>(ordered)
        });
        let ordered = ordered.transpose()?;
        let upstream = ordered.as_ref().unwrap_or(upstream);
        let mut first = 0;
        for pairs in &pairs {
            let pass = self.forward(pairs)?;
            self.backward(&pass, upstream.at(first), &mut sums)?;
            first += pairs.len();
        }
        self.finish(sums)
    }
}
