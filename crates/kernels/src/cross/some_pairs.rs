//! Some pairs of a context and an item of the queries.

use std::ops::Range;

use rayon::prelude::*;

use super::chunk::{Chunk, LANES, cuts};
use super::context::Context;
use super::forward::TRACE;
use super::{CONTEXTS, Matcher, QUERIES, Ragged};

/// Pairs with few enough contexts and queries to keep tables of all.
pub(super) struct Batch<'a> {
    /// Positions of the pairs in the list, by context and then by item.
    pub(super) order: &'a [usize],
    /// The contexts, each once, in rising order.
    pub(super) contexts: Vec<usize>,
    /// The items, each once, in rising order.
    pub(super) items: Vec<usize>,
}

/// Some pairs of a batch, ready for matching.
pub(super) struct Part {
    /// Their positions in the order of the batch.
    pub(super) pairs: Range<usize>,
    /// Their items, by position in the batch.
    pub(super) wanted: Vec<usize>,
    /// Contexts of the chunk's spans, by position in the batch.
    pub(super) contexts: Vec<usize>,
    pub(super) chunk: Chunk,
}

impl Matcher {
    pub(super) fn some_pairs(
        &self,
        contexts: Ragged<'_>,
        queries: Ragged<'_>,
        pairs: &[(u32, u32)],
        out: &mut [f32],
    ) {
        let order = sorted(pairs, |_| true);
        for batch in batches(&order, pairs, queries, CONTEXTS) {
            let (rows, own) = (batch.contexts(contexts), batch.queries(queries));
            let rows = Ragged { dim: self.dim, values: &rows.0, offsets: &rows.1 };
            let own = Ragged { dim: self.dim, values: &own.0, offsets: &own.1 };
            let tables = Context::all(rows, self.memory.as_ref(), false);
            let started = self.started(own);
            let scores: Vec<(Range<usize>, Vec<f64>)> = cuts(&batch.rows(pairs, own), LANES)
                .into_par_iter()
                .with_max_len(1)
                .map(|run| {
                    let part = batch.part(run, pairs, own, &started);
                    let seen: Vec<&Context> = part.contexts.iter().map(|&c| &tables[c]).collect();
                    let count = part.pairs.len();
                    let mut steps = vec![0.0; self.attention.steps * count];
                    TRACE.with_borrow_mut(|trace| {
                        self.forward(&part.chunk, &seen, trace, &mut steps);
                    });
                    let of_pair = |pair: usize| steps[pair..].iter().step_by(count).sum();
                    (part.pairs, (0..count).map(of_pair).collect())
                })
                .collect();
            for (run, scores) in scores {
                for (&place, score) in batch.order[run].iter().zip(scores) {
                    out[place] = score as f32;
                }
            }
        }
    }
}

/// The positions of the wanted pairs, by context and then by item.
pub(super) fn sorted(pairs: &[(u32, u32)], wanted: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pairs.len()).filter(|&place| wanted(place)).collect();
    order.sort_by_key(|&place| pairs[place]);
    order
}

/// Cuts sorted pairs into batches of at most so many contexts.
pub(super) fn batches<'a>(
    order: &'a [usize],
    pairs: &[(u32, u32)],
    queries: Ragged<'_>,
    most: usize,
) -> Vec<Batch<'a>> {
    let mut batches = Vec::new();
    let mut first = 0;
    let mut present = vec![false; queries.len()];
    while first < order.len() {
        let (mut contexts, mut items, mut rows) = (Vec::new(), Vec::new(), 0);
        let mut end = first;
        while let Some(&place) = order.get(end) {
            let (context, item) = (pairs[place].0 as usize, pairs[place].1 as usize);
            let (new, next) = (contexts.last() != Some(&context), queries.rows_of(item).len());
            let full = (new && contexts.len() == most)
                || (!present[item] && rows > 0 && rows + next > QUERIES);
            if full {
                break;
            }
            if new {
                contexts.push(context);
            }
            if !std::mem::replace(&mut present[item], true) {
                items.push(item);
                rows += next;
            }
            end += 1;
        }
        items.sort_unstable();
        items.iter().for_each(|&item| present[item] = false);
        batches.push(Batch { order: &order[first..end], contexts, items });
        first = end;
    }
    batches
}

impl Batch<'_> {
    /// The rows of the batch's items of queries, and the offset of each.
    pub(super) fn queries(&self, queries: Ragged<'_>) -> (Vec<f32>, Vec<usize>) {
        gathered(queries, &self.items)
    }

    /// The rows of the batch's contexts, and the offset of each.
    pub(super) fn contexts(&self, contexts: Ragged<'_>) -> (Vec<f32>, Vec<usize>) {
        gathered(contexts, &self.contexts)
    }

    /// Number of rows of queries of every pair; `queries` are the batch's own.
    pub(super) fn rows(&self, pairs: &[(u32, u32)], queries: Ragged<'_>) -> Vec<usize> {
        self.order.iter().map(|&place| queries.rows_of(self.item(pairs[place])).len()).collect()
    }

    /// The position of a pair's item in the batch.
    fn item(&self, (_, item): (u32, u32)) -> usize {
        self.items.binary_search(&(item as usize)).expect("the items of all pairs are listed")
    }

    /// Prepares some of the pairs; `queries` are the batch's own.
    pub(super) fn part(
        &self,
        run: Range<usize>,
        pairs: &[(u32, u32)],
        queries: Ragged<'_>,
        started: &[f32],
    ) -> Part {
        let places = &self.order[run.clone()];
        let wanted: Vec<usize> = places.iter().map(|&place| self.item(pairs[place])).collect();
        let (mut contexts, mut groups) = (Vec::new(), Vec::new());
        for same in places.chunk_by(|&a, &b| pairs[a].0 == pairs[b].0) {
            let context = pairs[same[0]].0 as usize;
            let known = self.contexts.binary_search(&context);
            contexts.push(known.expect("the contexts of all pairs are listed"));
            groups.push(same.len());
        }
        let chunk = Chunk::gather(queries, started, &wanted, &groups);
        Part { pairs: run, wanted, contexts, chunk }
    }
}

/// The rows of some items, and the offset of each.
fn gathered(all: Ragged<'_>, items: &[usize]) -> (Vec<f32>, Vec<usize>) {
    let (mut values, mut offsets) = (Vec::new(), vec![0]);
    let mut end = 0;
    for &item in items {
        values.extend_from_slice(all.values_of(item));
        end += all.rows_of(item).len();
        offsets.push(end);
    }
    (values, offsets)
}
