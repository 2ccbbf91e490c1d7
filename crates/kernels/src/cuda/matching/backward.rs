//! From the gradients of scores back to those of queries, contexts and memory.

use nextpair_cuda::{Array, Grid, Operand, Pointer};

use super::pass::Pass;
use super::{Gradients, Matched};
use crate::Error;
use crate::cuda::Unit;
use crate::cuda::factor::Factor;
use crate::cuda::grouping::Grouping;
use crate::cuda::lines::PAIR_THREADS;

/// Gradients of one direction while they are added up.
pub(super) struct Sums {
    pub(super) padded: Array<f32>,
    pub(super) queries: Array<f32>,
    /// Those of the tables and of both layers.
    pub(super) memory: Option<OfMemory>,
}

pub(super) struct OfMemory {
    pub(super) members: usize,
    pub(super) projected: Array<f32>,
    pub(super) weights: Array<f32>,
    pub(super) bias: Array<f32>,
}

impl Matched<'_> {
    pub(super) fn backward(
        &self,
        pass: &Pass,
        upstream: Pointer,
        sums: &mut Sums,
    ) -> Result<(), Error> {
        let Matched { unit, dim, rows, most, .. } = *self;
        let (count, lines) = (pass.lines.count, pass.lines.len);
        let of_first = unit.zeros::<f32>(lines * rows)?;
        let of_grams = unit.zeros::<f32>(count * rows * rows)?;
        let radial = unit.zeros::<f32>(lines)?;
        let last = self.attention.steps - 1;
        let words = self.prepared.queries.values.len() / dim;
        let by_word = unit.grouping(pass.lines.by_word(), words)?;
        for step in (0..=last).rev() {
            let arguments = [
                (&pass.of_raw).into(),
                (&of_first).into(),
                (&of_grams).into(),
                (&radial).into(),
                (&pass.weights[step]).into(),
                (&pass.raw[step]).into(),
                (&pass.raw[0]).into(),
                Some(&pass.of_weights).filter(|_| step < last).into(),
                upstream.into(),
                (&pass.lines.described).into(),
                (&self.prepared.attending).into(),
            ];
            let shared = 8 * most * rows + 4 * (3 * most * rows + 4 * most);
            let grid = Grid::blocks(count, PAIR_THREADS).shared(shared);
            unit.run("attend_pairs_back", grid, &arguments)?;
            if step == 0 {
                // The first raw scores are also factors of every cosine.
                let length = lines * rows;
                let arguments = [(&pass.of_raw).into(), (&of_first).into(), length.into()];
                unit.run("add", Grid::each(length), &arguments)?;
            }
            let (of_raw, queries) = (&pass.of_raw, &pass.queries[step]);
            pass.lines.add_to_contexts(unit, of_raw, queries, dim, &sums.padded)?;
            // The gradient of the step's queries: from its scores, and from the step after it.
            let keep = if step == last { 0.0 } else { 1.0 };
            let contexts = (&self.prepared.padded, dim);
            pass.lines.add_rows(unit, of_raw, contexts, keep, &pass.of_queries)?;
            if step > 0 {
                self.refine_back(pass, step, &by_word, sums)?;
            }
        }
        // The gradients of Gram matrices, of all pairs of a context together.
        let places = self.contexts.len();
        let of_grams = unit.add_rows(&of_grams, rows * rows, pass.lines.by_context(), places)?;
        let left = Operand::new(&of_grams, 0, rows).apart(rows * rows);
        let right = Operand::new(&self.prepared.padded, 0, dim).apart(rows * dim);
        let to = Operand::new(&sums.padded, 0, dim).apart(rows * dim);
        unit.multiply_each(places, (rows, dim, rows), left, right, 1.0, to)?;
        let first = &pass.queries[0];
        let of_queries = &pass.of_queries;
        let arguments = [of_queries.into(), first.into(), (&radial).into(), dim.into()];
        unit.run("add_radial", Unit::rows(lines), &arguments)?;
        let found = unit.add_grouped(of_queries, dim, &by_word)?;
        unit.add(&mut sums.queries, &found)?;
        Ok(())
    }

    /// Goes back through the refinement that made the queries of `step`: replaces their gradient by that
    /// of the queries before, and the gradient of weights by that of the weights before.
    fn refine_back(
        &self,
        pass: &Pass,
        step: usize,
        by_word: &Grouping,
        sums: &mut Sums,
    ) -> Result<(), Error> {
        let Matched { unit, dim, .. } = *self;
        let (Some(memory), Some((projected, _)), Some(of_memory)) =
            (&self.prepared.memory, &self.prepared.tables, &sums.memory)
        else {
            return Err(Error::NoMemory { steps: self.attention.steps });
        };
        let lines = &pass.lines;
        let (layers, of_queries) = (&pass.layers[step - 1], &pass.of_queries);
        let arguments = [
            of_queries.into(),
            layers.into(),
            (&pass.queries[step]).into(),
            (&pass.queries[step - 1]).into(),
            pass.norms[step - 1].as_ref().into(),
            dim.into(),
        ];
        // From here on the layers hold their gradients.
        unit.run("refine_back", Unit::rows(lines.len), &arguments)?;
        lines.clear_unused(unit, layers, 2 * dim)?;
        lines.multiply_by_rows(unit, layers, (projected, 2 * dim), &pass.of_weights)?;
        let (weights, to) = (&pass.weights[step - 1], &of_memory.projected);
        lines.add_to_contexts(unit, weights, layers, 2 * dim, to)?;
        if step == 1 {
            // What both layers make of a first query is the same for all its pairs.
            let of_words = unit.add_grouped(layers, 2 * dim, by_word)?;
            let factor = of_memory.add(unit, dim, &self.prepared.queries.values, &of_words)?;
            memory.add_projected(unit, 0, &factor, &sums.queries)
        } else {
            lines.clear_unused(unit, &pass.queries[step - 1], dim)?;
            let factor = of_memory.add(unit, dim, &pass.queries[step - 1], layers)?;
            memory.add_projected(unit, 0, &factor, of_queries)
        }
    }

    pub(super) fn finish(&self, sums: Sums) -> Result<Gradients, Error> {
        let Matched { unit, dim, rows, .. } = *self;
        let Sums { padded: of_padded, queries, memory: of_memory } = sums;
        let memory = match (&self.prepared.memory, of_memory) {
            (Some(memory), Some(of_memory)) => {
                let (padded, projected) = (&self.prepared.padded, &of_memory.projected);
                let projected = of_memory.add_half(unit, dim, dim, padded, projected)?;
                memory.add_projected(unit, dim, &projected, &of_padded)?;
                let OfMemory { members, weights, bias, .. } = of_memory;
                let half = |both: &Array<f32>, second: usize| {
                    let (half, each) = (unit.empty(both.len() / 2)?, both.len() / 2 / members);
                    let from = (both, second * each, 2 * each);
                    unit.copy_parts(members, each, from, (&half, 0, each))?;
                    Ok::<_, Error>(half)
                };
                Some([half(&weights, 0)?, half(&bias, 0)?, half(&weights, 1)?, half(&bias, 1)?])
            }
            _ => None,
        };
        let contexts = unit.unpadded(of_padded, self.contexts, (rows, dim))?;
        let queries = self.prepared.queries.given(unit, queries, dim)?;
        Ok(Gradients { contexts, queries, memory })
    }
}

