//! Tables of images or captions.

use std::ops::Range;

use rayon::prelude::*;

use crate::packed::{Left, Packed};

use super::super::Ragged;

/// Weights for the vectors of one side. All but the pool's second layer are `dim` by `dim`.
#[derive(Default)]
pub(crate) struct SideWeights {
    /// Of keys. Where there are no queries, keys are queries too.
    pub(crate) key: Option<Packed>,
    pub(crate) query: Option<Packed>,
    /// Of queries and keys of the messages that these vectors are sent as.
    pub(crate) message: Option<[Packed; 2]>,
    /// Of the fusion of these vectors: what they are multiplied by where they are, the bias of that, and
    /// what they are multiplied by as messages.
    pub(crate) fuse: Option<(Packed, Option<Vec<f32>>, Packed)>,
    /// Of the pool of what is sent to these vectors.
    pub(crate) pool: Option<Pool>,
    /// The first layer of the other side's pool, where it pools messages alone.
    pub(crate) sent: Option<Packed>,
}

/// Weights of a pool.
pub(crate) struct Pool {
    pub(crate) first: Packed,
    pub(crate) bias: Vec<f32>,
    /// A column for each head. Its biases do nothing.
    pub(crate) second: Packed,
    pub(crate) heads: usize,
}

/// Images or captions with their tables, a row for each vector.
pub(super) struct Items {
    pub(super) dim: usize,
    /// The first row of each item, then the end of the last.
    pub(super) offsets: Vec<usize>,
    pub(super) values: Vec<f32>,
    pub(super) keys: Vec<f32>,
    pub(super) queries: Option<Vec<f32>>,
    /// Products of the vectors of each item, and of their message queries and keys.
    pub(super) grams: Vec<Vec<f32>>,
    pub(super) affinities: Vec<Vec<f32>>,
    /// Vectors through the first half of the fusion.
    pub(super) own: Option<Vec<f32>>,
    /// Vectors as messages through the other side's fusion or pool: of each item, for products with
    /// weights.
    pub(super) sent: Vec<Packed>,
    /// Vectors through the first layer of the pool, with its bias.
    pub(super) pooled: Option<Vec<f32>>,
}

impl Items {
    pub(super) fn new(weights: &SideWeights, items: Ragged<'_>) -> Self {
        let (dim, values) = (items.dim, items.all_values());
        let first = items.first_row();
        let offsets: Vec<usize> = items.offsets.iter().map(|offset| offset - first).collect();
        let through = |weight: &Packed| {
            let mut out = vec![0.0; values.len()];
            weight.par_multiply(Left::rows(values, dim), &mut out);
            out
        };
        let each = |table: &(dyn Fn(Range<usize>) -> Vec<f32> + Sync)| -> Vec<Vec<f32>> {
            let spans = offsets.par_windows(2);
            spans.map(|span| table(span[0] * dim..span[1] * dim)).collect()
        };
        let products = |left: &[f32], right: &[f32]| {
            let count = left.len() / dim;
            let mut out = vec![0.0; count * count];
            Packed::transposed(count, dim, right).multiply(Left::rows(left, dim), &mut out);
            out
        };
        let grams = each(&|rows| products(&values[rows.clone()], &values[rows]));
        let message = weights.message.as_ref().map(|[query, key]| (through(query), through(key)));
        let affinities = message.map_or_else(Vec::new, |(queries, keys)| {
            each(&|rows| products(&queries[rows.clone()], &keys[rows]))
        });
        let sent = weights.fuse.as_ref().map(|(_, _, sent)| sent).or(weights.sent.as_ref());
        let sent = sent.map_or_else(Vec::new, |weight| {
            let rows = through(weight);
            let pack = |span: &[usize]| {
                Packed::new(span[1] - span[0], dim, &rows[span[0] * dim..span[1] * dim])
            };
            offsets.par_windows(2).map(pack).collect()
        });
        let pooled = weights.pool.as_ref().filter(|_| weights.fuse.is_some()).map(|pool| {
            let mut rows = through(&pool.first);
            for row in rows.chunks_exact_mut(dim) {
                row.iter_mut().zip(&pool.bias).for_each(|(x, b)| *x += b);
            }
            rows
        });
        Items {
            dim,
            keys: weights.key.as_ref().map(through).expect("every form has keys"),
            queries: weights.query.as_ref().map(through),
            own: weights.fuse.as_ref().map(|(own, _, _)| through(own)),
            values: values.to_vec(),
            grams,
            affinities,
            sent,
            pooled,
            offsets,
        }
    }

    pub(super) fn rows_of(&self, item: usize) -> Range<usize> {
        self.offsets[item]..self.offsets[item + 1]
    }
}
