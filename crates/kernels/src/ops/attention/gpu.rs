//! The same on a GPU.

use std::sync::{Arc, PoisonError};

use nextpair_core::Side;
use nextpair_cuda::Array;
use rayon::prelude::*;

use super::{Direction, Matching, MemoryWeights, PairScores};
use crate::cuda::{EvenRows, Matched, MemoryArrays, Prepared, Rows, Scoring, Unit, can_score};
use crate::{Encoded, Error, Precision, Tensor};

impl MemoryWeights {
    /// Its weights, which are on a GPU.
    fn gpu(&self) -> Result<MemoryArrays<'_>, Error> {
        let [a, b, c, d] = self.parts().map(Tensor::array);
        Ok([a?, b?, c?, d?])
    }
}

impl Direction {
    /// The weights of its memory on a GPU.
    fn gpu_memory(&self) -> Result<Option<MemoryArrays<'_>>, Error> {
        self.memory.as_ref().map(MemoryWeights::gpu).transpose()
    }
}

impl Matching {
    /// Whether the matrix units score these items.
    pub(super) fn has_matrix_units(&self, unit: &Unit, images: &Encoded, texts: &Encoded) -> bool {
        let contexts = |direction: &Direction| direction.asking.own_and_other(images, texts).1;
        let longest = self.0.directions.iter().map(|direction| contexts(direction).longest());
        let longest = longest.max().unwrap_or(0);
        unit.precision() == Precision::Fp16
            && can_score(self.0.dim, longest)
            && !images.is_empty()
            && !texts.is_empty()
    }

    /// The scores of all pairs of every member by the matrix units.
    pub(super) fn gpu_scores(
        &self,
        unit: &Unit,
        images: &Encoded,
        texts: &Encoded,
    ) -> Result<Vec<f32>, Error> {
        self.check_items(images, texts)?;
        let (rows, columns) = self.items_of_each(images.len(), texts.len())?;
        let (dim, members) = (self.0.dim, self.0.members);
        let (mut parts, mut asked) = (Vec::new(), Vec::new());
        for direction in &self.0.directions {
            let memory = direction.gpu_memory()?;
            let scoring = Scoring::new(unit, (dim, members), direction.attention, memory)?;
            let (queries, contexts) = direction.asking.own_and_other(images, texts);
            let queries = queries.gpu_rows()?.even(unit, dim, members)?;
            let contexts = scoring.contexts(contexts.gpu_rows()?)?;
            parts.push(scoring.scores(&contexts, &scoring.queries(&queries)?)?);
            asked.push(queries);
        }
        let scored = unit.gpu().mark()?;
        if images.rows.is_tracked() || texts.rows.is_tracked() {
            // Some of the pairs will need gradients: the device goes on while the host looks at scores.
            self.prepare(unit, images.gpu_rows()?, texts.gpu_rows()?, asked)?;
        }
        let mut out = vec![0.0; members * rows * columns];
        for (direction, part) in self.0.directions.iter().zip(parts) {
            let part = part.read_at(&scored)?;
            let members = out.par_chunks_exact_mut(rows * columns);
            members.zip(part.par_chunks_exact(rows * columns)).for_each(|(out, part)| {
                direction.add_scores(part, (rows, columns), out);
            });
        }
        Ok(out)
    }

    /// Prepares gradients of pairs of these items, of which some ask in every direction.
    fn prepare(
        &self,
        unit: &Unit,
        images: Rows<'_>,
        texts: Rows<'_>,
        asked: Vec<EvenRows>,
    ) -> Result<(), Error> {
        let each = self.0.directions.iter().zip(asked).map(|(direction, queries)| {
            let (_, contexts) = direction.asking.own_and_other(images, texts);
            let memory = direction.gpu_memory()?;
            Prepared::new(unit, self.0.dim, direction.attention, memory, contexts, queries)
                .map(Arc::new)
        });
        let items = [images.values.clone(), texts.values.clone()];
        let ahead = Ahead { items, each: each.collect::<Result<_, _>>()? };
        *self.0.ahead.lock().unwrap_or_else(PoisonError::into_inner) = Some(ahead);
        Ok(())
    }

    /// What was prepared for these items, direction by direction.
    fn prepared(&self, images: &Array<f32>, texts: &Array<f32>) -> Option<Vec<Arc<Prepared>>> {
        let ahead = self.0.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |ahead: &&Ahead| {
            // Arrays are not changed while somebody shares them.
            let [own_images, own_texts] = &ahead.items;
            own_images.pointer() == images.pointer() && own_texts.pointer() == texts.pointer()
        };
        ahead.as_ref().filter(same).map(|ahead| ahead.each.clone())
    }
}

/// What gradients of pairs of some items need, computed before the pairs are known.
pub(super) struct Ahead {
    /// Images and captions.
    items: [Array<f32>; 2],
    /// Of every direction.
    each: Vec<Arc<Prepared>>,
}

impl PairScores {
    /// Visits every direction on a GPU; the last argument says whether it has a memory.
    fn matched(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        mut visit: impl FnMut(Side, &Matched<'_>, bool) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let images = Rows { values: inputs[0], offsets: &self.image_offsets };
        let texts = Rows { values: inputs[1], offsets: &self.text_offsets };
        let mut memories = inputs[2..].chunks_exact(4);
        let ahead = self.matching.prepared(inputs[0], inputs[1]);
        for (at, direction) in self.matching.0.directions.iter().enumerate() {
            let memory = direction.memory.as_ref().and_then(|_| memories.next());
            let memory = memory.map(|parts| [parts[0], parts[1], parts[2], parts[3]]);
            let (queries, contexts) = direction.asking.own_and_other(images, texts);
            let (dim, attention) = (self.matching.0.dim, direction.attention);
            let prepared = match &ahead {
                Some(each) => each[at].clone(),
                None => {
                    let queries = queries.even(unit, dim, self.matching.0.members)?;
                    Arc::new(Prepared::new(unit, dim, attention, memory, contexts, queries)?)
                }
            };
            let matched = Matched::new(unit, dim, attention, contexts, prepared);
            visit(direction.asking, &matched, memory.is_some())?;
        }
        Ok(())
    }

    pub(super) fn forward_on(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
    ) -> Result<Array<f32>, Error> {
        if let Some(known) = &self.known {
            return unit.array(known);
        }
        let mut out = unit.zeros(self.pairs.len())?;
        self.matched(unit, inputs, |asking, matched, _| {
            matched.add_scores(&self.pairs_of(asking), &mut out)
        })?;
        Ok(out)
    }

    pub(super) fn backward_on(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let mut of_items: [Option<Array<f32>>; 2] = [None, None];
        let mut of_memories = Vec::new();
        self.matched(unit, inputs, |asking, matched, has_memory| {
            let found = matched.gradients(&self.pairs_of(asking), upstream)?;
            let (images, texts) = asking.image_and_text(found.queries, found.contexts);
            for (sum, part) in of_items.iter_mut().zip([images, texts]) {
                match sum {
                    Some(sum) => unit.add(sum, &part)?,
                    None => *sum = Some(part),
                }
            }
            if has_memory {
                // A memory that a single step does not use has no gradient.
                let parts = found.memory.map(|parts| parts.map(Some));
                of_memories.extend(parts.unwrap_or_default());
            }
            Ok(())
        })?;
        Ok(of_items.into_iter().chain(of_memories).collect())
    }
}
