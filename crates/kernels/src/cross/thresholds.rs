//! Attention of words to the regions above a threshold, and a penalty of words that no region is above:
//! scores of NAAF (Zhang, Mao, Wang and Zhang, CVPR 2022, <https://arxiv.org/abs/2203.16239>).
//!
//! With `s` the products of a word and the regions, the part of a word is `n + p + q`: `n` its largest
//! product less the threshold where that is negative; `p` its product with the mean of the regions above
//! the threshold by a softmax, over the norm of that mean; `q` the mean of `s` by attention weights as in
//! [`Matcher`](super::Matcher). The norm comes from the Gram matrix of the regions, so nothing of the
//! size of a vector is formed.

use std::cell::RefCell;
use std::ops::Range;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::elementwise::{exp, exp_all};
use crate::packed::{Left, Packed, Tiles, VECTORS, panel_product};
use crate::unit::arch;

use super::chunk::{Chunk, LANES, cuts};
use super::context::Context;
use super::forward::score;
use super::{Attention, CONTEXTS, Ragged};

/// Smallest norm of an attended vector that is divided by.
pub(crate) const LEAST: f32 = 1e-8;

/// The temperature of the smoothing over the words of a caption.
const SMOOTHING: f32 = 5.0;

/// Scores pairs.
pub(crate) struct Thresholds {
    pub(crate) attention: Attention,
}

/// Products of images and captions, kept to be scored with thresholds that are not known yet.
pub(crate) struct Products {
    contexts: Vec<Context>,
    chunks: Vec<(usize, Chunk)>,
    /// Of every image and chunk.
    seen: Vec<Vec<Seen>>,
}

/// An image and a chunk.
struct Seen {
    scores: Packed,
    /// The third part of every word.
    regular: Vec<f32>,
}

/// What is known of words, lane by lane.
#[derive(Default)]
struct Words {
    /// Largest products.
    tops: Vec<f32>,
    /// Second and third parts.
    parts: Vec<f32>,
}

