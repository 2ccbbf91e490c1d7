//! The steps of some pairs, one after the other, with what the way back needs.

use nextpair_cuda::{Array, Grid, Pointer};

use super::lines::Lines;
use super::products::Pieces;
use super::{Matched, PAIR_THREADS};
use crate::Error;
use crate::cuda::Unit;

/// The buffers of some pairs, of every step. They have a line for each query of a pair.
pub(super) struct Pass {
    pub(super) count: usize,
    pub(super) lines: usize,
    /// The pairs, as kernels read them.
    pub(super) described: Array<u64>,
    /// What the description points to: contexts, first lines, their ends and words; then lines by
    /// context, and pieces of them.
    indices: Array<u32>,
    pub(super) contexts: Vec<u32>,
    /// Where the lines of pairs are.
    of_lines: Lines,
    /// Lines that no pair has, which still are in products of all lines of a member.
    unused: Option<Array<u32>>,
    /// The lines by context.
    pub(super) pieces: Pieces,
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

impl Pass {
    /// `(context, pair)` of all pairs.
    pub(super) fn by_context(&self) -> impl Iterator<Item = (u32, u32)> {
        self.contexts.iter().enumerate().map(|(pair, &context)| (context, pair as u32))
    }

    /// `(query, line)` of all lines of pairs.
    pub(super) fn by_word(&self) -> impl Iterator<Item = (u32, u32)> {
        let Lines { firsts, ends, words, .. } = &self.of_lines;
        let lines = firsts.iter().zip(ends).flat_map(|(&first, &end)| first..end);
        lines.map(|line| (words[line as usize], line))
    }

    /// Sets the lines that no pair has to zero.
    pub(super) fn clear_unused(
        &self,
        unit: &Unit,
        lines: &Array<f32>,
        width: usize,
    ) -> Result<(), Error> {
        let Some(unused) = &self.unused else { return Ok(()) };
        let arguments = [lines.into(), unused.into(), width.into()];
        unit.run("clear_rows", Unit::rows(unused.len()), &arguments)
    }

    /// Where the query of each line is on the device.
    fn words_on_device(&self) -> Pointer {
        self.indices.at(3 * self.count)
    }

    /// Where the lines by context are on the device, and their pieces.
    pub(super) fn pieces_on_device(&self) -> (Pointer, Pointer) {
        let lines = 3 * self.count + self.lines;
        (self.indices.at(lines), self.indices.at(lines + self.pieces.lines.len()))
    }
}

impl Matched<'_> {
    pub(super) fn forward(&self, pairs: &[(u32, u32)]) -> Result<Pass, Error> {
        let Matched { unit, dim, rows, most, .. } = *self;
        let count = pairs.len();
        let contexts: Vec<u32> = pairs.iter().map(|&(context, _)| context).collect();
        let of_lines = self.lines(pairs);
        let Lines { firsts, ends, words, unused, .. } = &of_lines;
        let (lines, pieces) = (words.len(), Pieces::new(&contexts, firsts, ends));
        let indices = [&contexts, firsts, ends, words, &pieces.lines, &pieces.described];
        let indices = unit.array(&indices.map(Vec::as_slice).concat())?;
        let unused = (!unused.is_empty()).then(|| unit.array(unused)).transpose()?;
        let described = unit.array(&[
            indices.at(0).bits(),
            indices.at(count).bits(),
            indices.at(2 * count).bits(),
            indices.at(3 * count).bits(),
            self.prepared.context_offsets.pointer().bits(),
            self.prepared.grams.pointer().bits(),
            self.prepared.norms.pointer().bits(),
            most as u64 | (rows as u64) << 32,
        ])?;
        let steps = self.attention.steps;
        let each = |width: usize, count: usize| -> Result<Vec<Array<f32>>, Error> {
            (0..count).map(|_| unit.empty(lines * width)).collect()
        };
        let (queries, layers) = (each(dim, steps)?, each(2 * dim, steps - 1)?);
        let (raw, weights) = (each(rows, steps)?, each(rows, steps)?);
        let norms = || self.attention.normalise_memory.then(|| unit.empty(lines)).transpose();
        let pass = Pass {
            count,
            lines,
            described,
            indices,
            contexts,
            of_lines,
            unused,
            pieces,
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
        self.gather_words(&pass, &self.prepared.queries.values, &pass.queries[0])?;
        for step in 0..steps {
            let queries = &pass.queries[step];
            self.multiply_by_rows(&pass, queries, (&self.prepared.padded, dim), &pass.raw[step])?;
            let arguments = [
                (&pass.weights[step]).into(),
                (&pass.scores).into(),
                (&pass.raw[step]).into(),
                (&pass.raw[0]).into(),
                (&pass.described).into(),
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
        let (lines, layers) = (pass.lines, &pass.layers[step]);
        let [queries, refined] = [&pass.queries[step], &pass.queries[step + 1]];
        let (weights, norms) = (&pass.weights[step], pass.norms[step].as_ref());
        if step > 0 {
            memory.project(unit, queries, 0, layers)?;
        }
        if self.by_matrix_units() && norms.is_none() {
            let (base, words) = match step {
                0 => (of_queries, pass.words_on_device()),
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
                (&pass.described).into(),
                self.contexts_of_member().into(),
                dim.into(),
            ];
            // A warp has 32 columns.
            let grid = Grid::plane(dim.div_ceil(4 * 32), pass.count, 128);
            return unit.run("refine_by_rows_tf32", grid, &arguments);
        }
        if step == 0 {
            self.gather_words(pass, of_queries, layers)?;
        }
        self.add_rows(pass, weights, (projected, 2 * dim), 1.0, layers)?;
        let arguments = [
            refined.into(),
            layers.into(),
            (&memory.bias).into(),
            queries.into(),
            norms.into(),
            pass.of_lines.of_member.into(),
            dim.into(),
        ];
        unit.run("refine", Unit::rows(lines), &arguments)
    }

    /// Copies the rows of a table that has one for each query to the lines.
    fn gather_words(&self, pass: &Pass, table: &Array<f32>, out: &Array<f32>) -> Result<(), Error> {
        let width = table.len() / (self.prepared.queries.values.len() / self.dim).max(1);
        let arguments = [out.into(), table.into(), pass.words_on_device().into(), width.into()];
        self.unit.run("gather", Unit::rows(pass.lines), &arguments)
    }
}
