//! Comparison of images and captions by SGRAF: all pairs without gradients, or some with.

mod gpu;
mod pack;

use std::sync::{Arc, OnceLock};

use super::similarity_vectors::check_wholes;
use super::{
    SimilarityWeights, attend, attend_spans, gather, linear, normalise, relu, share_spans, sigmoid,
    similarity_vectors, unit_rows,
};
use crate::cross::Reasoner;
use crate::ops::Groups;
use crate::{Attention, Encoded, Error, Tensor, Values};

/// Added to norms.
const EPSILON: f32 = 1e-8;

/// Weights and biases of a step of graph reasoning, each of as many outputs as inputs.
#[derive(Clone, Debug)]
pub struct ReasoningStep {
    /// Of queries.
    pub query: [Tensor; 2],
    /// Of keys.
    pub key: [Tensor; 2],
    /// Of the layer that nodes go through.
    pub graph: [Tensor; 2],
}

/// What becomes of similarity vectors.
#[derive(Clone, Debug)]
pub enum ReasoningHead {
    /// Similarity graph reasoning (SGR).
    Graph(Vec<ReasoningStep>),
    /// Similarity attention filtration (SAF).
    Filter {
        /// Weight and bias of the attention.
        attention: [Tensor; 2],
        /// Gain and shift of its batch norm.
        norm: [Tensor; 2],
        /// Running mean and variance.
        running: [Tensor; 2],
    },
}

/// Compares images and captions by what becomes of their similarity vectors. The first row of every
/// item stands for the whole of it.
#[derive(Clone)]
pub struct Reasoning(Arc<Weights>);

struct Weights {
    similarity: SimilarityWeights,
    head: ReasoningHead,
    /// Weight and bias of the score.
    score: [Tensor; 2],
    /// Packed for the CPU on first use.
    packed: OnceLock<Reasoner>,
}

impl Reasoning {
    /// Compares with these weights.
    ///
    /// # Errors
    /// If weights do not fit together.
    pub fn new(
        similarity: SimilarityWeights,
        head: ReasoningHead,
        score: [Tensor; 2],
    ) -> Result<Self, Error> {
        let (_, size) = similarity.sizes()?;
        let check = |layer: &[Tensor; 2], outputs: usize| {
            Error::check_len("the weights of a layer", layer[0].len(), outputs * size)?;
            Error::check_len("the biases of a layer", layer[1].len(), outputs)
        };
        match &head {
            ReasoningHead::Graph(steps) if steps.is_empty() => return Err(Error::ZeroSteps),
            ReasoningHead::Graph(steps) => {
                let layers = steps.iter().flat_map(|step| [&step.query, &step.key, &step.graph]);
                layers.into_iter().try_for_each(|layer| check(layer, size))?;
            }
            ReasoningHead::Filter { attention, .. } => check(attention, 1)?,
        }
        check(&score, 1)?;
        Ok(Reasoning::of(similarity, head, score))
    }

    fn of(similarity: SimilarityWeights, head: ReasoningHead, score: [Tensor; 2]) -> Self {
        Reasoning(Arc::new(Weights { similarity, head, score, packed: OnceLock::new() }))
    }

