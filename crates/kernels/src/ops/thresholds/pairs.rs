//! The scores of pairs as an operation: its formula, and its form for the CPU.

use nextpair_cuda::Array;
use rayon::prelude::*;

use super::Penalty;
use crate::cross::{LEAST, likeness};
use crate::cuda::{Rows, ThresholdedPairs, ThresholdedRows, Unit};
use crate::elementwise::exp_all;
use crate::operation::Operation;
use crate::{Attention, Error, Left, Packed, Ragged, Real};

/// Its inputs are images and captions.
pub(super) struct Pairs {
    pub(super) dim: usize,
    pub(super) attention: Attention,
    pub(super) image_offsets: Vec<usize>,
    pub(super) text_offsets: Vec<usize>,
    pub(super) pairs: Vec<(u32, u32)>,
    /// Of every caption.
    pub(super) thresholds: Vec<f32>,
    pub(super) penalty: Penalty,
    pub(super) known: Option<Vec<f32>>,
}

/// Added to norms over the words.
const EPSILON: f32 = 1e-8;

/// Slope of negative products.
const SLOPE: f32 = 0.1;

/// Pairs whose gradients are kept at a time.
const PAIRS: usize = 256;

/// A pair on the way to its score, words by regions.
struct Seen<'a> {
    words: &'a [f32],
    regions: &'a [f32],
    count: usize,
    scores: Vec<f32>,
    /// Shares of regions above the threshold, attention weights, and norms over the words.
    above: Vec<f32>,
    weights: Vec<f32>,
    lengths: Vec<f32>,
    /// What words attend to above the threshold, and its norms.
    attended: Vec<f32>,
    norms: Vec<f32>,
    /// Of a word that is penalised, the region of its largest product.
    penalised: Vec<Option<usize>>,
}

impl Pairs {
    fn ragged<'a>(&'a self, inputs: &[&'a [f32]]) -> (Ragged<'a>, Ragged<'a>) {
        let dim = self.dim;
        (
            Ragged { dim, values: inputs[0], offsets: &self.image_offsets },
            Ragged { dim, values: inputs[1], offsets: &self.text_offsets },
        )
    }

    fn on_gpu<'a>(
        &'a self,
        unit: &Unit,
        inputs: &[&'a Array<f32>],
    ) -> Result<(ThresholdedRows<'a>, ThresholdedPairs<'a>), Error> {
        let images = Rows { values: inputs[0], offsets: &self.image_offsets };
        let texts = Rows { values: inputs[1], offsets: &self.text_offsets };
        let rows = ThresholdedRows::new(unit, self.dim, &self.attention, images, texts)?;
        let smoothed = self.penalty == Penalty::Smoothed;
        let of = ThresholdedPairs { pairs: &self.pairs, thresholds: &self.thresholds, smoothed };
        Ok((rows, of))
    }

    fn see<'a>(&self, (images, texts): (Ragged<'a>, Ragged<'a>), pair: (u32, u32)) -> Seen<'a> {
        let (image, text) = (pair.0 as usize, pair.1 as usize);
        let (regions, words, dim) = (images.values_of(image), texts.values_of(text), self.dim);
        let (count, threshold) = (regions.len() / dim, self.thresholds[text]);
        let mut scores = vec![0.0; words.len() / dim * count];
        Packed::transposed(count, dim, regions).multiply(Left::rows(words, dim), &mut scores);
        let largest = |row: &[f32]| {
            let first = (0, row[0]);
            row.iter().copied().enumerate().fold(first, |m, x| if x.1 > m.1 { x } else { m })
        };
        let tops: Vec<(usize, f32)> = scores.chunks_exact(count).map(largest).collect();
        let like = (self.penalty == Penalty::Smoothed).then(|| likeness(texts, text));
        let penalised = tops.iter().enumerate().map(|(word, &(region, top))| {
            let below = match &like {
                None => top - threshold,
                Some(like) => {
                    let own = like[word * tops.len()..].iter().zip(&tops);
                    own.map(|(like, (_, top))| like * (top - threshold)).sum()
                }
            };
            (below < 0.0).then_some(region)
        });
        let penalised = penalised.collect();
        let mut above = scores.clone();
        for (row, &(_, top)) in above.chunks_exact_mut(count).zip(&tops) {
            row.iter_mut().for_each(|x| *x = self.attention.temperature * (*x - top));
        }
        exp_all(&mut above);
        for (above, &score) in above.iter_mut().zip(&scores) {
            *above *= f32::from(u8::from(score > threshold));
        }
        above.chunks_exact_mut(count).for_each(share);
        let mut attended = vec![0.0; words.len()];
        Packed::new(count, dim, regions).multiply(Left::rows(&above, count), &mut attended);
        let norms = attended.chunks_exact(dim);
        let norms = norms.map(|row| row.iter().map(|x| x * x).sum::<f32>().sqrt()).collect();
        let mut lengths = vec![0.0; count];
        for row in scores.chunks_exact(count) {
            lengths.iter_mut().zip(row).for_each(|(sum, &s)| *sum += leaky(s) * leaky(s));
        }
        lengths.iter_mut().for_each(|length| *length = length.sqrt());
        let mut weights = scores.clone();
        for row in weights.chunks_exact_mut(count) {
            for (x, length) in row.iter_mut().zip(&lengths) {
                *x = self.attention.temperature * leaky(*x) / (length + EPSILON);
            }
            let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            row.iter_mut().for_each(|x| *x -= largest);
        }
        exp_all(&mut weights);
        weights.chunks_exact_mut(count).for_each(share);
        Seen { words, regions, count, scores, above, weights, lengths, attended, norms, penalised }
    }