impl OfMemory {
    /// Adds the gradients of the half of both weights that applies to queries, and of the biases.
    /// Returns the gradients of the layers as a factor.
    fn add(
        &self,
        unit: &Unit,
        dim: usize,
        queries: &Array<f32>,
        of_layers: &Array<f32>,
    ) -> Result<Factor, Error> {
        unit.column_sums_of_each(self.members, of_layers, 2 * dim, 1.0, &self.bias)?;
        self.add_half(unit, dim, 0, queries, of_layers)
    }

    /// Adds the gradients of the half of both weights that begins with column `half`, from rows and the
    /// gradients of what the layers make of them. Returns these as a factor.
    fn add_half(
        &self,
        unit: &Unit,
        dim: usize,
        half: usize,
        rows: &Array<f32>,
        of_layers: &Array<f32>,
    ) -> Result<Factor, Error> {
        let of_each = rows.len() / (self.members * dim);
        let of_layers = unit.factor(of_layers, 2 * dim, dim)?;
        let rows = unit.factor(rows, dim, 2 * dim)?;
        // The zeros at the end of a factor are those of the last member.
        let depth = if self.members == 1 { rows.rows } else { of_each };
        let left = of_layers.operand(0, 2 * dim).apart(of_each * 2 * dim).turned();
        let right = rows.operand(0, dim).apart(of_each * dim);
        let to = Operand::new(&self.weights, half, 2 * dim).apart(4 * dim * dim);
        unit.multiply_each(self.members, (2 * dim, dim, depth), left, right, 1.0, to)?;
        Ok(of_layers)
    }
}
