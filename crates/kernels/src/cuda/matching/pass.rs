//! The steps of some pairs, one after the other, with what the way back needs.

use nextpair_cuda::{Array, Grid, Operand, Pointer};

use super::layers::{biased, pad, project};
use super::{Matched, PAIR_THREADS};
use crate::Error;
use crate::cuda::Unit;

/// The buffers of some pairs, of every step.
pub(super) struct Pass {
    pub(super) count: usize,
    /// The pairs, as kernels read them.
    pub(super) described: Array<u64>,
    /// What the description points to.
    pub(super) _named: [Array<u32>; 2],
    pub(super) contexts: Vec<u32>,
    pub(super) items: Vec<u32>,
    /// The pairs of each context: where they begin among the members.
    pub(super) firsts: Array<u32>,
    pub(super) members: Array<u32>,
    /// Queries of every step.
    pub(super) queries: Vec<Array<f32>>,
    /// Raw scores and weights of every step.
    pub(super) raw: Vec<Array<f32>>,
    pub(super) weights: Vec<Array<f32>>,
    /// The values of both layers between steps, and the norms of what they refine.
    pub(super) layers: Vec<Array<f32>>,
    pub(super) norms: Vec<Option<Array<f32>>>,
    pub(super) scores: Array<f32>,
    /// Gradients of raw scores, of weights and of queries, of the step in hand.
    pub(super) of_raw: Array<f32>,
    pub(super) of_weights: Array<f32>,
    pub(super) of_queries: Array<f32>,
    /// Addresses of the matrices of every pair, one buffer after the other.
    pub(super) addresses: Array<u64>,
}

/// A buffer of pairs.
#[derive(Clone, Copy)]
pub(super) enum Buffer {
    Contexts,
    Projected,
    OfRaw,
    OfWeights,
    OfQueries,
    Queries(usize),
    Raw(usize),
    Weights(usize),
    Layers(usize),
}

impl Buffer {
    /// Its place among the addresses.
    fn place(self, steps: usize) -> usize {
        match self {
            Buffer::Contexts => 0,
            Buffer::Projected => 1,
            Buffer::OfRaw => 2,
            Buffer::OfWeights => 3,
            Buffer::OfQueries => 4,
            Buffer::Queries(step) => 5 + step,
            Buffer::Raw(step) => 5 + steps + step,
            Buffer::Weights(step) => 5 + 2 * steps + step,
            Buffer::Layers(step) => 5 + 3 * steps + step,
        }
    }
}

impl Pass {
    /// `(context, pair)` of all pairs.
    pub(super) fn by_context(&self) -> impl Iterator<Item = (u32, u32)> {
        self.contexts.iter().enumerate().map(|(pair, &context)| (context, pair as u32))
    }
}

