//! Attention between items of several vectors, as one differentiable operation.

use std::sync::{Arc, OnceLock};

use nextpair_core::Side;
use nextpair_cuda::Array;

use crate::cross::{PlainMemory, steps};
use crate::cuda::{Matched, MemoryArrays, Rows, Scoring, Unit, can_score};
use crate::operation::{Operation, apply};
use crate::{Attention, Encoded, Error, Matcher, Memory, Precision, Ragged, Real, Tensor, Values};

/// The weights of a gated memory.
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

    /// The same on a GPU.
    fn gpu(&self) -> Result<MemoryArrays<'_>, Error> {
        let [a, b, c, d] = self.parts().map(gpu_array);
        Ok([a?, b?, c?, d?])
    }
}

/// The numbers of a tensor that is on a GPU.
fn gpu_array(tensor: &Tensor) -> Result<&Array<f32>, Error> {
    match tensor.values() {
        Values::Cuda(_, array) => Ok(array),
        _ => Err(Error::Devices),
    }
}

/// Encoded items that are on a GPU.
fn gpu_rows(items: &Encoded) -> Result<Rows<'_>, Error> {
    Ok(Rows { values: gpu_array(&items.rows)?, offsets: &items.offsets })
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

    /// The weights of its memory on a GPU.
    fn gpu_memory(&self) -> Result<Option<MemoryArrays<'_>>, Error> {
        self.memory.as_ref().map(MemoryWeights::gpu).transpose()
    }
}

/// Compares images and captions by attention: in one direction, or as the sum of two.
#[derive(Clone)]
pub struct Matching(Arc<Weights>);

struct Weights {
    dim: usize,
    directions: Vec<Direction>,
    /// Packed for the CPU on first use.
    matchers: OnceLock<Vec<Matcher>>,
}

impl Matching {
    /// Matches vectors of `dim` dimensions with the current weights.
    ///
    /// # Errors
    /// If there is no direction, or several steps without a memory.
    pub fn new(dim: usize, directions: Vec<Direction>) -> Result<Self, Error> {
        if directions.is_empty() {
            return Err(Error::NoDirection);
        }
        for Direction { attention, memory, .. } in &directions {
            attention.check()?;
            if attention.steps > 1 && memory.is_none() {
                return Err(Error::NoMemory { steps: attention.steps });
            }
        }
        Ok(Matching(Arc::new(Weights { dim, directions, matchers: OnceLock::new() })))
    }

    fn matchers(&self) -> Result<&[Matcher], Error> {
        if let Some(matchers) = self.0.matchers.get() {
            return Ok(matchers);
        }
        let packed =
            self.0.directions.iter().map(|direction| {
                let parts = direction.memory.as_ref().map(|memory| {
                    let [a, b, c, d] = memory.parts().map(Tensor::to_f32s);
                    Ok::<_, Error>([a?, b?, c?, d?])
                });
                let parts = parts.transpose()?;
                let memory =
                    parts.as_ref().map(|[linear_weight, linear_bias, gate_weight, gate_bias]| {
                        Memory { linear_weight, linear_bias, gate_weight, gate_bias }
                    });
                Matcher::new(self.0.dim, direction.attention, memory)
            });
        let packed = packed.collect::<Result<Vec<_>, Error>>()?;
        Ok(self.0.matchers.get_or_init(|| packed))
    }