    /// The scores of all pairs, images by captions, without gradients. On the CPU a score has the same bits
    /// whatever else is scored with it.
    ///
    /// # Errors
    /// If an item has fewer than two rows, or rows of other dimensions.
    pub fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        if matches!(images.rows.values(), Values::Reference(_)) {
            let pairs = Encoded::all_pairs(images, texts);
            return self.pair_scores(&images.detached(), &texts.detached(), &pairs)?.to_f32s();
        }
        check_wholes(images, texts, self.0.similarity.sizes()?.0)?;
        let mut out = vec![0.0; images.len() * texts.len()];
        match images.rows.values() {
            _ if out.is_empty() => {}
            Values::Cuda(cuda, _) => out = self.gpu_scores(*cuda, images, texts)?,
            _ => self.packed()?.scores(images.ragged()?, texts.ragged()?, &mut out),
        }
        Ok(out)
    }

    /// The scores of some `(image, caption)` pairs, with gradients.
    ///
    /// # Errors
    /// If there is no such pair, an item has fewer than two rows, or rows of other dimensions.
    pub fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
    ) -> Result<Tensor, Error> {
        let (nodes, offsets) = self.nodes(images, texts, pairs)?;
        let steps: Vec<Step> = match &self.0.head {
            ReasoningHead::Graph(steps) => steps.iter().map(Step::of).collect(),
            ReasoningHead::Filter { .. } => Vec::new(),
        };
        self.scored(&self.headed(&steps, nodes, &offsets)?)
    }

    /// The similarity vectors of pairs at unit norm, and the first of each pair, then the end of the
    /// last.
    ///
    /// # Errors
    /// As [`pair_scores`](Self::pair_scores).
    pub fn nodes(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
    ) -> Result<(Tensor, Vec<usize>), Error> {
        let attention = Attention::alignment();
        let (vectors, offsets) =
            similarity_vectors(images, texts, pairs, attention, &self.0.similarity)?;
        Ok((unit_rows(&vectors, EPSILON)?, offsets))
    }

    /// The scores of filtered nodes, whose batch norm of the attention is `normalised`: one number for
    /// each node.
    ///
    /// # Errors
    /// If shapes do not match.
    pub fn filtered_scores(
        &self,
        nodes: &Tensor,
        normalised: &Tensor,
        offsets: &[usize],
    ) -> Result<Tensor, Error> {
        self.scored(&filtered(nodes, normalised, offsets)?)
    }

    /// What the head makes of the nodes of every pair; a graph takes these steps.
    fn headed(&self, steps: &[Step], nodes: Tensor, offsets: &[usize]) -> Result<Tensor, Error> {
        match &self.0.head {
            ReasoningHead::Graph(_) => reasoned(steps, nodes, offsets),
            ReasoningHead::Filter { attention, norm: [gain, shift], running: [mean, variance] } => {
                let asked = linear(&nodes, &attention[0], &attention[1])?;
                let asked = normalise(&asked, gain, shift, &Groups::Columns, (mean, variance))?;
                filtered(&nodes, &asked, offsets)
            }
        }
    }

    fn scored(&self, vectors: &Tensor) -> Result<Tensor, Error> {
        let scores = linear(vectors, &self.0.score[0], &self.0.score[1])?;
        sigmoid(&scores.reshaped(&[scores.len()])?)
    }

    fn packed(&self) -> Result<&Reasoner, Error> {
        if let Some(packed) = self.0.packed.get() {
            return Ok(packed);
        }
        let packed = pack::pack(&self.0)?;
        Ok(self.0.packed.get_or_init(|| packed))
    }
}

/// A step of graph reasoning on its way through nodes.
struct Step {
    query: [Tensor; 2],
    keys: Keys,
    graph: [Tensor; 2],
}

/// Whom queries are compared with.
enum Keys {
    /// Nodes as they are.
    Nodes,
    /// Nodes through a layer.
    Layer([Tensor; 2]),
}

impl Step {
    fn of(ReasoningStep { query, key, graph }: &ReasoningStep) -> Self {
        Step { query: query.clone(), keys: Keys::Layer(key.clone()), graph: graph.clone() }
    }
}

/// The first node of every pair after all steps.
fn reasoned(steps: &[Step], mut nodes: Tensor, offsets: &[usize]) -> Result<Tensor, Error> {
    let pairs = offsets.len() - 1;
    let firsts: Vec<u32> = offsets[..pairs].iter().map(|&at| at as u32).collect();
    let ones: Vec<usize> = (0..=pairs).collect();
    for (at, Step { query, keys, graph }) in steps.iter().enumerate() {
        let keys = match keys {
            Keys::Nodes => nodes.clone(),
            Keys::Layer(key) => linear(&nodes, &key[0], &key[1])?,
        };
        // Nobody reads other nodes of the last step.
        let last = at + 1 == steps.len();
        let (asking, asking_offsets) = match last {
            true => (gather(&nodes, &firsts)?, &ones[..]),
            false => (nodes.clone(), offsets),
        };
        let queries = linear(&asking, &query[0], &query[1])?;
        let seen = attend_spans((&queries, asking_offsets), (&keys, &nodes, offsets), 1.0)?;
        nodes = relu(&linear(&seen, &graph[0], &graph[1])?)?;
    }
    Ok(nodes)
}

