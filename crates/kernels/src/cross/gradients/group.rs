//! Some chunks of pairs after back-propagation, and their sums.

use std::ops::Range;

use rayon::prelude::*;

use crate::packed::{Left, Packed};

use super::super::backward::{Pull, Room, SCRATCH};
use super::super::context::Context;
use super::super::{Matcher, Ragged};
use super::memory::{MemorySums, Turned};
use super::{BatchSums, Gather, split_rows};

/// Results of a group of chunks, one row per query.
pub(super) struct Group {
    dim: usize,
    /// Gradients of the memory's pre-activations, for every step but the last.
    arguments: Vec<Vec<f32>>,
    /// Queries of every step.
    queries: Vec<Vec<f32>>,
    /// Gradients of the first queries.
    gradients: Vec<f32>,
    chunks: Vec<Passed>,
}

/// A chunk after back-propagation.
struct Passed {
    /// Its first row in the group.
    first: usize,
    /// Its items: the position in the batch, and the rows.
    items: Vec<(usize, Range<usize>)>,
    /// Its spans: the position of the context in the batch, and the trail.
    spans: Vec<(usize, Trail)>,
}

/// Results of a span for the gradient of its context.
struct Trail {
    /// Its rows in the chunk.
    rows: Range<usize>,
    /// Its results, step by step.
    pulls: Vec<Pull>,
}

impl Group {
    /// Runs some runs of pairs forward and backward. `rows` has the number of rows of every pair of
    /// the batch.
    pub(super) fn new(
        matcher: &Matcher,
        gather: &Gather<'_>,
        tables: &[Context],
        started: &[f32],
        turned: Option<&Turned>,
        runs: &[Range<usize>],
        rows: &[usize],
    ) -> Self {
        let (dim, steps) = (matcher.dim, matcher.attention.steps);
        let mut offsets = vec![0];
        for run in runs {
            offsets.push(offsets[offsets.len() - 1] + rows[run.clone()].iter().sum::<usize>());
        }
        let total = offsets[runs.len()];
        let mut arguments = vec![vec![0.0; total * 2 * dim]; steps - 1];
        let mut queries = vec![vec![0.0; total * dim]; steps];
        let mut gradients = vec![0.0; total * dim];
        let mut rooms: Vec<Room<'_>> = split_rows(&mut gradients, &offsets, dim)
            .into_iter()
            .map(|gradients| Room { arguments: Vec::new(), queries: Vec::new(), gradients })
            .collect();
        for values in &mut arguments {
            let parts = split_rows(values, &offsets, 2 * dim);
            rooms.iter_mut().zip(parts).for_each(|(room, part)| room.arguments.push(part));
        }
        for values in &mut queries {
            let parts = split_rows(values, &offsets, dim);
            rooms.iter_mut().zip(parts).for_each(|(room, part)| room.queries.push(part));
        }
        let turned = turned.map(|turned| &turned.query_tiles);
        let chunks = runs
            .par_iter()
            .zip(rooms)
            .zip(&offsets[..runs.len()])
            .with_max_len(1)
            .map(|((run, room), &first)| {
                let part = gather.batch.part(run.clone(), gather.pairs, gather.queries, started);
                let contexts: Vec<&Context> = part.contexts.iter().map(|&c| &tables[c]).collect();
                let mut scores = vec![0.0; steps * part.wanted.len()];
                let places = &gather.batch.order[run.clone()];
                let upstream: Vec<f32> = places.iter().map(|&p| gather.upstream[p]).collect();
                let chunk = &part.chunk;
                let pulls = SCRATCH.with_borrow_mut(|scratch| {
                    matcher.forward(chunk, &contexts, &mut scratch.trace, &mut scores);
                    matcher.backward(chunk, &contexts, turned, &upstream, scratch, room)
                });
                let rows = |items: &Range<usize>| {
                    chunk.items[items.start].start..chunk.items[items.end - 1].end
                };
                let spans = part.contexts.iter().zip(&chunk.spans).zip(pulls);
                Passed {
                    first,
                    items: part.wanted.iter().copied().zip(chunk.items.iter().cloned()).collect(),
                    spans: spans
                        .map(|((&c, span), pulls)| (c, Trail { rows: rows(&span.items), pulls }))
                        .collect(),
                }
            })
            .collect();
        Group { dim, arguments, queries, gradients, chunks }
    }

