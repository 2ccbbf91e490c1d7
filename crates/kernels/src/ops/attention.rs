//! Attention between items of several vectors, as one differentiable operation.

mod gpu;
mod members;
mod pair_scores;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, OnceLock};

use nextpair_core::Side;

use crate::cuda::Unit;
use crate::operation::apply;
use crate::{Attention, Device, Encoded, Error, Matcher, Memory, Tensor, Values};
use gpu::Ahead;
use pair_scores::PairScores;

/// The weights of a gated memory. Those of several members of an ensemble have a leading axis of members.
#[derive(Clone, Debug)]
pub struct MemoryWeights {
    /// Weights of the proposal, `dim` by `2 dim`: the query's half, then that of the attended
    /// vector.
    pub linear_weight: Tensor,
    /// Biases of the proposal.
    pub linear_bias: Tensor,
    /// Weights of the gate, of the same shape.
    pub gate_weight: Tensor,
    /// Biases of the gate.
    pub gate_bias: Tensor,
}

impl MemoryWeights {
    fn parts(&self) -> [&Tensor; 4] {
        [&self.linear_weight, &self.linear_bias, &self.gate_weight, &self.gate_bias]
    }
}

/// Numbers of each part of the memory of a member.
fn sizes(dim: usize) -> [usize; 4] {
    [2 * dim * dim, dim, 2 * dim * dim, dim]
}

/// One direction of attention.
#[derive(Clone, Debug)]
pub struct Direction {
    /// The side whose vectors are the queries: words that attend to regions ([`Side::Text`]), or
    /// regions that attend to words.
    pub asking: Side,
    /// Settings of the attention.
    pub attention: Attention,
    /// Refines the queries between steps.
    pub memory: Option<MemoryWeights>,
}

impl Direction {
    /// Adds the scores of this direction, contexts by queries, to those of images by captions.
    fn add_scores(&self, part: &[f32], (rows, columns): (usize, usize), out: &mut [f32]) {
        for (image, out) in out.chunks_exact_mut(columns).enumerate() {
            for (text, out) in out.iter_mut().enumerate() {
                *out += match self.asking {
                    Side::Text => part[image * columns + text],
                    Side::Image => part[text * rows + image],
                };
            }
        }
    }
}

/// Compares images and captions by attention: in one direction, or as the sum of two.
#[derive(Clone)]
pub struct Matching(Arc<Weights>);

struct Weights {
    dim: usize,
    members: usize,
    directions: Vec<Direction>,
    /// Packed for the CPU on first use: those of every direction, member by member.
    matchers: OnceLock<Vec<Vec<Matcher>>>,
    /// Computed ahead on a GPU.
    ahead: Mutex<Option<Ahead>>,
}

impl Weights {
    fn new(dim: usize, members: usize, directions: Vec<Direction>) -> Self {
        Weights { dim, members, directions, matchers: OnceLock::new(), ahead: Mutex::new(None) }
    }
}

impl Matching {
    /// Matches vectors of `dim` dimensions with the current weights of so many members of an ensemble. Images
    /// and captions are those of the first member, of the second, and so on: equally many of each.
    ///
    /// # Errors
    /// If there is no direction, several steps without a memory, or a memory of another size.
    pub fn new(dim: usize, members: usize, directions: Vec<Direction>) -> Result<Self, Error> {
        let members = members.max(1);
        if directions.is_empty() {
            return Err(Error::NoDirection);
        }
        for Direction { attention, memory, .. } in &directions {
            attention.check()?;
            if attention.steps > 1 && memory.is_none() {
                return Err(Error::NoMemory { steps: attention.steps });
            }
            for (part, each) in memory.iter().flat_map(MemoryWeights::parts).zip(sizes(dim)) {
                Error::check_len("a part of a memory", part.len(), members * each)?;
            }
        }
        Ok(Matching(Arc::new(Weights::new(dim, members, directions))))
    }

    /// Number of members of the ensemble.
    pub fn members(&self) -> usize {
        self.0.members
    }

    /// The same weights, compared in the precision of another device. Only GPUs have several.
    pub fn in_precision_of(&self, device: Device) -> Self {
        let turned = |memory: &MemoryWeights| MemoryWeights {
            linear_weight: memory.linear_weight.in_precision_of(device),
            linear_bias: memory.linear_bias.in_precision_of(device),
            gate_weight: memory.gate_weight.in_precision_of(device),
            gate_bias: memory.gate_bias.in_precision_of(device),
        };
        let directions = self.0.directions.iter().map(|direction| Direction {
            memory: direction.memory.as_ref().map(turned),
            ..direction.clone()
        });
        let (dim, members) = (self.0.dim, self.0.members);
        Matching(Arc::new(Weights::new(dim, members, directions.collect())))
    }

