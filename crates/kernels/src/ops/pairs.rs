//! Scores of pairs of vectors: dot products and order embeddings.

use nextpair_cuda::{Array, Grid, Operand};

use crate::cuda::Unit;
use crate::elementwise::sum_of;
use crate::operation::{Operation, apply};
use crate::{Encoded, Error, Left, Packed, Real, Tensor, Values};

/// The dot products of some `(image, caption)` pairs, with one vector per item.
///
/// # Errors
/// If there is no such pair.
pub fn dot_pairs(images: &Encoded, texts: &Encoded, pairs: &[(u32, u32)]) -> Result<Tensor, Error> {
    apply(VectorPairs::new(images, texts, pairs, Measure::Dot)?, &[&images.rows, &texts.rows])
}

/// `-|max(0, t - u)|` of some `(image, caption)` pairs, with one vector per item: how far a caption
/// is from being more general than the image.
///
/// # Errors
/// If there is no such pair.
pub fn order_pairs(
    images: &Encoded,
    texts: &Encoded,
    pairs: &[(u32, u32)],
) -> Result<Tensor, Error> {
    apply(VectorPairs::new(images, texts, pairs, Measure::Order)?, &[&images.rows, &texts.rows])
}

/// The dot products of all images and captions, images by captions, without gradients.
///
/// # Errors
/// If their dimensions differ.
pub fn dot_scores(images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
    let (dim, columns) = (texts.dim()?, texts.len());
    check_single(images)?;
    check_single(texts)?;
    if images.is_empty() || texts.is_empty() {
        return Ok(Vec::new());
    }
    Error::check_dims("the images", images.dim()?, "the captions", dim)?;
    match (images.rows.values(), texts.rows.values()) {
        (Values::Cpu(left), Values::Cpu(right)) => {
            let mut out = vec![0.0; images.len() * columns];
            Packed::transposed(columns, dim, right).par_multiply(Left::rows(left, dim), &mut out);
            Ok(out)
        }
        (Values::Cuda(cuda, left), Values::Cuda(other, right)) if cuda == other => {
            let unit = Unit::new(*cuda)?;
            let (rows, out) = (images.len(), unit.empty(images.len() * columns)?);
            let (left, right) = (Operand::new(left, 0, dim), Operand::new(right, 0, dim).turned());
            let to = Operand::new(&out, 0, columns);
            unit.multiply((rows, columns, dim), left, right, 0.0, to)?;
            Ok(out.to_vec()?)
        }
        _ => {
            let pairs = Encoded::all_pairs(images, texts);
            dot_pairs(&images.detached(), &texts.detached(), &pairs)?.to_f32s()
        }
    }
}

/// Refuses items of several vectors.
fn check_single(items: &Encoded) -> Result<(), Error> {
    let (rows, _) = items.rows.matrix_shape()?;
    Error::check_len("one vector per item", rows, items.len())
}

#[derive(Clone, Copy)]
enum Measure {
    Dot,
    Order,
}

struct VectorPairs {
    dim: usize,
    pairs: Vec<(u32, u32)>,
    measure: Measure,
}

impl VectorPairs {
    fn new(
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        measure: Measure,
    ) -> Result<Self, Error> {
        check_single(images)?;
        check_single(texts)?;
        let ((image_rows, dim), (text_rows, of_texts)) =
            (images.rows.matrix_shape()?, texts.rows.matrix_shape()?);
        Error::check_dims("the images", dim, "the captions", of_texts)?;
        let (of_images, of_captions): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        Error::check_indices("images of the pairs", &of_images, image_rows)?;
        Error::check_indices("captions of the pairs", &of_captions, text_rows)?;
        Ok(VectorPairs { dim, pairs: pairs.to_vec(), measure })
    }

    /// The pairs on a GPU, image and text in turn.
    fn gpu_pairs(&self, unit: &Unit) -> Result<Array<u32>, Error> {
        unit.array(&self.pairs.iter().flat_map(|&(i, j)| [i, j]).collect::<Vec<_>>())
    }

    fn vectors<'a, N>(&self, inputs: &[&'a [N]], pair: (u32, u32)) -> (&'a [N], &'a [N]) {
        let row = |input: &'a [N], row: u32| &input[row as usize * self.dim..][..self.dim];
        (row(inputs[0], pair.0), row(inputs[1], pair.1))
    }
}

/// A smaller sum of squares counts as this, so that its root has a finite derivative.
const SMALLEST: f32 = 1e-30;

/// The positive parts of `t - u`, and their norm.
fn excess(image: &[f32], text: &[f32]) -> (Vec<f32>, f32) {
    let above: Vec<f32> = text.iter().zip(image).map(|(t, u)| (t - u).max(0.0)).collect();
    let squares = sum_of(above.len(), |at| above[at] * above[at]);
    (above, squares.max(SMALLEST).sqrt())
}

