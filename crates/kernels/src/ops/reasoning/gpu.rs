//! Scores of all pairs on a GPU.

use nextpair_cuda::{Array, Operand};

use super::{Keys, Reasoning, ReasoningHead, ReasoningStep, Step, Weights};
use crate::cuda::{AllAligned, Unit};
use crate::device::Cuda;
use crate::ops::SimilarityWeights;
use crate::{Attention, Device, Encoded, Error, Tensor, Values};

impl ReasoningHead {
    /// The same with every tensor changed.
    fn each(&self, change: impl Fn(&Tensor) -> Tensor) -> Self {
        let both = |layer: &[Tensor; 2]| [change(&layer[0]), change(&layer[1])];
        match self {
            ReasoningHead::Graph(steps) => {
                let step = |step: &ReasoningStep| ReasoningStep {
                    query: both(&step.query),
                    key: both(&step.key),
                    graph: both(&step.graph),
                };
                ReasoningHead::Graph(steps.iter().map(step).collect())
            }
            ReasoningHead::Filter { attention, norm, running } => ReasoningHead::Filter {
                attention: both(attention),
                norm: both(norm),
                running: both(running),
            },
        }
    }
}

impl Reasoning {
    /// The same with every tensor changed.
    pub(super) fn each(&self, change: impl Fn(&Tensor) -> Tensor) -> Self {
        let both = |layer: &[Tensor; 2]| [change(&layer[0]), change(&layer[1])];
        let Weights { similarity, head, score, .. } = &*self.0;
        let similarity =
            SimilarityWeights { local: both(&similarity.local), global: both(&similarity.global) };
        Reasoning::of(similarity, head.each(&change), both(score))
    }

    /// The same weights, detached from the graph.
    pub fn detached(&self) -> Self {
        self.each(Tensor::detached)
    }

    /// The same weights, compared in the precision of another device. Only GPUs have several.
    pub fn in_precision_of(&self, device: Device) -> Self {
        self.each(|tensor| tensor.in_precision_of(device))
    }

    pub(super) fn gpu_scores(
        &self,
        cuda: Cuda,
        images: &Encoded,
        texts: &Encoded,
    ) -> Result<Vec<f32>, Error> {
        let unit = &Unit::new(cuda)?;
        // Without gradients, nothing but results is kept.
        let own = self.detached();
        let Weights { similarity, head, .. } = &*own.0;
        let sizes @ (_, size) = similarity.sizes()?;
        let SimilarityWeights { local: [local, local_bias], global: [global, global_bias] } =
            similarity;
        let weights = [local.array()?, local_bias.array()?, global.array()?, global_bias.array()?];
        let both = (images.gpu_rows()?, texts.gpu_rows()?);
        let aligned = AllAligned::new(unit, sizes, Attention::alignment(), both, weights)?;
        let steps = match head {
            ReasoningHead::Graph(steps) => {
                steps.iter().map(|step| folded(unit, size, step)).collect::<Result<_, Error>>()?
            }
            ReasoningHead::Filter { .. } => Vec::new(),
        };
        let scores = aligned.scores(|nodes, offsets| {
            let shape = [nodes.len() / size, size];
            let nodes = Tensor::of_values(Values::Cuda(cuda, nodes), &shape)?;
            own.scored(&own.headed(&steps, nodes, offsets)?)?.array().cloned()
        })?;
        Ok(scores.to_vec()?)
    }
}

/// A step with one product for queries and keys. With their weights `Q` and `K`, the affinity of two nodes
/// is `x_i Qᵀ K x_j + q K x_j` and terms that a softmax over `j` does not see.
fn folded(unit: &Unit, size: usize, step: &ReasoningStep) -> Result<Step, Error> {
    let exact = unit.in_single_precision();
    let [query, query_bias] = &step.query;
    let key = Operand::new(step.key[0].array()?, 0, size);
    let (weight, shift): (Array<f32>, Array<f32>) = (unit.empty(size * size)?, unit.empty(size)?);
    let (right, to) = (Operand::new(query.array()?, 0, size), Operand::new(&weight, 0, size));
    exact.multiply((size, size, size), key.turned(), right, 0.0, to)?;
    let (left, to) = (Operand::new(query_bias.array()?, 0, size), Operand::new(&shift, 0, size));
    exact.multiply((1, size, size), left, key, 0.0, to)?;
    let tensor = |numbers: Array<f32>, shape: &[usize]| match query.device() {
        Device::Cuda(cuda) => Tensor::of_values(Values::Cuda(cuda, numbers), shape),
        _ => Err(Error::Devices),
    };
    let query = [tensor(weight, &[size, size])?, tensor(shift, &[size])?];
    Ok(Step { query, keys: Keys::Nodes, graph: step.graph.clone() })
}