impl Matched<'_> {
    pub(super) fn forward(&self, pairs: &[(u32, u32)]) -> Result<Pass, Error> {
        let Matched { unit, dim, rows, most, .. } = *self;
        let count = pairs.len();
        let (contexts, items): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        let named = [unit.array(&contexts)?, unit.array(&items)?];
        let described = unit.array(&[
            named[0].pointer().bits(),
            named[1].pointer().bits(),
            self.context_offsets.pointer().bits(),
            self.query_offsets.pointer().bits(),
            self.grams.pointer().bits(),
            self.norms.pointer().bits(),
            most as u64 | (rows as u64) << 32,
        ])?;
        let mut members: Vec<u32> = (0..count as u32).collect();
        members.sort_by_key(|&pair| contexts[pair as usize]);
        let mut firsts = vec![0u32; self.contexts.len() + 1];
        contexts.iter().for_each(|&context| firsts[context as usize + 1] += 1);
        (1..firsts.len()).for_each(|at| firsts[at] += firsts[at - 1]);
        let steps = self.attention.steps;
        let each = |width: usize, count: usize| -> Result<Vec<Array<f32>>, Error> {
            (0..count).map(|_| unit.empty(pairs.len() * most * width)).collect()
        };
        let size = (count, most, dim);
        let mut queries =
            vec![pad(unit, self.queries.values, &self.query_offsets, Some(&named[1]), size)?];
        queries.extend(each(dim, steps - 1)?);
        let mut layers = Vec::new();
        if let Some((_, of_queries)) = &self.tables {
            let (size, items) = ((count, most, 2 * dim), Some(&named[1]));
            layers.push(pad(unit, of_queries, &self.query_offsets, items, size)?);
            layers.extend(each(2 * dim, steps - 2)?);
        }
        let (raw, weights) = (each(rows, steps)?, each(rows, steps)?);
        let [of_raw, of_weights] =
            [unit.empty(count * most * rows)?, unit.empty(count * most * rows)?];
        let of_queries = unit.empty(count * most * dim)?;
        let mut addresses: Vec<u64> = Vec::new();
        let projected = self.tables.as_ref().map_or(&self.padded, |(projected, _)| projected);
        let width = projected.len() / self.padded.len().max(1) * dim;
        for (table, width) in [(&self.padded, dim), (projected, width)] {
            let of = contexts.iter().map(|&context| table.at(context as usize * rows * width));
            addresses.extend(of.map(Pointer::bits));
        }
        let buffers = [(&of_raw, rows), (&of_weights, rows), (&of_queries, dim)].into_iter();
        let buffers = buffers.chain(queries.iter().map(|array| (array, dim)));
        let buffers = buffers.chain(raw.iter().chain(&weights).map(|array| (array, rows)));
        for (array, width) in buffers.chain(layers.iter().map(|array| (array, 2 * dim))) {
            addresses.extend((0..count).map(|pair| array.at(pair * most * width).bits()));
        }
        let pass = Pass {
            count,
            described,
            contexts,
            items,
            firsts: unit.array(&firsts)?,
            members: unit.array(&members)?,
            queries,
            raw,
            weights,
            layers,
            norms: (0..steps)
                .map(|_| {
                    self.attention.normalise_memory.then(|| unit.empty(count * most)).transpose()
                })
                .collect::<Result<_, Error>>()?,
            scores: unit.zeros(count)?,
            of_raw,
            of_weights,
            of_queries,
            addresses: unit.array(&addresses)?,
            _named: named,
        };
        for step in 0..steps {
            let left = self.operand(&pass, Buffer::Queries(step));
            let right = self.operand(&pass, Buffer::Contexts).turned();
            let to = self.operand(&pass, Buffer::Raw(step));
            unit.multiply_at(count, (most, rows, dim), left, right, 0.0, to)?;
            let arguments = [
                (&pass.weights[step]).into(),
                (&pass.scores).into(),
                (&pass.raw[step]).into(),
                (&pass.raw[0]).into(),
                (&pass.described).into(),
                (&self.attending).into(),
            ];
            let shared = 4 * (most * rows + 2 * most);
            let grid = Grid::blocks(count, PAIR_THREADS).shared(shared);
            unit.run("attend_pairs", grid, &arguments)?;
            if step + 1 < steps {
                self.refine(&pass, step)?;
            }
        }
        Ok(pass)
    }

    /// Refines the queries of a step.
    fn refine(&self, pass: &Pass, step: usize) -> Result<(), Error> {
        let Matched { unit, dim, rows, most, .. } = *self;
        let Some(memory) = self.memory else {
            return Err(Error::NoMemory { steps: self.attention.steps });
        };
        let (count, lines, layers) = (pass.count, pass.count * most, &pass.layers[step]);
        if step > 0 {
            biased(unit, memory, lines, layers)?;
            project(unit, (&pass.queries[step], lines), dim, memory, 0, 1.0, layers)?;
        }
        let weights = self.operand(pass, Buffer::Weights(step));
        let table = self.operand(pass, Buffer::Projected);
        let to = self.operand(pass, Buffer::Layers(step));
        unit.multiply_at(count, (most, 2 * dim, rows), weights, table, 1.0, to)?;
        let arguments = [
            (&pass.queries[step + 1]).into(),
            layers.into(),
            (&pass.queries[step]).into(),
            pass.norms[step].as_ref().into(),
            dim.into(),
        ];
        unit.run("refine", Unit::rows(lines), &arguments)
    }

    /// The matrices of all pairs in a buffer.
    pub(super) fn operand(&self, pass: &Pass, buffer: Buffer) -> Operand {
        let stride = match buffer {
            Buffer::Contexts | Buffer::Queries(_) | Buffer::OfQueries => self.dim,
            Buffer::Projected | Buffer::Layers(_) => 2 * self.dim,
            Buffer::Raw(_) | Buffer::Weights(_) | Buffer::OfRaw | Buffer::OfWeights => self.rows,
        };
        let first = buffer.place(self.attention.steps) * pass.count;
        Operand::at::<f32>(pass.addresses.at(first), stride)
    }
}
