//! From encoded images and captions to similarities: all pairs without gradients, or some with.

mod cross;

use std::sync::{Arc, OnceLock};

use candle_core::{DType, Tensor};
use nextpair_kernels::{self as kernels, Attention, Left, Matcher, Packed, Ragged};

use crate::Error;
use crate::attention::{self, Memory};
use crate::norm;
use crate::ragged::{Encoded, indices};

/// How a model compares, with the weights that takes as they are now.
pub enum Scorer {
    /// The dot product of one vector per item.
    Dot,
    /// `-|max(0, t - u)|`: how far a caption is from being more general than the image.
    Order,
    /// Attention between several vectors per item, one direction or the sum of two.
    Cross(Vec<Direction>),
}

/// One direction of attention.
pub struct Direction {
    /// Whether words attend to regions, or regions to words.
    words_ask: bool,
    dim: usize,
    attention: Attention,
    memory: Option<Memory>,
    /// The weights packed for the processor's kernels, when they are first needed.
    matcher: OnceLock<Arc<Matcher>>,
}

impl Direction {
    pub(crate) fn new(
        words_ask: bool,
        dim: usize,
        attention: Attention,
        memory: Option<Memory>,
    ) -> Self {
        Direction { words_ask, dim, attention, memory, matcher: OnceLock::new() }
    }

    fn matcher(&self) -> Result<&Arc<Matcher>, Error> {
        if let Some(matcher) = self.matcher.get() {
            return Ok(matcher);
        }
        let matcher = cross::matcher(self.dim, self.attention, self.memory.as_ref())?;
        Ok(self.matcher.get_or_init(|| Arc::new(matcher)))
    }

    /// Which of two things are contexts and which are queries.
    fn roles<T>(&self, of_images: T, of_texts: T) -> (T, T) {
        if self.words_ask { (of_images, of_texts) } else { (of_texts, of_images) }
    }

    fn pairs(&self, pairs: &[(u32, u32)]) -> Vec<(u32, u32)> {
        pairs.iter().map(|&(image, text)| self.roles(image, text)).collect()
    }
}

/// All products of two sets of vectors, by the engine: candle looks up the number of processors in
/// the system's files before every product.
fn dot_products(images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
    let (depth, columns) = (texts.dim()?, texts.len());
    let mut out = vec![0.0; images.len() * columns];
    let packed = Packed::transposed(columns, depth, &texts.values()?);
    packed.par_multiply(Left::rows(&images.values()?, depth), &mut out);
    Ok(out)
}

/// Pairs that plain tensor operations take at once.
const COMPOSED_PAIRS: usize = 1024;