#[derive(Default)]
struct Scratch {
    kept: Option<[Packed; 3]>,
    overlaps: Vec<f32>,
    words: Words,
    regular: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Thresholds {
    /// Writes the scores of all pairs in evaluation, a row per image: whether a word is penalised
    /// depends on the words of its caption that are like it.
    pub(crate) fn scores(
        &self,
        images: Ragged<'_>,
        texts: Ragged<'_>,
        threshold: f32,
        out: &mut [f32],
    ) {
        let (count, chunks) = (texts.len(), chunks(texts));
        let likeness: Vec<Vec<f32>> =
            (0..count).into_par_iter().map(|text| likeness(texts, text)).collect();
        for first in (0..images.len()).step_by(CONTEXTS) {
            let end = images.len().min(first + CONTEXTS);
            let contexts = Context::all(images.slice(first..end), None, false);
            let tasks: Vec<(usize, usize)> = (0..chunks.len())
                .flat_map(|chunk| (0..contexts.len()).map(move |context| (chunk, context)))
                .collect();
            let found: Vec<Vec<f32>> = tasks
                .par_iter()
                .with_max_len(1)
                .map(|&(chunk, context)| {
                    let (start, chunk) = &chunks[chunk];
                    SCRATCH.with_borrow_mut(|scratch| {
                        self.see(&contexts[context], chunk, threshold, scratch);
                        let smoothed = likeness[*start..].iter();
                        let items = chunk.items.iter().zip(smoothed);
                        let score = |(lanes, likeness): (&Range<usize>, &Vec<f32>)| {
                            scratch.words.score(lanes.clone(), threshold, Some(likeness))
                        };
                        items.map(score).collect()
                    })
                })
                .collect();
            for ((chunk, context), found) in tasks.into_iter().zip(found) {
                let row = &mut out[(first + context) * count..][..count];
                row[chunks[chunk].0..][..found.len()].copy_from_slice(&found);
            }
        }
    }

    /// Leaves what is known of the words of a chunk in the scratch.
    fn see(&self, context: &Context, chunk: &Chunk, threshold: f32, scratch: &mut Scratch) {
        let Scratch { kept, overlaps, words, regular } = scratch;
        let empty = || std::array::from_fn(|_| Packed::empty());
        let [scores, weights, kept] = kept.get_or_insert_with(empty);
        self.products(context, chunk, scores, weights, regular);
        let taus = vec![threshold; regular.len()];
        let gram = &context.gram;
        let panels = 0..scores.panels();
        let temperature = self.attention.temperature;
        words.prepare(regular);
        Above { temperature, gram, scores, taus: &taus, panels, kept, overlaps, words }.run();
    }

    /// Products, attention weights, and the third part of every word.
    fn products(
        &self,
        context: &Context,
        chunk: &Chunk,
        scores: &mut Packed,
        weights: &mut Packed,
        regular: &mut Vec<f32>,
    ) {
        score(context, &chunk.queries, &chunk.spans[0], scores);
        self.attention.weigh(&chunk.items, scores, weights);
        regular.resize(scores.panels() * scores.width(), 0.0);
        arch().dispatch(Agree { scores, weights, out: regular });
    }

    /// The products of a batch.
    pub(crate) fn batch(&self, images: Ragged<'_>, texts: Ragged<'_>) -> Products {
        let (contexts, chunks) = (Context::all(images, None, false), chunks(texts));
        let seen = |context: &Context| {
            let of_chunk = |(_, chunk): &(usize, Chunk)| {
                let [mut scores, mut weights] = std::array::from_fn(|_| Packed::empty());
                let mut regular = Vec::new();
                self.products(context, chunk, &mut scores, &mut weights, &mut regular);
                Seen { scores, regular }
            };
            chunks.iter().map(of_chunk).collect()
        };
        let seen = contexts.par_iter().with_max_len(1).map(seen).collect();
        Products { contexts, chunks, seen }
    }

    /// The scores of all images of a batch with a caption in training, and the largest product of every
    /// word, image after image.
    pub(crate) fn column(
        &self,
        products: &Products,
        caption: usize,
        threshold: f32,
    ) -> (Vec<f32>, Vec<f32>) {
        let at = products.chunks.partition_point(|(start, _)| *start <= caption) - 1;
        let (start, chunk) = &products.chunks[at];
        let lanes = chunk.items[caption - start].clone();
        let found: Vec<(f32, Vec<f32>)> = products
            .contexts
            .par_iter()
            .zip(&products.seen)
            .map(|(context, seen)| {
                let Seen { scores, regular } = &seen[at];
                let width = scores.width();
                let panels = lanes.start / width..lanes.end.div_ceil(width);
                let taus = vec![threshold; regular.len()];
                SCRATCH.with_borrow_mut(|Scratch { kept, overlaps, words, .. }| {
                    let empty = || std::array::from_fn(|_| Packed::empty());
                    let [_, _, kept] = kept.get_or_insert_with(empty);
                    let (temperature, gram) = (self.attention.temperature, &context.gram);
                    words.prepare(regular);
                    let taus = &taus[..];
                    Above { temperature, gram, scores, taus, panels, kept, overlaps, words }.run();
                    let tops = words.tops[lanes.clone()].to_vec();
                    (words.score(lanes.clone(), threshold, None), tops)
                })
            })
            .collect();
        let (scores, tops): (Vec<f32>, Vec<Vec<f32>>) = found.into_iter().unzip();
        (scores, tops.concat())
    }
}

impl Words {
    fn prepare(&mut self, regular: &[f32]) {
        self.tops.resize(regular.len(), 0.0);
        self.parts.clear();
        self.parts.extend_from_slice(regular);
    }

    /// The score of a caption. With the likeness of its words, a word is penalised if those like it
    /// are below the threshold; without, if it is itself.
    fn score(&self, lanes: Range<usize>, threshold: f32, likeness: Option<&Vec<f32>>) -> f32 {
        let (tops, count) = (&self.tops[lanes.clone()], lanes.len());
        let mut sum = 0.0;
        for (word, part) in self.parts[lanes].iter().enumerate() {
            let above = tops[word] - threshold;
            let smoothed = match likeness {
                None => above,
                Some(likeness) => {
                    let own = likeness[word * count..][..count].iter().zip(tops);
                    own.map(|(like, top)| like * (top - threshold)).sum()
                }
            };
            let penalty = if smoothed < 0.0 { above } else { 0.0 };
            sum += f64::from(penalty) + f64::from(*part);
        }
        (sum / count as f64) as f32
    }
}

/// All captions, in chunks with the first of each.
fn chunks(texts: Ragged<'_>) -> Vec<(usize, Chunk)> {
    let rows: Vec<usize> = (0..texts.len()).map(|text| texts.rows_of(text).len()).collect();
    let chunk = |run: Range<usize>| {
        let (start, wanted) = (run.start, run.collect::<Vec<_>>());
        (start, Chunk::gather(texts, &[], &wanted, &[wanted.len()]))
    };
    cuts(&rows, LANES).into_par_iter().map(chunk).collect()
}

/// How like the words of a caption are: a softmax of their products over the second word.
pub(crate) fn likeness(texts: Ragged<'_>, text: usize) -> Vec<f32> {
    let (rows, count) = (texts.values_of(text), texts.rows_of(text).len());
    let mut likeness = vec![0.0; count * count];
    let right = Packed::transposed(count, texts.dim, rows);
    right.multiply(Left::rows(rows, texts.dim), &mut likeness);
    for row in likeness.chunks_exact_mut(count) {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        row.iter_mut().for_each(|x| *x = SMOOTHING * (*x - largest));
    }
    exp_all(&mut likeness);
    for row in likeness.chunks_exact_mut(count) {
        let sum: f32 = row.iter().sum();
        row.iter_mut().for_each(|x| *x /= sum);
    }
    likeness
}

/// The sum of products by their weights, of every lane.
struct Agree<'a> {
    scores: &'a Packed,
    weights: &'a Packed,
    out: &'a mut [f32],
}

