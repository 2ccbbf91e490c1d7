//! The scores of pairs as an operation: its formula, and its form for the CPU.

use nextpair_core::Side;
use nextpair_cuda::Array;

use super::Matching;
use crate::cross::{PlainMemory, steps};
use crate::cuda::Unit;
use crate::operation::Operation;
use crate::{Error, Ragged, Real};

/// Its inputs are images, captions and, for every direction with a memory, the four weights.
pub(super) struct PairScores {
    pub(super) matching: Matching,
    pub(super) image_offsets: Vec<usize>,
    pub(super) text_offsets: Vec<usize>,
    pub(super) pairs: Vec<(u32, u32)>,
    pub(super) known: Option<Vec<f32>>,
}

impl PairScores {
    fn ragged<'a>(&'a self, inputs: &[&'a [f32]]) -> (Ragged<'a>, Ragged<'a>) {
        let dim = self.matching.0.dim;
        (
            Ragged { dim, values: inputs[0], offsets: &self.image_offsets },
            Ragged { dim, values: inputs[1], offsets: &self.text_offsets },
        )
    }

    /// The pairs as `(context, query)` in a direction.
    pub(super) fn pairs_of(&self, asking: Side) -> Vec<(u32, u32)> {
        let turned = |&(image, text): &(u32, u32)| {
            let (query, context) = asking.own_and_other(image, text);
            (context, query)
        };
        self.pairs.iter().map(turned).collect()
    }
}

impl Operation for PairScores {
    fn shape(&self) -> Vec<usize> {
        vec![self.pairs.len()]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let dim = self.matching.0.dim;
        let rows = |input: usize, offsets: &[usize], item: u32| {
            &inputs[input][offsets[item as usize] * dim..offsets[item as usize + 1] * dim]
        };
        let score = |&(image, text): &(u32, u32)| {
            let images = rows(0, &self.image_offsets, image);
            let texts = rows(1, &self.text_offsets, text);
            let mut memories = inputs[2..].chunks_exact(4);
            R::sum(self.matching.0.directions.iter().map(|direction| {
                let memory = direction.memory.as_ref().and_then(|_| memories.next());
                let memory = memory.map(|parts| PlainMemory {
                    linear_weight: parts[0],
                    linear_bias: parts[1],
                    gate_weight: parts[2],
                    gate_bias: parts[3],
                });
                let (queries, context) = direction.asking.own_and_other(images, texts);
                R::sum(steps(&direction.attention, memory, dim, context, queries))
            }))
        };
        self.pairs.iter().map(score).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        if let Some(known) = &self.known {
            return Ok(known.clone());
        }
        let (images, texts) = self.ragged(inputs);
        let mut out = vec![0.0; self.pairs.len()];
        let mut part = vec![0.0; self.pairs.len()];
        for (direction, matcher) in self.matching.0.directions.iter().zip(self.matching.matchers()?)
        {
            let (queries, contexts) = direction.asking.own_and_other(images, texts);
            matcher.pair_scores(contexts, queries, &self.pairs_of(direction.asking), &mut part)?;
            out.iter_mut().zip(&part).for_each(|(sum, part)| *sum += part);
        }
        Ok(out)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let (images, texts) = self.ragged(inputs);
        let mut of_images = vec![0.0; images.values.len()];
        let mut of_texts = vec![0.0; texts.values.len()];
        let mut of_memories = Vec::new();
        for (direction, matcher) in self.matching.0.directions.iter().zip(self.matching.matchers()?)
        {
            let (queries, contexts) = direction.asking.own_and_other(images, texts);
            let pairs = self.pairs_of(direction.asking);
            let found = matcher.gradients(contexts, queries, &pairs, upstream)?;
            let sums = direction.asking.own_and_other(&mut of_images, &mut of_texts);
            add(sums.0, &found.queries);
            add(sums.1, &found.contexts);
            if direction.memory.is_some() {
                // A memory that a single step does not use has no gradient.
                let parts = found.memory.map(|parts| parts.map(Some)).unwrap_or_default();
                of_memories.extend(parts);
            }
        }
        Ok([Some(of_images), Some(of_texts)].into_iter().chain(of_memories).collect())
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        self.forward_on(unit, inputs)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        self.backward_on(unit, inputs, upstream)
    }
}

fn add(sum: &mut [f32], part: &[f32]) {
    sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
}