    /// The matchers of every member, direction by direction.
    fn matchers(&self) -> Result<&[Vec<Matcher>], Error> {
        if let Some(matchers) = self.0.matchers.get() {
            return Ok(matchers);
        }
        let memories = self.0.directions.iter().map(|direction| {
            let parts = direction.memory.iter().flat_map(MemoryWeights::parts);
            parts.map(Tensor::to_f32s).collect::<Result<Vec<_>, Error>>()
        });
        let memories = memories.collect::<Result<Vec<_>, Error>>()?;
        let matcher = |direction: &Direction, parts: &[Vec<f32>], member: usize| {
            let own = |at: usize| {
                let each = sizes(self.0.dim)[at];
                &parts[at][member * each..][..each]
            };
            let memory = direction.memory.as_ref().map(|_| Memory {
                linear_weight: own(0),
                linear_bias: own(1),
                gate_weight: own(2),
                gate_bias: own(3),
            });
            Matcher::new(self.0.dim, direction.attention, memory)
        };
        let packed = (0..self.0.members).map(|member| {
            let directions = self.0.directions.iter().zip(&memories);
            directions.map(|(direction, parts)| matcher(direction, parts, member)).collect()
        });
        let packed = packed.collect::<Result<Vec<_>, Error>>()?;
        Ok(self.0.matchers.get_or_init(|| packed))
    }

    /// The scores of all pairs, images by captions, without gradients: of several members, those of the
    /// images and captions of each, one after the other. A score has the same bits whatever else is
    /// scored with it.
    ///
    /// # Errors
    /// If an item has no vectors, or vectors of other dimensions.
    pub fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        match (images.rows.values(), texts.rows.values()) {
            (Values::Cpu(_), Values::Cpu(_)) => return self.cpu_scores(images, texts),
            (Values::Cuda(cuda, _), Values::Cuda(other, _)) if cuda == other => {
                let unit = Unit::new(*cuda)?;
                if self.has_matrix_units(&unit, images, texts) {
                    return self.gpu_scores(&unit, images, texts);
                }
            }
            _ => {}
        }
        let pairs = Encoded::pairs_of_members(images, texts, self.0.members);
        self.pair_scores(&images.detached(), &texts.detached(), &pairs, None)?.to_f32s()
    }

    fn cpu_scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        let shares = self.shares(&images.offsets, &texts.offsets)?;
        let (images, texts) = (images.ragged()?, texts.ragged()?);
        let (rows, columns) = (images.len() / shares.len(), texts.len() / shares.len());
        let mut out = vec![0.0; rows * columns * shares.len()];
        if out.is_empty() {
            return Ok(out);
        }
        let mut part = vec![0.0; rows * columns];
        let members = out.chunks_exact_mut(rows * columns).zip(&shares).zip(self.matchers()?);
        for ((out, share), matchers) in members {
            let (images, texts) = (share.images.of(images), share.texts.of(texts));
            for (direction, matcher) in self.0.directions.iter().zip(matchers) {
                let (queries, contexts) = direction.asking.own_and_other(images, texts);
                matcher.scores(contexts, queries, &mut part)?;
                direction.add_scores(&part, (rows, columns), out);
            }
        }
        Ok(out)
    }

    /// Refuses items without vectors, and vectors of other dimensions.
    fn check_items(&self, images: &Encoded, texts: &Encoded) -> Result<(), Error> {
        for (what, items) in [("the images", images), ("the captions", texts)] {
            Error::check_dims(what, items.dim()?, "the attention", self.0.dim)?;
            if let Some(item) = items.offsets.windows(2).position(|pair| pair[0] >= pair[1]) {
                return Err(Error::EmptyItem { what, item });
            }
        }
        Ok(())
    }

    /// The scores of some `(image, caption)` pairs, with gradients. Scores that are `known`, from
    /// [`scores`](Self::scores), are not computed again.
    ///
    /// # Errors
    /// If there is no such pair, or it belongs to no member, an item has no vectors, or vectors of other
    /// dimensions.
    pub fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        let (of_images, of_captions): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        Error::check_indices("images of the pairs", &of_images, images.len())?;
        Error::check_indices("captions of the pairs", &of_captions, texts.len())?;
        self.check_items(images, texts)?;
        self.check_pairs(images, texts, pairs)?;
        let memories = self.0.directions.iter().filter_map(|direction| direction.memory.as_ref());
        let memories = memories.flat_map(MemoryWeights::parts);
        let inputs: Vec<&Tensor> =
            [&images.rows, &texts.rows].into_iter().chain(memories).collect();
        let operation = PairScores {
            matching: self.clone(),
            image_offsets: images.offsets.clone(),
            text_offsets: texts.offsets.clone(),
            pairs: pairs.to_vec(),
            known,
        };
        apply(operation, &inputs)
    }
}
