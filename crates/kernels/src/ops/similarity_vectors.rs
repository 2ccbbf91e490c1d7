//! The similarity vectors of SGRAF.

use nextpair_cuda::Array;
use rayon::prelude::*;

use crate::cross::aligned::{AlignedWeights, Aligner, Group, Parted, Picture, Task, Trace, Turned};
use crate::cross::attend;
use crate::cuda::{Aligned, Rows, Unit};
use crate::operation::{Operation, apply};
use crate::{Attention, Encoded, Error, Ragged, Real, Tensor};

/// Weights of similarity vectors, `size` by the dimensions of the vectors, and biases.
#[derive(Clone, Debug)]
pub struct SimilarityWeights {
    /// Of words and what they attend to.
    pub local: [Tensor; 2],
    /// Of images and captions as a whole.
    pub global: [Tensor; 2],
}

impl SimilarityWeights {
    /// Sizes of the vectors that are compared, and of what becomes of them.
    pub(crate) fn sizes(&self) -> Result<(usize, usize), Error> {
        let (size, dim) = self.local[0].matrix_shape()?;
        for [weight, bias] in [&self.local, &self.global] {
            Error::check_len("the weights of similarity vectors", weight.len(), size * dim)?;
            Error::check_len("the biases of similarity vectors", bias.len(), size)?;
        }
        Ok((dim, size))
    }
}

/// How images and captions differ, of some `(image, caption)` pairs: for each pair a vector of the whole
/// and one for each word, one after the other, and the first row of each pair, then the end of the last.
/// The first row of every item stands for the whole of it.
///
/// # Errors
/// If there is no such pair, an item has fewer than two rows, or rows of other dimensions.
pub fn similarity_vectors(
    images: &Encoded,
    texts: &Encoded,
    pairs: &[(u32, u32)],
    attention: Attention,
    weights: &SimilarityWeights,
) -> Result<(Tensor, Vec<usize>), Error> {
    attention.check()?;
    let (dim, size) = weights.sizes()?;
    check_wholes(images, texts, dim)?;
    let (of_images, of_captions): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
    Error::check_indices("images of the pairs", &of_images, images.len())?;
    Error::check_indices("captions of the pairs", &of_captions, texts.len())?;
    let mut places = vec![0];
    for &(_, text) in pairs {
        let rows = texts.offsets[text as usize + 1] - texts.offsets[text as usize];
        places.push(places[places.len() - 1] + rows);
    }
    let operation = Vectors {
        dim,
        size,
        attention,
        image_offsets: images.offsets.clone(),
        text_offsets: texts.offsets.clone(),
        pairs: pairs.to_vec(),
        places: places.clone(),
    };
    let SimilarityWeights { local: [local, local_bias], global: [global, global_bias] } = weights;
    let inputs = [&images.rows, &texts.rows, local, local_bias, global, global_bias];
    Ok((apply(operation, &inputs)?, places))
}

/// Refuses items without a row besides that of the whole, and rows of other dimensions.
pub(crate) fn check_wholes(images: &Encoded, texts: &Encoded, dim: usize) -> Result<(), Error> {
    for (what, items) in [("the images", images), ("the captions", texts)] {
        Error::check_dims(what, items.dim()?, "the similarity vectors", dim)?;
        if let Some(item) = items.offsets.windows(2).position(|pair| pair[0] + 1 >= pair[1]) {
            return Err(Error::EmptyItem { what, item });
        }
    }
    Ok(())
}

struct Vectors {
    dim: usize,
    size: usize,
    attention: Attention,
    image_offsets: Vec<usize>,
    text_offsets: Vec<usize>,
    pairs: Vec<(u32, u32)>,
    places: Vec<usize>,
}

/// Captions of an image that are compared together.
const CAPTIONS: usize = 16;

impl Vectors {
    fn ragged<'a>(&'a self, inputs: &[&'a [f32]]) -> (Ragged<'a>, Ragged<'a>) {
        let dim = self.dim;
        (
            Ragged { dim, values: inputs[0], offsets: &self.image_offsets },
            Ragged { dim, values: inputs[1], offsets: &self.text_offsets },
        )
    }

    fn aligner(&self, inputs: &[&[f32]]) -> Aligner {
        let weights = AlignedWeights {
            local: inputs[2],
            local_bias: inputs[3],
            global: inputs[4],
            global_bias: inputs[5],
        };
        Aligner::new((self.dim, self.size), self.attention, weights)
    }

    fn on_gpu<'a>(
        &'a self,
        unit: &'a Unit,
        inputs: &[&'a Array<f32>],
    ) -> Result<Aligned<'a>, Error> {
        let &[images, texts, local, local_bias, global, global_bias] = inputs else {
            unreachable!("images, captions and weights")
        };
        let images = Rows { values: images, offsets: &self.image_offsets };
        let texts = Rows { values: texts, offsets: &self.text_offsets };
        let weights = [local, local_bias, global, global_bias];
        Aligned::new(unit, (self.dim, self.size), self.attention, (images, texts), weights)
    }

    /// The pairs by image, some captions at a time.
    fn tasks(&self) -> Vec<Task> {
        let mut order: Vec<usize> = (0..self.pairs.len()).collect();
        order.sort_by_key(|&at| self.pairs[at].0);
        let same = order.chunk_by(|&a, &b| self.pairs[a].0 == self.pairs[b].0);
        let task = |some: &[usize]| Task {
            image: self.pairs[some[0]].0 as usize,
            captions: some.iter().map(|&at| self.pairs[at].1 as usize).collect(),
            places: some.iter().map(|&at| self.places[at]).collect(),
        };
        same.flat_map(|same| same.chunks(CAPTIONS)).map(task).collect()
    }
}

