//! Gradients of the scores of some pairs.
//!
//! Pairs are processed in groups of bounded size. Every chunk of a group is back-propagated through
//! its steps on its own. Its results are then summed for contexts, for queries and for the memory,
//! each in the order of the pairs. The projections of contexts and of first queries are
//! back-propagated once, at the end, in large products. So the result does not depend on the number
//! of threads.

mod group;
mod memory;

use std::ops::Range;

use crate::Error;

use super::context::Context;
use super::some_pairs::{Batch, batches, sorted};
use super::{Matcher, Ragged, check_pairs};
use group::Group;
use memory::{MemorySums, Turned};

/// Contexts per batch: they need more memory than in scoring.
const CONTEXTS: usize = 128;

/// Lanes per chunk: fewer than in scoring, so that a few pairs still occupy all threads.
const LANES: Range<usize> = 96..192;

/// Rows of queries kept until they are summed.
const GROUP: usize = 2048;

/// The gradients of a weighted sum of scores, each in the layout of its input.
#[derive(Clone, Debug, PartialEq)]
pub struct PairGradients {
    /// Gradient of the rows of contexts.
    pub contexts: Vec<f32>,
    /// Gradient of the rows of queries.
    pub queries: Vec<f32>,
    /// Gradient of the memory: linear weights and biases, gate weights and biases. None where a
    /// single step needs no memory.
    pub memory: Option<[Vec<f32>; 4]>,
}

/// The gradients of one batch, by the rows of its own contexts and queries.
struct BatchSums {
    /// Gradient of the rows of contexts, through scores and norms.
    contexts: Vec<f32>,
    /// Gradient of the memory's projection of the rows of contexts.
    projected: Vec<f32>,
    /// Gradient of the rows of queries, through scores and gates.
    queries: Vec<f32>,
    /// Gradient of the memory's projection of the rows of queries.
    started: Vec<f32>,
}

impl Matcher {
    /// The gradients of the sum of the scores of `pairs`, each times its number in `upstream`.
    /// Pairs with zero upstream cost nothing.
    pub fn gradients(
        &self,
        contexts: Ragged<'_>,
        queries: Ragged<'_>,
        pairs: &[(u32, u32)],
        upstream: &[f32],
    ) -> Result<PairGradients, Error> {
        self.check(contexts, queries)?;
        check_pairs(contexts, queries, pairs)?;
        Error::check_len("the gradients of the scores", upstream.len(), pairs.len())?;
        let mut found = PairGradients {
            contexts: vec![0.0; contexts.values.len()],
            queries: vec![0.0; queries.values.len()],
            memory: None,
        };
        let turned = self.memory.as_ref().map(Turned::new);
        let mut memory = self.memory.as_ref().map(MemorySums::new);
        let order = sorted(pairs, |place| upstream[place] != 0.0);
        for batch in batches(&order, pairs, queries, CONTEXTS) {
            let (rows, own) = (batch.contexts(contexts), batch.queries(queries));
            let gather = Gather {
                batch: &batch,
                contexts: Ragged { dim: self.dim, values: &rows.0, offsets: &rows.1 },
                queries: Ragged { dim: self.dim, values: &own.0, offsets: &own.1 },
                pairs,
                upstream,
            };
            let mut sums = self.batch_gradients(&gather, turned.as_ref(), memory.as_mut());
            if let (Some(memory), Some(turned)) = (&mut memory, &turned) {
                memory.finish(turned, (&rows.0, &own.0), &mut sums);
            }
            add_items(&sums.contexts, &batch.contexts, contexts, &mut found.contexts);
            add_items(&sums.queries, &batch.items, queries, &mut found.queries);
        }
        found.memory = memory.zip(self.memory.as_ref()).map(|(sums, memory)| sums.unstack(memory));
        Ok(found)
    }

    /// The gradients of the pairs of a batch, up to the memory's projections of contexts and first
    /// queries.
    fn batch_gradients(
        &self,
        gather: &Gather<'_>,
        turned: Option<&Turned>,
        mut memory: Option<&mut MemorySums>,
    ) -> BatchSums {
        let Gather { batch, contexts, queries, pairs, .. } = *gather;
        let made = if self.memory.is_some() { 2 } else { 0 };
        let mut sums = BatchSums {
            contexts: vec![0.0; contexts.values.len()],
            projected: vec![0.0; made * contexts.values.len()],
            queries: vec![0.0; queries.values.len()],
            started: vec![0.0; made * queries.values.len()],
        };
        let tables = Context::all(contexts, self.memory.as_ref(), true);
        let started = self.started(queries);
        let rows = batch.rows(pairs, queries);
        let runs = super::chunk::cuts(&rows, LANES);
        for runs in groups(&runs, &rows) {
            let group = Group::new(self, gather, &tables, &started, turned, &runs, &rows);
            group.add_to_contexts(contexts, &mut sums);
            group.add_to_queries(queries, &mut sums);
            if let Some(memory) = &mut memory {
                group.add_to_memory(memory);
            }
        }
        sums
    }
}

/// A batch with only the rows of its own contexts and queries.
#[derive(Clone, Copy)]
struct Gather<'a> {
    batch: &'a Batch<'a>,
    contexts: Ragged<'a>,
    queries: Ragged<'a>,
    pairs: &'a [(u32, u32)],
    upstream: &'a [f32],
}

/// Joins neighbouring runs while their rows together stay within the limit.
fn groups(runs: &[Range<usize>], rows: &[usize]) -> Vec<Vec<Range<usize>>> {
    let mut groups: Vec<Vec<Range<usize>>> = Vec::new();
    let mut kept = usize::MAX;
    for run in runs {
        let rows: usize = rows[run.clone()].iter().sum();
        kept = kept.saturating_add(rows);
        match groups.last_mut() {
            Some(group) if kept <= GROUP => group.push(run.clone()),
            _ => {
                groups.push(vec![run.clone()]);
                kept = rows;
            }
        }
    }
    groups
}

/// Adds the rows of some items to their places among all items.
fn add_items(own: &[f32], items: &[usize], all: Ragged<'_>, to: &mut [f32]) {
    let mut own = own.iter();
    for &item in items {
        let rows = all.rows_of(item);
        let to = &mut to[rows.start * all.dim..rows.end * all.dim];
        to.iter_mut().zip(own.by_ref()).for_each(|(to, from)| *to += *from);
    }
}

/// Cuts rows of `size` numbers at the offsets.
pub(crate) fn split_rows<'a>(
    mut values: &'a mut [f32],
    offsets: &[usize],
    size: usize,
) -> Vec<&'a mut [f32]> {
    let lengths = offsets.windows(2).map(|pair| (pair[1] - pair[0]) * size);
    lengths
        .map(|length| values.split_off_mut(..length).expect("the offsets are those of the rows"))
        .collect()
}