impl Scorer {
    /// The scores of some `(image, caption)` pairs, with gradients.
    pub fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
    ) -> Result<Tensor, Error> {
        self.known_pair_scores(images, texts, pairs, None)
    }

    /// The same where [`scores`](Self::scores) has told what they are, which saves computing them.
    pub(crate) fn known_pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        mut known: Option<Vec<f32>>,
    ) -> Result<Tensor, Error> {
        match self {
            Scorer::Cross(directions) => {
                let mut total: Option<Tensor> = None;
                for direction in directions {
                    let (contexts, queries) = direction.roles(images, texts);
                    let pairs = direction.pairs(pairs);
                    let memory = direction.memory.as_ref();
                    let scores = match on_processor(contexts) {
                        true => {
                            let matcher = direction.matcher()?;
                            // Of several directions the first stands for their sum.
                            let rest = known.as_ref().map(|known| vec![0.0; known.len()]);
                            let known = std::mem::replace(&mut known, rest);
                            cross::pair_scores(matcher, memory, (contexts, queries), pairs, known)?
                        }
                        false => composed(direction, contexts, queries, &pairs)?,
                    };
                    total = Some(match total {
                        Some(sum) => (sum + scores)?,
                        None => scores,
                    });
                }
                total.ok_or_else(|| Error::setting("directions", "there are none"))
            }
            _ => {
                let device = images.rows.device();
                let of = |encoded: &Encoded, items: Vec<u32>| {
                    Ok::<_, Error>(encoded.rows.index_select(&indices(items, device)?, 0)?)
                };
                let images = of(images, pairs.iter().map(|pair| pair.0).collect())?;
                let texts = of(texts, pairs.iter().map(|pair| pair.1).collect())?;
                Ok(match self {
                    Scorer::Order => norm::root((texts - images)?.relu()?.sqr()?.sum(1)?)?.neg()?,
                    _ => (images * texts)?.sum(1)?,
                })
            }
        }
    }

    /// The same in plain tensor operations whatever the device: what tests compare with.
    #[doc(hidden)]
    pub fn composed_pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
    ) -> Result<Tensor, Error> {
        let Scorer::Cross(directions) = self else { return self.pair_scores(images, texts, pairs) };
        let scores = directions.iter().map(|direction| {
            let (contexts, queries) = direction.roles(images, texts);
            composed(direction, contexts, queries, &direction.pairs(pairs))
        });
        let scores = scores.collect::<Result<Vec<_>, Error>>()?;
        Ok(scores.iter().skip(1).try_fold(scores[0].clone(), |sum, scores| sum + scores)?)
    }

    /// The scores of all pairs, images by captions, without gradients.
    pub fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, Error> {
        let (images, texts) = (images.detached(), texts.detached());
        let Scorer::Cross(directions) = self else {
            let (count, columns) = (images.len(), texts.len());
            return match self {
                Scorer::Dot if on_processor(&images) => dot_products(&images, &texts),
                Scorer::Dot => {
                    Ok(images.rows.matmul(&texts.rows.t()?)?.flatten_all()?.to_vec1()?)
                }
                _ => {
                    let pairs = all_pairs(count, columns);
                    Ok(self.pair_scores(&images, &texts, &pairs)?.to_vec1()?)
                }
            };
        };
        if !on_processor(&images) {
            let pairs = all_pairs(images.len(), texts.len());
            let mut out = Vec::with_capacity(pairs.len());
            for pairs in pairs.chunks(COMPOSED_PAIRS) {
                let scores = self.pair_scores(&images, &texts, pairs)?;
                out.extend(scores.to_dtype(DType::F32)?.to_vec1::<f32>()?);
            }
            return Ok(out);
        }
        let dim = images.dim()?;
        let (image_values, text_values) = (images.values()?, texts.values()?);
        let mut out = vec![0.0; images.len() * texts.len()];
        let of_images = Ragged { dim, values: &image_values, offsets: &images.offsets };
        let of_texts = Ragged { dim, values: &text_values, offsets: &texts.offsets };
        Matchers::new(directions)?.scores(of_images, of_texts, &mut out)?;
        Ok(out)
    }
}

/// The directions of an attention model, ready for numbers on the processor.
pub(crate) struct Matchers(Vec<(bool, Arc<Matcher>)>);

impl Matchers {
    pub(crate) fn new(directions: &[Direction]) -> Result<Self, Error> {
        let one = |direction: &Direction| Ok((direction.words_ask, direction.matcher()?.clone()));
        Ok(Matchers(directions.iter().map(one).collect::<Result<_, Error>>()?))
    }

    /// The scores of all pairs, images by captions, the directions added up in their order.
    pub(crate) fn scores(
        &self,
        images: Ragged<'_>,
        texts: Ragged<'_>,
        out: &mut [f32],
    ) -> Result<(), kernels::Error> {
        let (rows, columns) = (images.offsets.len() - 1, texts.offsets.len() - 1);
        out.fill(0.0);
        let mut part = vec![0.0; rows * columns];
        for (words_ask, matcher) in &self.0 {
            match words_ask {
                true => matcher.scores(images, texts, &mut part)?,
                false => matcher.scores(texts, images, &mut part)?,
            }
            for (image, out) in out.chunks_exact_mut(columns).enumerate() {
                for (text, out) in out.iter_mut().enumerate() {
                    *out += match words_ask {
                        true => part[image * columns + text],
                        false => part[text * rows + image],
                    };
                }
            }
        }
        Ok(())
    }
}

fn on_processor(encoded: &Encoded) -> bool {
    encoded.rows.device().is_cpu() && encoded.rows.dtype() == DType::F32
}

fn composed(
    direction: &Direction,
    contexts: &Encoded,
    queries: &Encoded,
    pairs: &[(u32, u32)],
) -> Result<Tensor, Error> {
    let memory = direction.memory.as_ref();
    let steps = attention::step_scores(&direction.attention, memory, contexts, queries, pairs)?;
    Ok(steps.iter().skip(1).try_fold(steps[0].clone(), |sum, step| sum + step)?)
}

/// Every image with every caption.
pub(crate) fn all_pairs(images: usize, texts: usize) -> Vec<(u32, u32)> {
    (0..images as u32).flat_map(|i| (0..texts as u32).map(move |j| (i, j))).collect()
}