impl Operation for Vectors {
    fn shape(&self) -> Vec<usize> {
        vec![self.places[self.pairs.len()], self.size]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let dim = self.dim;
        let rows = |input: usize, offsets: &[usize], item: u32| {
            let span = offsets[item as usize] * dim..offsets[item as usize + 1] * dim;
            inputs[input][span].chunks_exact(dim).collect::<Vec<&[R]>>()
        };
        let mut out = Vec::new();
        for &(image, text) in &self.pairs {
            let images = rows(0, &self.image_offsets, image);
            let texts = rows(1, &self.text_offsets, text);
            let words: Vec<Vec<R>> = texts[1..].iter().map(|word| word.to_vec()).collect();
            let mut seen = attend(&self.attention, &images[1..], &words);
            for row in &mut seen {
                let norm = R::dot(row, row).sqrt() + R::of(1e-8);
                row.iter_mut().for_each(|x| *x = *x / norm);
            }
            seen.insert(0, images[0].to_vec());
            for (at, (own, other)) in texts.iter().zip(&seen).enumerate() {
                let differ = |(&e, &v): (&R, &R)| (v - e) * (v - e);
                let squares: Vec<R> = own.iter().zip(other).map(differ).collect();
                let (weight, bias) = match at {
                    0 => (inputs[4], inputs[5]),
                    _ => (inputs[2], inputs[3]),
                };
                let layer = weight.chunks_exact(dim).zip(bias);
                out.extend(layer.map(|(weight, &bias)| R::dot(weight, &squares) + bias));
            }
        }
        out
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let (aligner, (images, texts)) = (self.aligner(inputs), self.ragged(inputs));
        let (images, texts) = (Parted::new(images), Parted::new(texts));
        let (pictures, tasks, size) = (Picture::all(&images), self.tasks(), self.size);
        let found: Vec<Vec<f32>> = tasks
            .par_iter()
            .with_max_len(1)
            .map_init(Trace::default, |trace, task| {
                let group = Group::new(&texts, &task.captions);
                let mut nodes = vec![0.0; group.nodes() * size];
                aligner.nodes(&pictures[task.image], (&group, &texts), trace, &mut nodes);
                nodes
            })
            .collect();
        let mut out = vec![0.0; self.places[self.pairs.len()] * size];
        for (task, found) in tasks.iter().zip(&found) {
            let mut rest = &found[..];
            for (&place, &caption) in task.places.iter().zip(&task.captions) {
                let rows = self.text_offsets[caption + 1] - self.text_offsets[caption];
                let (own, later) = rest.split_at(rows * size);
                out[place * size..][..own.len()].copy_from_slice(own);
                rest = later;
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
        let turned = Turned::new((self.dim, self.size), inputs[2], inputs[4]);
        let aligner = self.aligner(inputs);
        let found = aligner.gradients(self.ragged(inputs), &self.tasks(), &turned, upstream);
        let turn = |by_dim: Vec<f32>| {
            let columns = (0..self.size).map(|at| by_dim[at..].iter().step_by(self.size).copied());
            columns.flatten().collect::<Vec<f32>>()
        };
        let (local, global) = (turn(found.local), turn(found.global));
        let all = [found.images, found.texts, local, found.local_bias, global, found.global_bias];
        Ok(all.map(Some).into())
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        self.on_gpu(unit, inputs)?.vectors(&self.pairs)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let found = self.on_gpu(unit, inputs)?.gradients(&self.pairs, upstream)?;
        Ok(found.map(Some).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Normaliser;
    use crate::ops::judge::{judge, judge_fast, tensor};
    use crate::ops::unit_rows;

    fn inputs(rows: usize, dim: usize, size: usize) -> [Tensor; 6] {
        [
            tensor(1, &[rows, dim]),
            tensor(2, &[21, dim]),
            tensor(3, &[size, dim]),
            tensor(4, &[size]),
            tensor(5, &[size, dim]),
            tensor(6, &[size]),
        ]
    }

    /// Pairs of two images and three captions, of which one has one word.
    fn vectors(inputs: &[Tensor], image_offsets: &[usize]) -> Result<Tensor, Error> {
        let attention = Attention { temperature: 4.0, ..Attention::alignment() };
        assert_eq!(attention.normaliser, Normaliser::ClippedL2);
        let pairs = [(1, 0), (0, 2), (0, 0), (1, 2), (0, 1), (1, 2)];
        let [images, texts] = [0, 1].map(|at| unit_rows(&inputs[at], 1e-8).unwrap());
        let images = Encoded { rows: images, offsets: image_offsets.to_vec() };
        let texts = Encoded { rows: texts, offsets: vec![0, 3, 5, 21] };
        let weights = SimilarityWeights {
            local: [inputs[2].clone(), inputs[3].clone()],
            global: [inputs[4].clone(), inputs[5].clone()],
        };
        Ok(similarity_vectors(&images, &texts, &pairs, attention, &weights)?.0)
    }

    #[test]
    fn every_device_follows_the_formula() {
        for (dim, size, offsets) in [(20, 7, [0, 4, 9]), (33, 40, [0, 3, 41]), (64, 32, [0, 4, 9])]
        {
            let inputs = inputs(offsets[2], dim, size);
            judge(&inputs, 2e-5, |inputs| vectors(inputs, &offsets));
            judge_fast(&inputs, 1e-2, |inputs| vectors(inputs, &offsets));
        }
    }
}