    /// Some rows of one of the matrices.
    fn rows<'a>(&self, of: &'a [f32], size: usize, first: usize, rows: &Range<usize>) -> &'a [f32] {
        &of[(first + rows.start) * size..(first + rows.end) * size]
    }

    /// Adds the results of the spans to the gradients of their contexts.
    pub(super) fn add_to_contexts(&self, contexts: Ragged<'_>, sums: &mut BatchSums) {
        let dim = self.dim;
        let mut left: Vec<Vec<(usize, &Trail)>> = (0..contexts.len()).map(|_| Vec::new()).collect();
        for chunk in &self.chunks {
            for (context, trail) in &chunk.spans {
                left[*context].push((chunk.first, trail));
            }
        }
        let regions = split_rows(&mut sums.contexts, contexts.offsets, dim);
        let projected = if sums.projected.is_empty() {
            regions.iter().map(|_| Default::default()).collect()
        } else {
            split_rows(&mut sums.projected, contexts.offsets, 2 * dim)
        };
        let tasks = left.into_par_iter().zip(regions).zip(projected).enumerate();
        tasks.for_each_init(Packed::empty, |right, (context, ((left, regions), projected))| {
            let count = contexts.rows_of(context).len();
            let mut gram = vec![0.0; count * count];
            for (first, Trail { rows, pulls }) in left {
                for (k, pull) in pulls.iter().enumerate() {
                    let queries = self.rows(&self.queries[k], dim, first, rows);
                    right.repack(rows.len(), dim, queries);
                    right.multiply_add(Left::transposed(&pull.scores, count), regions);
                    if let Some(arguments) = self.arguments.get(k) {
                        let arguments = self.rows(arguments, 2 * dim, first, rows);
                        right.repack(rows.len(), 2 * dim, arguments);
                        right.multiply_add(Left::transposed(&pull.weights, count), projected);
                    }
                    let weights = pull.weights.chunks_exact(count).zip(&pull.squares);
                    let scaled: Vec<f32> = weights
                        .flat_map(|(row, &s)| row.iter().map(move |w| 2.0 * s * w))
                        .collect();
                    right.repack(rows.len(), count, &scaled);
                    right.multiply_add(Left::transposed(&pull.weights, count), &mut gram);
                }
            }
            right.repack(count, dim, contexts.values_of(context));
            right.multiply_add(Left::rows(&gram, count), regions);
        });
    }

    /// Adds the gradients of the queries and of the memory's first projection of them.
    pub(super) fn add_to_queries(&self, queries: Ragged<'_>, sums: &mut BatchSums) {
        let dim = self.dim;
        let mut found: Vec<Vec<(usize, &Range<usize>)>> =
            (0..queries.len()).map(|_| Vec::new()).collect();
        for chunk in &self.chunks {
            for (item, rows) in &chunk.items {
                found[*item].push((chunk.first, rows));
            }
        }
        let mut parts = vec![(&self.gradients, dim, &mut sums.queries)];
        if let Some(first) = self.arguments.first() {
            parts.push((first, 2 * dim, &mut sums.started));
        }
        for (from, size, to) in parts {
            let items = split_rows(to, queries.offsets, size);
            found.par_iter().zip(items).for_each(|(found, to)| {
                for &(first, rows) in found {
                    let from = self.rows(from, size, first, rows);
                    to.iter_mut().zip(from).for_each(|(to, from)| *to += *from);
                }
            });
        }
    }

    /// Adds the gradients of the memory's weights on refined queries.
    pub(super) fn add_to_memory(&self, memory: &mut MemorySums) {
        for (queries, arguments) in self.queries.iter().zip(&self.arguments).skip(1) {
            memory.add_queries(queries, arguments);
        }
    }
}