impl Operation for VectorPairs {
    fn shape(&self) -> Vec<usize> {
        vec![self.pairs.len()]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let score = |&pair: &(u32, u32)| {
            let (image, text) = self.vectors(inputs, pair);
            match self.measure {
                Measure::Dot => R::dot(image, text),
                Measure::Order => {
                    let above: Vec<R> =
                        text.iter().zip(image).map(|(&t, &u)| (t - u).relu()).collect();
                    -R::dot(&above, &above).sqrt()
                }
            }
        };
        self.pairs.iter().map(score).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let score = |&pair: &(u32, u32)| {
            let (image, text) = self.vectors(inputs, pair);
            match self.measure {
                Measure::Dot => sum_of(self.dim, |at| image[at] * text[at]),
                Measure::Order => -excess(image, text).1,
            }
        };
        Ok(self.pairs.iter().map(score).collect())
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let mut found = inputs.iter().map(|input| vec![0.0; input.len()]).collect::<Vec<_>>();
        let [of_images, of_texts] = &mut found[..] else { unreachable!("images and texts") };
        for (&pair, &upstream) in self.pairs.iter().zip(upstream) {
            let (image, text) = self.vectors(inputs, pair);
            let of_image = &mut of_images[pair.0 as usize * self.dim..][..self.dim];
            let of_text = &mut of_texts[pair.1 as usize * self.dim..][..self.dim];
            match self.measure {
                Measure::Dot => {
                    of_image.iter_mut().zip(text).for_each(|(out, t)| *out += upstream * t);
                    of_text.iter_mut().zip(image).for_each(|(out, u)| *out += upstream * u);
                }
                Measure::Order => {
                    let (above, root) = excess(image, text);
                    let slope = -upstream / root * 0.5;
                    let both = of_image.iter_mut().zip(of_text);
                    for ((of_image, of_text), above) in both.zip(above) {
                        let slope = above * slope * 2.0;
                        *of_image -= slope;
                        *of_text += slope;
                    }
                }
            }
        }
        Ok(found.into_iter().map(Some).collect())
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let (out, pairs) = (unit.empty(self.pairs.len())?, self.gpu_pairs(unit)?);
        let arguments = [
            (&out).into(),
            inputs[0].into(),
            inputs[1].into(),
            (&pairs).into(),
            self.pairs.len().into(),
            self.dim.into(),
            matches!(self.measure, Measure::Order).into(),
        ];
        unit.run("pair_scores", Grid::blocks(self.pairs.len().div_ceil(4), 128), &arguments)?;
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let (dim, count, pairs) = (self.dim, self.pairs.len(), self.gpu_pairs(unit)?);
        let (images, texts) = (inputs[0].len() / dim, inputs[1].len() / dim);
        let of_images = unit.empty(images * dim)?;
        let of_texts = unit.empty(texts * dim)?;
        match self.measure {
            Measure::Dot => {
                // A pair's derivative times the other vector: two products with the matrix of all
                // derivatives.
                let slopes = unit.zeros::<f32>(images * texts)?;
                let arguments = [
                    (&slopes).into(),
                    upstream.into(),
                    (&pairs).into(),
                    count.into(),
                    texts.into(),
                ];
                unit.run("spread_pairs", Grid::each(count), &arguments)?;
                let [of, own] = [&of_images, &of_texts].map(|array| Operand::new(array, 0, dim));
                let [image, text] = [inputs[0], inputs[1]].map(|array| Operand::new(array, 0, dim));
                let slopes = Operand::new(&slopes, 0, texts);
                unit.multiply((images, dim, texts), slopes, text, 0.0, of)?;
                unit.multiply((texts, dim, images), slopes.turned(), image, 0.0, own)?;
            }
            Measure::Order => {
                let scores = self.gpu_forward(unit, inputs)?;
                for (side, rows, out) in [(0u32, images, &of_images), (1, texts, &of_texts)] {
                    let arguments = [
                        out.into(),
                        inputs[0].into(),
                        inputs[1].into(),
                        (&scores).into(),
                        upstream.into(),
                        (&pairs).into(),
                        count.into(),
                        dim.into(),
                        side.into(),
                    ];
                    unit.run("order_backward", Unit::rows(rows), &arguments)?;
                }
            }
        }
        Ok(vec![Some(of_images), Some(of_texts)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        let pairs = [(0, 0), (3, 1), (3, 2), (1, 1), (0, 0)];
        for measure in [dot_pairs, order_pairs] {
            judge(&[tensor(1, &[4, 9]), tensor(2, &[3, 9])], 1e-5, |inputs| {
                let [images, texts] =
                    [0, 1].map(|at| Encoded::uniform(inputs[at].clone(), 1).unwrap());
                measure(&images, &texts, &pairs)
            });
        }
    }

    #[test]
    fn all_products_are_those_of_pairs() {
        for device in [crate::Device::Reference].into_iter().chain(crate::Device::available()) {
            let of = |seed, rows| {
                Encoded::uniform(tensor(seed, &[rows, 5]).to_device(device).unwrap(), 1).unwrap()
            };
            let (images, texts) = (of(1, 3), of(2, 4));
            let all = dot_scores(&images, &texts).unwrap();
            let pairs = dot_pairs(&images, &texts, &[(2, 1), (0, 3)]).unwrap();
            let pairs = pairs.to_f32s().unwrap();
            assert!((all[9] - pairs[0]).abs() < 1e-5 && (all[3] - pairs[1]).abs() < 1e-5);
        }
    }
}