    fn score(&self, seen: &Seen<'_>, threshold: f32) -> f32 {
        let (dim, count) = (self.dim, seen.count);
        let mut sum = 0.0;
        for (word, &norm) in seen.norms.iter().enumerate() {
            let scores = &seen.scores[word * count..][..count];
            let penalty = seen.penalised[word].map_or(0.0, |region| scores[region] - threshold);
            let product =
                dot(&seen.words[word * dim..][..dim], &seen.attended[word * dim..][..dim]);
            let regular = dot(scores, &seen.weights[word * count..][..count]);
            sum += f64::from(penalty) + f64::from(product / norm.max(LEAST)) + f64::from(regular);
        }
        (sum / seen.norms.len() as f64) as f32
    }

    /// The gradients of the regions and of the words of a pair.
    fn backward_of(&self, seen: &Seen<'_>, upstream: f32) -> (Vec<f32>, Vec<f32>) {
        let (dim, count, words) = (self.dim, seen.count, seen.norms.len());
        let gain = upstream / words as f32;
        let (mut of_words, mut of_attended) = (seen.attended.clone(), seen.words.to_vec());
        for (word, &norm) in seen.norms.iter().enumerate() {
            let place = word * dim..(word + 1) * dim;
            let product = dot(&seen.words[place.clone()], &seen.attended[place.clone()]);
            let scale = gain / norm.max(LEAST);
            let radial = if norm > LEAST { product / (norm * norm) } else { 0.0 };
            for at in place {
                of_words[at] *= scale;
                of_attended[at] = scale * (of_attended[at] - radial * seen.attended[at]);
            }
        }
        let mut right = Packed::transposed(count, dim, seen.regions);
        let mut slopes = vec![0.0; words * count];
        right.multiply(Left::rows(&of_attended, dim), &mut slopes);
        right.repack(words, dim, &of_attended);
        let mut of_regions = vec![0.0; count * dim];
        right.multiply(Left::transposed(&seen.above, count), &mut of_regions);
        // Through the attention weights, up to the norms over the words.
        let mut regular = vec![0.0; words * count];
        for word in 0..words {
            let place = word * count..(word + 1) * count;
            let (slopes, above) = (&mut slopes[place.clone()], &seen.above[place.clone()]);
            let (scores, weights) = (&seen.scores[place.clone()], &seen.weights[place.clone()]);
            let along = dot(slopes, above);
            let mean = dot(scores, weights);
            for at in 0..count {
                let through = self.attention.temperature * above[at] * (slopes[at] - along);
                slopes[at] = through + gain * weights[at];
                regular[place.start + at] =
                    self.attention.temperature * gain * weights[at] * (scores[at] - mean);
            }
            if let Some(region) = seen.penalised[word] {
                slopes[region] += gain;
            }
        }
        for (region, &length) in seen.lengths.iter().enumerate() {
            let places = || (region..words * count).step_by(count);
            let along: f32 = places().map(|at| leaky(seen.scores[at]) * regular[at]).sum();
            let own = 1.0 / (length + EPSILON);
            let norm = if length > 0.0 { along / length * own * own } else { 0.0 };
            for at in places() {
                let score = seen.scores[at];
                let slope = if score > 0.0 { 1.0 } else { SLOPE };
                slopes[at] += slope * (regular[at] * own - leaky(score) * norm);
            }
        }
        right.repack(count, dim, seen.regions);
        right.multiply_add(Left::rows(&slopes, count), &mut of_words);
        right.repack(words, dim, seen.words);
        right.multiply_add(Left::transposed(&slopes, count), &mut of_regions);
        (of_regions, of_words)
    }