    /// The scores of all pairs, images by captions, without gradients. A score has the same bits
    /// whatever else is scored with it.
    ///
    /// # Errors
    /// If an item has no vectors, or vectors of other dimensions.
    pub fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        match (images.rows.values(), texts.rows.values()) {
            (Values::Cpu(_), Values::Cpu(_)) => {
                return self.cpu_scores(images.ragged()?, texts.ragged()?);
            }
            (Values::Cuda(cuda, _), Values::Cuda(other, _)) if cuda == other => {
                let unit = Unit::new(*cuda)?;
                let mut longest = 0;
                for direction in &self.0.directions {
                    let (_, contexts) = direction.asking.own_and_other(images, texts);
                    longest = longest.max(contexts.longest());
                }
                let fast = unit.precision() == Precision::Fp16 && can_score(self.0.dim, longest);
                if fast && !images.is_empty() && !texts.is_empty() {
                    return self.gpu_scores(&unit, images, texts);
                }
            }
            _ => {}
        }
        let pairs = Encoded::all_pairs(images, texts);
        self.pair_scores(&images.detached(), &texts.detached(), &pairs, None)?.to_f32s()
    }

    fn gpu_scores(
        &self,
        unit: &Unit,
        images: &Encoded,
        texts: &Encoded,
    ) -> Result<Vec<f32>, Error> {
        self.check_items(images, texts)?;
        let (rows, columns) = (images.len(), texts.len());
        let mut out = vec![0.0; rows * columns];
        for direction in &self.0.directions {
            let memory = direction.gpu_memory()?;
            let scoring = Scoring::new(unit, self.0.dim, direction.attention, memory)?;
            let (queries, contexts) = direction.asking.own_and_other(images, texts);
            let (queries, contexts) = (gpu_rows(queries)?, gpu_rows(contexts)?);
            let queries = scoring.queries(queries)?;
            let part = scoring.scores(&scoring.contexts(contexts)?, &queries)?.to_vec()?;
            direction.add_scores(&part, (rows, columns), &mut out);
        }
        Ok(out)
    }

    fn cpu_scores(&self, images: Ragged<'_>, texts: Ragged<'_>) -> Result<Vec<f32>, Error> {
        let (rows, columns) = (images.len(), texts.len());
        let mut out = vec![0.0; rows * columns];
        if out.is_empty() {
            return Ok(out);
        }
        let mut part = vec![0.0; rows * columns];
        for (direction, matcher) in self.0.directions.iter().zip(self.matchers()?) {
            let (queries, contexts) = direction.asking.own_and_other(images, texts);
            matcher.scores(contexts, queries, &mut part)?;
            direction.add_scores(&part, (rows, columns), &mut out);
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
    /// If there is no such pair, an item has no vectors, or vectors of other dimensions.
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

/// Its inputs are images, captions and, for every direction with a memory, the four weights.
struct PairScores {
    matching: Matching,
    image_offsets: Vec<usize>,
    text_offsets: Vec<usize>,
    pairs: Vec<(u32, u32)>,
    known: Option<Vec<f32>>,
}

impl PairScores {
    fn ragged<'a>(&'a self, inputs: &[&'a [f32]]) -> (Ragged<'a>, Ragged<'a>) {
        let dim = self.matching.0.dim;
        (
            Ragged { dim, values: inputs[0], offsets: &self.image_offsets },
            Ragged { dim, values: inputs[1], offsets: &self.text_offsets },
        )
    }

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
        for direction in &self.matching.0.directions {
            let memory = direction.memory.as_ref().and_then(|_| memories.next());
            let memory = memory.map(|parts| [parts[0], parts[1], parts[2], parts[3]]);
            let (queries, contexts) = direction.asking.own_and_other(images, texts);
            let (dim, attention) = (self.matching.0.dim, direction.attention);
            let matched = Matched::new(unit, dim, attention, memory, contexts, queries)?;
            visit(direction.asking, &matched, memory.is_some())?;
        }
        Ok(())
    }

    /// The pairs as `(context, query)` in a direction.
    fn pairs_of(&self, asking: Side) -> Vec<(u32, u32)> {
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
        if let Some(known) = &self.known {
            return unit.array(known);
        }
        let mut out = unit.zeros(self.pairs.len())?;
        self.matched(unit, inputs, |asking, matched, _| {
            matched.add_scores(&self.pairs_of(asking), &mut out)
        })?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
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

fn add(sum: &mut [f32], part: &[f32]) {
    sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};
    use crate::ops::unit_rows;
    use crate::{Aggregation, Device, Normaliser};

    const DIM: usize = 6;

    fn direction(asking: Side, steps: usize, parts: &[Tensor]) -> Direction {
        let attention = Attention {
            temperature: 4.0,
            normaliser: Normaliser::ClippedL2,
            aggregation: Aggregation::Mean,
            steps,
            normalise_memory: steps == 3,
        };
        let memory = (steps > 1).then(|| MemoryWeights {
            linear_weight: parts[0].clone(),
            linear_bias: parts[1].clone(),
            gate_weight: parts[2].clone(),
            gate_bias: parts[3].clone(),
        });
        Direction { asking, attention, memory }
    }

    fn encoded(inputs: &[Tensor]) -> (Encoded, Encoded) {
        let rows = [0, 1].map(|at| unit_rows(&inputs[at], 1e-8).unwrap());
        let [images, texts] = rows;
        (
            Encoded { rows: images, offsets: vec![0, 3, 5] },
            Encoded { rows: texts, offsets: vec![0, 2, 3, 7] },
        )
    }

    #[test]
    fn every_device_follows_the_formula() {
        let weights = |seed: u64| {
            [(0, 2 * DIM * DIM), (1, DIM), (2, 2 * DIM * DIM), (3, DIM)]
                .map(|(part, count)| tensor(seed + part, &[count]))
        };
        let pairs = [(1, 0), (0, 2), (0, 0), (1, 2), (0, 1)];
        for (asking, count) in
            [(vec![Side::Text], 1), (vec![Side::Image], 2), (vec![Side::Text, Side::Image], 3)]
        {
            let mut inputs = vec![tensor(1, &[5, DIM]), tensor(2, &[7, DIM])];
            if count > 1 {
                asking.iter().for_each(|&side| inputs.extend(weights(10 + 4 * side as u64)));
            }
            let matching = |inputs: &[Tensor]| {
                let parts = |at: usize| inputs.get(2 + 4 * at..).unwrap_or(&[]);
                let directions = asking.iter().enumerate();
                let directions =
                    directions.map(|(at, &side)| direction(side, count, parts(at))).collect();
                Matching::new(DIM, directions).unwrap()
            };
            judge(&inputs, 2e-5, |inputs| {
                let (images, texts) = encoded(inputs);
                matching(inputs).pair_scores(&images, &texts, &pairs, None)
            });
            let (images, texts) = encoded(&inputs);
            let all = matching(&inputs).scores(&images, &texts).unwrap();
            let some = matching(&inputs).pair_scores(&images, &texts, &pairs, None).unwrap();
            for (&(image, text), score) in pairs.iter().zip(some.to_f32s().unwrap()) {
                assert_eq!(all[image as usize * 3 + text as usize].to_bits(), score.to_bits());
            }
            let exact: Vec<Tensor> =
                inputs.iter().map(|i| i.to_device(Device::Reference).unwrap()).collect();
            let (images, texts) = encoded(&exact);
            let plain = matching(&exact).scores(&images, &texts).unwrap();
            all.iter().zip(plain).for_each(|(a, b)| assert!((a - b).abs() < 1e-5, "{a} {b}"));
        }
    }

    /// Attention of `count` steps on random items, on a device; `dim` is large enough for the matrix
    /// units.
    fn random_scores(attention: Attention, asking: Side, dim: usize, device: Device) -> Vec<f32> {
        let rows = |seed: u64, offsets: &[usize]| {
            let count = offsets[offsets.len() - 1];
            let rows = tensor(seed, &[count, dim]).to_device(device).unwrap();
            Encoded { rows: unit_rows(&rows, 1e-8).unwrap(), offsets: offsets.to_vec() }
        };
        let images = rows(1, &(0..=9).map(|image| 21 * image).collect::<Vec<_>>());
        let texts = rows(2, &[0, 3, 4, 17, 30, 42, 50]);
        let weight = |seed: u64, count: usize| {
            let tensor = tensor(seed, &[count]).divided((2.0 * dim as f64).sqrt()).unwrap();
            tensor.to_device(device).unwrap()
        };
        let memory = (attention.steps > 1).then(|| MemoryWeights {
            linear_weight: weight(10, 2 * dim * dim),
            linear_bias: weight(11, dim),
            gate_weight: weight(12, 2 * dim * dim),
            gate_bias: weight(13, dim),
        });
        let direction = Direction { asking, attention, memory };
        Matching::new(dim, vec![direction]).unwrap().scores(&images, &texts).unwrap()
    }

    #[test]
    fn scores_by_matrix_units_are_those_of_the_cpu() {
        let cuda = Device::available().into_iter().find(|&device| device != Device::Cpu);
        let Some(cuda) = cuda else { return };
        let normalisers = [
            Normaliser::ClippedL2,
            Normaliser::L2,
            Normaliser::ClippedL1,
            Normaliser::Clipped,
            Normaliser::Softmax,
            Normaliser::None,
        ];
        for (at, normaliser) in normalisers.into_iter().enumerate() {
            for asking in [Side::Text, Side::Image] {
                let aggregations = [
                    Aggregation::Mean,
                    Aggregation::Sum,
                    Aggregation::Max,
                    Aggregation::LogSumExp(6.0),
                ];
                let aggregation = aggregations[at % 4];
                for (steps, dim) in [(1, 32), (2, 64), (3, 96), (4, 256)] {
                    let normalise_memory = steps % 2 == 1;
                    let attention = Attention {
                        temperature: 9.0,
                        normaliser,
                        aggregation,
                        steps,
                        normalise_memory,
                    };
                    let scores = |device| random_scores(attention, asking, dim, device);
                    let expected = scores(Device::Cpu);
                    let largest = expected.iter().fold(1.0, |m: f32, x| m.max(x.abs()));
                    for (precision, tolerance) in
                        [(Precision::Fp32, 1e-5), (Precision::Tf32, 2e-3), (Precision::Fp16, 6e-2)]
                    {
                        let found = scores(cuda.with_precision(precision));
                        for (found, expected) in found.iter().zip(&expected) {
                            let off = (found - expected).abs();
                            assert!(
                                off <= tolerance * largest,
                                "{attention:?} {asking} {precision}: {found} {expected}"
                            );
                        }
                    }
                }
            }
        }
    }
}