/// The mean of the nodes of every pair by their shares, at unit norm.
fn filtered(nodes: &Tensor, normalised: &Tensor, offsets: &[usize]) -> Result<Tensor, Error> {
    let shares = share_spans(&sigmoid(normalised)?, offsets)?;
    unit_rows(&attend(&shares, nodes, offsets)?, EPSILON)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::ops::judge::tensor;

    const DIM: usize = 24;
    const SIZE: usize = 17;

    fn layer(seed: u64, outputs: usize, inputs: usize) -> [Tensor; 2] {
        let weight = tensor(seed, &[outputs, inputs]).divided((inputs as f64).sqrt()).unwrap();
        [weight, tensor(seed + 1, &[outputs]).divided(3.0).unwrap()]
    }

    fn heads() -> Vec<ReasoningHead> {
        let step = |seed: u64| ReasoningStep {
            query: layer(seed, SIZE, SIZE),
            key: layer(seed + 2, SIZE, SIZE),
            graph: layer(seed + 4, SIZE, SIZE),
        };
        let one = |value: f32| Tensor::new(vec![value], &[1], Device::Cpu).unwrap();
        vec![
            ReasoningHead::Graph(vec![step(10)]),
            ReasoningHead::Graph((0..3).map(|at| step(10 * at)).collect()),
            ReasoningHead::Filter {
                attention: layer(40, 1, SIZE),
                norm: [one(1.3), one(-0.2)],
                running: [one(0.4), one(0.7)],
            },
        ]
    }

    fn items(seed: u64, offsets: Vec<usize>) -> Encoded {
        let rows = tensor(seed, &[offsets[offsets.len() - 1], DIM]);
        Encoded { rows: unit_rows(&rows, EPSILON).unwrap(), offsets }
    }

    #[test]
    fn all_scores_are_those_of_pairs_in_any_company() {
        let images = items(1, vec![0, 5, 9, 20]);
        let texts = items(2, vec![0, 3, 5, 20, 29, 61, 300]);
        let pairs = Encoded::all_pairs(&images, &texts);
        let similarity =
            SimilarityWeights { local: layer(3, SIZE, DIM), global: layer(5, SIZE, DIM) };
        for (device, head) in Device::available()
            .into_iter()
            .flat_map(|device| heads().into_iter().map(move |head| (device, head)))
        {
            let reasoning = Reasoning::new(similarity.clone(), head, layer(7, 1, SIZE)).unwrap();
            let exact = reasoning.pair_scores(&images, &texts, &pairs).unwrap().to_f32s().unwrap();
            let reasoning = reasoning.each(|weight| weight.to_device(device).unwrap());
            let [images, texts] = [&images, &texts].map(|items| Encoded {
                rows: items.rows.to_device(device).unwrap(),
                offsets: items.offsets.clone(),
            });
            let all = reasoning.scores(&images, &texts).unwrap();
            let some = reasoning.pair_scores(&images, &texts, &pairs).unwrap();
            for ((all, some), exact) in all.iter().zip(some.to_f32s().unwrap()).zip(exact) {
                assert!((all - some).abs() < 1e-6, "{device}: {all} {some}");
                assert!((all - exact).abs() < 2e-6, "{device}: {all} {exact}");
            }
            for (at, &(image, text)) in pairs.iter().enumerate() {
                let one = |items: &Encoded, item: u32| {
                    let span = items.offsets[item as usize]..items.offsets[item as usize + 1];
                    let offsets = vec![0, span.len()];
                    Encoded { rows: items.rows.some_rows(span).unwrap(), offsets }
                };
                let alone = reasoning.scores(&one(&images, image), &one(&texts, text)).unwrap();
                let same = match device {
                    Device::Cpu => alone[0].to_bits() == all[at].to_bits(),
                    _ => (alone[0] - all[at]).abs() < 1e-6,
                };
                assert!(same, "{image} {text} on {device}: {} {}", alone[0], all[at]);
            }
        }
    }
}
