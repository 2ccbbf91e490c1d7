//! The steps of some pairs, one after the other, with what the way back needs.

use nextpair_cuda::{Array, Grid, Pointer};

use super::{Matched, Prepared};
use crate::Error;
use crate::cuda::Unit;
use crate::cuda::lines::{Lines, PAIR_THREADS, Padded};

/// The buffers of some pairs, of every step. They have a line for each query of a pair.
pub(super) struct Pass {
    pub(super) lines: Lines,
    /// Lines of a member.
    of_member: usize,
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
}

impl Matched<'_> {
    pub(super) fn forward(&self, pairs: &[(u32, u32)]) -> Result<Pass, Error> {
        let Matched { unit, dim, rows, most, .. } = *self;
        let Prepared { context_offsets, grams, norms, .. } = &*self.prepared;
        let padded = Padded { offsets: context_offsets, grams: Some(grams), rows };
        let (paired, of_member) = self.paired(pairs);
        let described = Lines::new(unit, paired, padded, Some(norms), most)?;
        let (count, lines) = (described.count, described.len);
        let steps = self.attention.steps;
        let each = |width: usize, count: usize| -> Result<Vec<Array<f32>>, Error> {
            (0..count).map(|_| unit.empty(lines * width)).collect()
        };
        let (queries, layers) = (each(dim, steps)?, each(2 * dim, steps - 1)?);
        let (raw, weights) = (each(rows, steps)?, each(rows, steps)?);
        let norms = || self.attention.normalise_memory.then(|| unit.empty(lines)).transpose();
        let pass = Pass {
            lines: described,
            of_member,
            queries,
            raw,
            weights,
            layers,
            norms: (0..steps).map(|_| norms()).collect::<Result<_, Error>>()?,
            scores: unit.zeros(count)?,
            of_raw: unit.empty(lines * rows)?,
            of_weights: unit.empty(lines * rows)?,
            of_queries: unit.empty(lines * dim)?,
        };
        pass.lines.gather(unit, (&self.prepared.queries.values, dim), &pass.queries[0])?;
        for step in 0..steps {
            let queries = &pass.queries[step];
            let contexts = (&self.prepared.padded, dim);
            pass.lines.multiply_by_rows(unit, queries, contexts, &pass.raw[step])?;
            let arguments = [
                (&pass.weights[step]).into(),
                (&pass.scores).into(),
                (&pass.raw[step]).into(),
                (&pass.raw[0]).into(),
                (&pass.lines.described).into(),
                (&self.prepared.attending).into(),
            ];
            let shared = 8 * most * rows + 4 * (most * rows + 2 * most);
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
        let Matched { unit, dim, .. } = *self;
        let (Some(memory), Some((projected, of_queries))) =
            (&self.prepared.memory, &self.prepared.tables)
        else {
            return Err(Error::NoMemory { steps: self.attention.steps });
        };
        let (lines, layers) = (&pass.lines, &pass.layers[step]);
        let [queries, refined] = [&pass.queries[step], &pass.queries[step + 1]];
        let (weights, norms) = (&pass.weights[step], pass.norms[step].as_ref());
        if step > 0 {
            memory.project(unit, queries, 0, layers)?;
        }
        if unit.has_matrix_units() && norms.is_none() {
            let (base, words) = match step {
                0 => (of_queries, lines.words_on_device()),
                _ => (layers, Pointer::NULL),
            };
            let arguments = [
                refined.into(),
                layers.into(),
                base.into(),
                words.into(),
                (&memory.bias).into(),
                weights.into(),
                projected.into(),
                queries.into(),
                (&pass.lines.described).into(),
                self.contexts_of_member().into(),
                dim.into(),
            ];
            // A warp has 32 columns.
            let grid = Grid::plane(dim.div_ceil(4 * 32), lines.count, 128);
            return unit.run("refine_by_rows_tf32", grid, &arguments);
        }
        if step == 0 {
            lines.gather(unit, (of_queries, 2 * dim), layers)?;
        }
        lines.add_rows(unit, weights, (projected, 2 * dim), 1.0, layers)?;
        let arguments = [
            refined.into(),
            layers.into(),
            (&memory.bias).into(),
            queries.into(),
            norms.into(),
            pass.of_member.into(),
            dim.into(),
        ];
        unit.run("refine", Unit::rows(lines.len), &arguments)
    }
}
