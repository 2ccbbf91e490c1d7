//! The scores of pairs as an operation: its formula, and its form for the CPU.

use nextpair_core::Side;
use nextpair_cuda::Array;

use super::members::{OwnPairs, Share};
use super::{Matching, sizes};
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
        turned(&self.pairs, asking)
    }

    fn shares(&self) -> Result<Vec<Share>, Error> {
        self.matching.shares(&self.image_offsets, &self.text_offsets)
    }
}

/// Pairs of images and captions as `(context, query)` in a direction.
fn turned(pairs: &[(u32, u32)], asking: Side) -> Vec<(u32, u32)> {
    let turned = |&(image, text): &(u32, u32)| {
        let (query, context) = asking.own_and_other(image, text);
        (context, query)
    };
    pairs.iter().map(turned).collect()
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
        let images_of_member = (self.image_offsets.len() - 1) / self.matching.0.members;
        let score = |&(image, text): &(u32, u32)| {
            let member = image as usize / images_of_member;
            let images = rows(0, &self.image_offsets, image);
            let texts = rows(1, &self.text_offsets, text);
            let mut memories = inputs[2..].chunks_exact(4);
            R::sum(self.matching.0.directions.iter().map(|direction| {
                let memory = direction.memory.as_ref().and_then(|_| memories.next());
                let memory = memory.map(|parts| {
                    let own = |at: usize| {
                        let each = sizes(dim)[at];
                        &parts[at][member * each..][..each]
                    };
                    PlainMemory {
                        linear_weight: own(0),
                        linear_bias: own(1),
                        gate_weight: own(2),
                        gate_bias: own(3),
                    }
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
        for (share, matchers) in self.shares()?.iter().zip(self.matching.matchers()?) {
            let OwnPairs { pairs, places } = share.pairs(&self.pairs);
            let (images, texts) = (share.images.of(images), share.texts.of(texts));
            let mut part = vec![0.0; pairs.len()];
            for (direction, matcher) in self.matching.0.directions.iter().zip(matchers) {
                let (queries, contexts) = direction.asking.own_and_other(images, texts);
                let pairs = turned(&pairs, direction.asking);
                matcher.pair_scores(contexts, queries, &pairs, &mut part)?;
                places.iter().zip(&part).for_each(|(&place, part)| out[place] += part);
            }
        }
        Ok(out)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let ((images, texts), dim) = (self.ragged(inputs), self.matching.0.dim);
        let mut of_images = vec![0.0; images.values.len()];
        let mut of_texts = vec![0.0; texts.values.len()];
        // Those of the first member, then of the second.
        let mut of_memories: Vec<Option<Vec<f32>>> = Vec::new();
        for (share, matchers) in self.shares()?.iter().zip(self.matching.matchers()?) {
            let OwnPairs { pairs, places } = share.pairs(&self.pairs);
            let upstream: Vec<f32> = places.iter().map(|&place| upstream[place]).collect();
            let (images, texts) = (share.images.of(images), share.texts.of(texts));
            let sum_of_images = share.images.numbers(&mut of_images, dim);
            let sum_of_texts = share.texts.numbers(&mut of_texts, dim);
            let mut own: Vec<Option<Vec<f32>>> = Vec::new();
            for (direction, matcher) in self.matching.0.directions.iter().zip(matchers) {
                let (queries, contexts) = direction.asking.own_and_other(images, texts);
                let pairs = turned(&pairs, direction.asking);
                let found = matcher.gradients(contexts, queries, &pairs, &upstream)?;
                let sums = direction.asking.own_and_other(&mut *sum_of_images, &mut *sum_of_texts);
                add(sums.0, &found.queries);
                add(sums.1, &found.contexts);
                if direction.memory.is_some() {
                    // A memory that a single step does not use has no gradient.
                    own.extend(found.memory.map(|parts| parts.map(Some)).unwrap_or_default());
                }
            }
            if of_memories.is_empty() {
                of_memories = own;
            } else {
                for (all, own) in of_memories.iter_mut().zip(own) {
                    all.iter_mut().zip(own).for_each(|(all, own)| all.extend(own));
                }
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