    /// The score of a pair as published.
    fn plain<R: Real>(&self, regions: &[&[R]], words: &[&[R]], threshold: f64) -> R {
        let (temperature, tau) = (R::of(self.attention.temperature.into()), R::of(threshold));
        let scores: Vec<Vec<R>> = words
            .iter()
            .map(|word| regions.iter().map(|region| R::dot(word, region)).collect())
            .collect();
        let clip = |s: R| if s.value() > 0.0 { s } else { s * R::of(SLOPE.into()) };
        let length = |region: usize| {
            let column: Vec<R> = scores.iter().map(|row| clip(row[region])).collect();
            R::dot(&column, &column).sqrt() + R::of(EPSILON.into())
        };
        let lengths: Vec<R> = (0..regions.len()).map(length).collect();
        let over = |row: &Vec<R>| row[1..].iter().fold(row[0], |m, &s| m.max(s)) - tau;
        let over: Vec<R> = scores.iter().map(over).collect();
        let smoothed = |word: usize| {
            let likes = words.iter().map(|other| {
                let product = words[word].iter().zip(*other);
                product.map(|(a, b)| a.value() * b.value()).sum::<f64>()
            });
            let likes: Vec<f64> = likes.map(|x| (5.0 * x).exp()).collect();
            let sum: f64 = likes.iter().sum();
            likes.iter().zip(&over).map(|(like, m)| like / sum * m.value()).sum::<f64>()
        };
        let part = |(word, row): (usize, &Vec<R>)| {
            let below = match self.penalty {
                Penalty::Own => over[word].value(),
                Penalty::Smoothed => smoothed(word),
            };
            let penalty = if below < 0.0 { over[word] } else { R::of(0.0) };
            let power = |&s: &R| match s.value() > threshold {
                true => (temperature * (s - tau)).exp(),
                false => R::of(0.0),
            };
            let powers: Vec<R> = row.iter().map(power).collect();
            let sum = R::sum(powers.iter().copied()) + R::of(1e-8);
            let attended = |at: usize| {
                R::sum(powers.iter().zip(regions).map(|(&power, region)| power / sum * region[at]))
            };
            let attended: Vec<R> = (0..self.dim).map(attended).collect();
            let norm = R::dot(&attended, &attended).sqrt().max(R::of(LEAST.into()));
            let focused = R::dot(words[word], &attended) / norm;
            let logits = row.iter().zip(&lengths).map(|(&s, &l)| temperature * clip(s) / l);
            let logits: Vec<R> = logits.collect();
            let largest = logits.iter().map(|x| x.value()).fold(f64::NEG_INFINITY, f64::max);
            let exps: Vec<R> = logits.into_iter().map(|x| (x - R::of(largest)).exp()).collect();
            penalty + focused + R::dot(&exps, row) / R::sum(exps.iter().copied())
        };
        R::sum(scores.iter().enumerate().map(part)) / R::of(words.len() as f64)
    }
}

impl Operation for Pairs {
    fn shape(&self) -> Vec<usize> {
        vec![self.pairs.len()]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let dim = self.dim;
        let rows = |input: usize, offsets: &[usize], item: u32| {
            let span = offsets[item as usize] * dim..offsets[item as usize + 1] * dim;
            inputs[input][span].chunks_exact(dim).collect::<Vec<&[R]>>()
        };
        let score = |&(image, text): &(u32, u32)| {
            let threshold = self.thresholds[text as usize].into();
            let regions = rows(0, &self.image_offsets, image);
            self.plain(&regions, &rows(1, &self.text_offsets, text), threshold)
        };
        self.pairs.iter().map(score).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        if let Some(known) = &self.known {
            return Ok(known.clone());
        }
        let both = self.ragged(inputs);
        let score = |&pair: &(u32, u32)| {
            self.score(&self.see(both, pair), self.thresholds[pair.1 as usize])
        };
        Ok(self.pairs.par_iter().map(score).collect())
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let both = self.ragged(inputs);
        let mut found = [vec![0.0; inputs[0].len()], vec![0.0; inputs[1].len()]];
        let wanted: Vec<(&(u32, u32), f32)> =
            self.pairs.iter().zip(upstream.iter().copied()).filter(|(_, g)| *g != 0.0).collect();
        for some in wanted.chunks(PAIRS) {
            let gradients: Vec<_> = some
                .par_iter()
                .map(|&(&pair, upstream)| self.backward_of(&self.see(both, pair), upstream))
                .collect();
            for (&(&(image, text), _), (of_regions, of_words)) in some.iter().zip(gradients) {
                let parts = [(both.0, image, of_regions), (both.1, text, of_words)];
                for (found, (items, item, own)) in found.iter_mut().zip(parts) {
                    let first = items.rows_of(item as usize).start * self.dim;
                    found[first..].iter_mut().zip(own).for_each(|(sum, x)| *sum += x);
                }
            }
        }
        Ok(found.map(Some).into())
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        if let Some(known) = &self.known {
            return unit.array(known);
        }
        let (rows, of) = self.on_gpu(unit, inputs)?;
        rows.pair_scores(of)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let (rows, of) = self.on_gpu(unit, inputs)?;
        Ok(rows.gradients(of, upstream)?.map(Some).into())
    }
}

fn leaky(score: f32) -> f32 {
    if score > 0.0 { score } else { SLOPE * score }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Every number over the sum; zeros stay zeros.
fn share(row: &mut [f32]) {
    let sum = row.iter().sum::<f32>().max(f32::MIN_POSITIVE);
    row.iter_mut().for_each(|x| *x /= sum);
}
