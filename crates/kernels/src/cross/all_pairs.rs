//! Every context with every item of the queries.

use rayon::prelude::*;

use super::chunk::{Chunk, LANES, cuts};
use super::context::Context;
use super::forward::TRACE;
use super::{CONTEXTS, Matcher, QUERIES, Ragged};

impl Matcher {
    /// Calls `found` with the context, the item and the relevances of all steps, for every pair.
    pub(super) fn all_pairs(
        &self,
        contexts: Ragged<'_>,
        queries: Ragged<'_>,
        mut found: impl FnMut(usize, usize, &[f64]),
    ) {
        for first_context in (0..contexts.len()).step_by(CONTEXTS) {
            let end = contexts.len().min(first_context + CONTEXTS);
            let block = contexts.slice(first_context..end);
            let tables = Context::all(block, self.memory.as_ref(), false);
            for wave in waves(queries) {
                let (first, wave) = (wave.start, queries.slice(wave));
                let chunks = self.chunks(wave);
                let tasks: Vec<(usize, usize)> = (0..chunks.len())
                    .flat_map(|chunk| (0..tables.len()).map(move |table| (chunk, table)))
                    .collect();
                let scores: Vec<Vec<f64>> = tasks
                    .par_iter()
                    .with_max_len(1)
                    .map(|&(chunk, table)| {
                        let (_, chunk) = &chunks[chunk];
                        let mut scores = vec![0.0; self.attention.steps * chunk.items.len()];
                        TRACE.with_borrow_mut(|trace| {
                            self.forward(chunk, &[&tables[table]], trace, &mut scores);
                        });
                        scores
                    })
                    .collect();
                let mut steps = vec![0.0; self.attention.steps];
                for ((chunk, table), scores) in tasks.into_iter().zip(scores) {
                    let (start, chunk) = &chunks[chunk];
                    for item in 0..chunk.items.len() {
                        let of_steps = scores[item..].iter().step_by(chunk.items.len());
                        steps.iter_mut().zip(of_steps).for_each(|(step, score)| *step = *score);
                        found(first_context + table, first + start + item, &steps);
                    }
                }
            }
        }
    }

    /// The memory's projection of the first queries.
    pub(super) fn started(&self, queries: Ragged<'_>) -> Vec<f32> {
        self.memory.as_ref().map_or_else(Vec::new, |memory| memory.started(queries.all_values()))
    }

    /// All items of the queries in chunks of one span each, with the first item of each.
    fn chunks(&self, queries: Ragged<'_>) -> Vec<(usize, Chunk)> {
        let started = self.started(queries);
        let rows: Vec<usize> = (0..queries.len()).map(|i| queries.rows_of(i).len()).collect();
        cuts(&rows, LANES)
            .into_par_iter()
            .map(|items| {
                let wanted: Vec<usize> = items.clone().collect();
                (items.start, Chunk::gather(queries, &started, &wanted, &[items.len()]))
            })
            .collect()
    }
}

/// Cuts the items into runs of at most [`QUERIES`] rows, or of one item.
fn waves(queries: Ragged<'_>) -> Vec<std::ops::Range<usize>> {
    let mut waves = Vec::new();
    let mut first = 0;
    while first < queries.len() {
        let most = queries.offsets[first] + QUERIES;
        let end = queries.offsets.partition_point(|&row| row <= most) - 1;
        let end = end.clamp(first + 1, queries.len());
        waves.push(first..end);
        first = end;
    }
    waves
}
