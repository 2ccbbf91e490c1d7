//! The steps of some pairs, one after the other, with what the way back needs.

use nextpair_cuda::{Array, Grid, Pointer};

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
    /// What the description points to: contexts, first lines and words; then lines by context, and
    /// pieces of them.
    indices: Array<u32>,
    pub(super) contexts: Vec<u32>,
    /// The query of each line.
    pub(super) words: Vec<u32>,
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

    /// `(query, line)` of all lines.
    pub(super) fn by_word(&self) -> impl Iterator<Item = (u32, u32)> {
        self.words.iter().enumerate().map(|(line, &word)| (word, line as u32))
    }

    /// Where the query of each line is on the device.
    fn words_on_device(&self) -> Pointer {
        self.indices.at(2 * self.count + 1)
    }

    /// Where the lines by context are on the device, and their pieces.
    pub(super) fn pieces_on_device(&self) -> (Pointer, Pointer) {
        let lines = 2 * self.count + 1 + self.lines;
        (self.indices.at(lines), self.indices.at(lines + self.lines))
    }
}

impl Matched<'_> {
    pub(super) fn forward(&self, pairs: &[(u32, u32)]) -> Result<Pass, Error> {
        let Matched { unit, dim, rows, most, .. } = *self;
        let count = pairs.len();
        let contexts: Vec<u32> = pairs.iter().map(|&(context, _)| context).collect();
        let (mut firsts, mut words) = (vec![0], Vec::new());
        for &(_, item) in pairs {
            let item = item as usize;
            words.extend(self.queries.offsets[item] as u32..self.queries.offsets[item + 1] as u32);
            firsts.push(words.len() as u32);
        }
        let (lines, pieces) = (words.len(), Pieces::new(&contexts, &firsts));
        let indices = [&contexts, &firsts, &words, &pieces.lines, &pieces.described];
        let indices = unit.array(&indices.map(Vec::as_slice).concat())?;
        let described = unit.array(&[
            indices.at(0).bits(),
            indices.at(count).bits(),
            indices.at(2 * count + 1).bits(),
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
            words,
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
        self.gather_words(&pass, self.queries.values, &pass.queries[0])?;
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
            memory.project(unit, (queries, lines), 0, layers)?;
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
            dim.into(),
        ];
        unit.run("refine", Unit::rows(lines), &arguments)
    }

    /// Copies the rows of a table that has one for each query to the lines.
    fn gather_words(&self, pass: &Pass, table: &Array<f32>, out: &Array<f32>) -> Result<(), Error> {
        let width = table.len() / (self.queries.values.len() / self.dim).max(1);
        let arguments = [out.into(), table.into(), pass.words_on_device().into(), width.into()];
        self.unit.run("gather", Unit::rows(pass.lines), &arguments)
    }
}