impl WithSimd for Agree<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = self.scores.width();
        for (panel, out) in self.out.chunks_exact_mut(width).enumerate() {
            let (scores, _) = S::as_simd_f32s(self.scores.panel(panel));
            let (weights, _) = S::as_simd_f32s(self.weights.panel(panel));
            let (out, _) = S::as_mut_simd_f32s(out);
            for (v, out) in out.iter_mut().enumerate() {
                let mut sum = simd.splat_f32s(0.0);
                for row in (v..scores.len()).step_by(VECTORS) {
                    sum = simd.mul_add_f32s(scores[row], weights[row], sum);
                }
                *out = sum;
            }
        }
    }
}

/// Largest products, and the second part of every word, which is added to what is there.
struct Above<'a> {
    temperature: f32,
    gram: &'a Tiles,
    scores: &'a Packed,
    /// The threshold of every lane.
    taus: &'a [f32],
    panels: Range<usize>,
    kept: &'a mut Packed,
    overlaps: &'a mut Vec<f32>,
    words: &'a mut Words,
}

impl Above<'_> {
    fn run(self) {
        self.kept.shape(self.scores.depth(), self.scores.width());
        self.overlaps.resize(self.scores.depth() * self.scores.width(), 0.0);
        arch().dispatch(self);
    }
}

impl WithSimd for Above<'_> {
    type Output = ();

    // Inlined, like everything it calls, so that it is compiled for the vector unit in use.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Above { temperature, gram, scores, taus, panels, kept, overlaps, words } = self;
        let width = scores.width();
        let (zero, temperature) = (simd.splat_f32s(0.0), simd.splat_f32s(temperature));
        for panel in panels {
            let (numbers, _) = S::as_simd_f32s(scores.panel(panel));
            let lanes = panel * width..(panel + 1) * width;
            let (taus, _) = S::as_simd_f32s(&taus[lanes.clone()]);
            let (tops, _) = S::as_mut_simd_f32s(&mut words.tops[lanes.clone()]);
            let (weights, _) = S::as_mut_simd_f32s(kept.panel_mut(0));
            for v in 0..VECTORS {
                let mut top = simd.splat_f32s(f32::NEG_INFINITY);
                for row in (v..numbers.len()).step_by(VECTORS) {
                    top = simd.max_f32s(numbers[row], top);
                }
                tops[v] = top;
                let mut sum = zero;
                for row in (v..numbers.len()).step_by(VECTORS) {
                    let power = simd.mul_f32s(temperature, simd.sub_f32s(numbers[row], top));
                    let above = simd.greater_than_f32s(numbers[row], taus[v]);
                    weights[row] = simd.select_f32s(above, exp(simd, power), zero);
                    sum = simd.add_f32s(sum, weights[row]);
                }
                // The largest has weight 1 before, if any is above the threshold.
                let least = simd.splat_f32s(f32::MIN_POSITIVE);
                let share = simd.div_f32s(simd.splat_f32s(1.0), simd.max_f32s(sum, least));
                for row in (v..numbers.len()).step_by(VECTORS) {
                    weights[row] = simd.mul_f32s(weights[row], share);
                }
            }
            panel_product(simd, gram, kept.panel(0), false, overlaps);
            let (weights, _) = S::as_simd_f32s(kept.panel(0));
            let (overlaps, _) = S::as_simd_f32s(overlaps);
            let (parts, _) = S::as_mut_simd_f32s(&mut words.parts[lanes]);
            for (v, part) in parts.iter_mut().enumerate() {
                let (mut product, mut square) = (zero, zero);
                for row in (v..numbers.len()).step_by(VECTORS) {
                    product = simd.mul_add_f32s(weights[row], numbers[row], product);
                    square = simd.mul_add_f32s(weights[row], overlaps[row], square);
                }
                let norm = simd.sqrt_f32s(simd.max_f32s(square, zero));
                let norm = simd.max_f32s(norm, simd.splat_f32s(LEAST));
                *part = simd.add_f32s(*part, simd.div_f32s(product, norm));
            }
        }
    }
}
