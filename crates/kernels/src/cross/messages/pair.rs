//! One pair: small matrices of regions by words.

use std::ops::Range;

use crate::elementwise::exp_all;
use crate::packed::Left;

use super::super::rows::{dots, small_product};
use super::MessageForm;
use super::items::{Items, SideWeights};

/// Added to norms.
const EPSILON: f32 = 1e-8;

/// What is known of a pair.
#[derive(Default)]
pub(super) struct Seen {
    /// Products of regions and words.
    products: Vec<f32>,
    /// What each region makes of the words, and each word of the regions.
    of_regions: Vec<f32>,
    of_words: Vec<f32>,
}

impl Seen {
    /// Takes a caption's columns from products of an image with `wide` words, and turns them into weights.
    pub(super) fn take(
        &mut self,
        regions: usize,
        (wide, lanes): (usize, Range<usize>),
        (products, to_words, to_regions): (&[f32], &[f32], &[f32]),
        scale: f32,
    ) {
        let own = |from: &[f32], to: &mut Vec<f32>| {
            to.clear();
            for region in 0..regions {
                to.extend_from_slice(&from[region * wide..][lanes.clone()]);
            }
        };
        own(products, &mut self.products);
        own(to_words, &mut self.of_regions);
        softmax(&mut self.of_regions, lanes.len(), scale);
        self.of_words.clear();
        for word in lanes {
            self.of_words.extend((0..regions).map(|region| to_regions[region * wide + word]));
        }
        softmax(&mut self.of_words, regions, scale);
    }
}

/// A pair among images and captions.
pub(super) struct Pair<'a> {
    pub(super) form: MessageForm,
    pub(super) images: &'a Items,
    pub(super) texts: &'a Items,
    pub(super) image: usize,
    pub(super) caption: usize,
    pub(super) scale: f32,
}

impl Pair<'_> {
    fn sizes(&self) -> (usize, usize) {
        (self.images.rows_of(self.image).len(), self.texts.rows_of(self.caption).len())
    }

    /// Lets messages attend to each other.
    fn mix(&self, seen: &mut Seen) {
        let (regions, words) = self.sizes();
        let of_texts = &self.texts.affinities[self.caption];
        seen.of_regions = mixed(&seen.of_regions, (regions, words), of_texts, self.scale);
        let of_images = &self.images.affinities[self.image];
        seen.of_words = mixed(&seen.of_words, (words, regions), of_images, self.scale);
    }

    /// The cosine of the mean messages.
    pub(super) fn of_means(&self, seen: &mut Seen, padded: usize) -> f32 {
        let (regions, words) = self.sizes();
        let affinity = &self.images.affinities[self.image];
        let first = seen.of_words.clone();
        self.mix(seen);
        let from_words = column_means(&seen.of_regions, words, regions as f32);
        // A padded word asks nothing, so its message is the mean of the regions; messages of words are
        // all that it attends to.
        let length = padded.max(words);
        let mut from_regions = column_means(&seen.of_words, regions, length as f32);
        if length > words {
            let asked = column_means(affinity, regions, regions as f32);
            let mut weights = vec![0.0; words];
            small_product(&asked, regions, &turned(&first, regions), words, &mut weights);
            softmax(&mut weights, words, self.scale);
            let mut row = vec![0.0; regions];
            small_product(&weights, words, &first, regions, &mut row);
            let share = (length - words) as f32 / length as f32;
            from_regions.iter_mut().zip(row).for_each(|(sum, x)| *sum += share * x);
        }
        self.cosine(seen, &from_words, &from_regions)
    }

    /// The cosine of pooled messages.
    pub(super) fn of_pools(
        &self,
        seen: &mut Seen,
        (image, text): (&SideWeights, &SideWeights),
    ) -> f32 {
        let (regions, words) = self.sizes();
        let from = |weights: &[f32], count: usize, sent: (&Items, usize), side: &SideWeights| {
            let pool = side.pool.as_ref().expect("this form pools messages");
            let mut hidden = pool.bias.repeat(count);
            sent.0.sent[sent.1]
                .multiply_add(Left::rows(weights, weights.len() / count), &mut hidden);
            hidden.iter_mut().for_each(|x| *x = x.max(0.0));
            let mut logits = vec![0.0; count * pool.heads];
            pool.second.multiply(Left::rows(&hidden, self.images.dim), &mut logits);
            let mut row = vec![0.0; weights.len() / count];
            let width = row.len();
            small_product(&shares(&logits, pool.heads), count, weights, width, &mut row);
            row
        };
        let from_words = from(&seen.of_regions, regions, (self.texts, self.caption), image);
        let from_regions = from(&seen.of_words, words, (self.images, self.image), text);
        self.cosine(seen, &from_words, &from_regions)
    }

    /// The cosine of a mean of words and a mean of regions.
    fn cosine(&self, seen: &Seen, of_words: &[f32], of_regions: &[f32]) -> f32 {
        let (regions, words) = self.sizes();
        let mut row = vec![0.0; words];
        small_product(of_regions, regions, &seen.products, words, &mut row);
        let norm = |weights: &[f32], gram: &[f32]| {
            let (mut row, count) = (vec![0.0; weights.len()], weights.len());
            small_product(weights, count, gram, count, &mut row);
            sum(weights, &row).max(0.0).sqrt() + EPSILON
        };
        let of_text = norm(of_words, &self.texts.grams[self.caption]);
        let of_image = norm(of_regions, &self.images.grams[self.image]);
        sum(of_words, &row) / of_text / of_image
    }

    /// Adds the rows of the pair after gates, fusion and rectifier to those of the image and the caption.
    pub(super) fn fuse(
        &self,
        seen: &mut Seen,
        (image, text): (&SideWeights, &SideWeights),
        of_image: &mut Vec<f32>,
        of_text: &mut Vec<f32>,
    ) {
        let (regions, words) = self.sizes();
        if self.form.is_new() {
            self.mix(seen);
        }
        let (to_regions, to_words) = (&seen.products, &turned(&seen.products, words));
        let gram = &self.texts.grams[self.caption];
        let gates = self.gates(&mut seen.of_regions, words, gram, to_regions);
        let (sent, own) = ((self.texts, self.caption), (self.images, self.image));
        fused(&seen.of_regions, &gates, image, sent, own, of_image);
        let gram = &self.images.grams[self.image];
        let gates = self.gates(&mut seen.of_words, regions, gram, to_words);
        fused(&seen.of_words, &gates, text, own, sent, of_text);
    }

    /// How far each row lets its message in. Where messages attend to each other, weights become those of
    /// messages at unit norm.
    fn gates(&self, weights: &mut [f32], count: usize, gram: &[f32], products: &[f32]) -> Vec<f32> {
        if self.form.is_new() {
            let mut overlaps = vec![0.0; weights.len()];
            small_product(weights, count, gram, count, &mut overlaps);
            for (weights, overlaps) in weights.chunks_exact_mut(count).zip(overlaps.chunks(count)) {
                let scale = 1.0 / (sum(weights, overlaps).max(0.0).sqrt() + EPSILON);
                weights.iter_mut().for_each(|x| *x *= scale);
            }
        }
        let both = weights.chunks_exact(count).zip(products.chunks_exact(count));
        let mut gates: Vec<f32> = both.map(|(weights, products)| sum(weights, products)).collect();
        crate::elementwise::sigmoid_all(&mut gates);
        gates
    }
}

/// Adds `relu(gate (own + weights sent) + bias)` for every row.
fn fused(
    weights: &[f32],
    gates: &[f32],
    side: &SideWeights,
    (others, other): (&Items, usize),
    (items, item): (&Items, usize),
    out: &mut Vec<f32>,
) {
    let (dim, place, start) = (items.dim, items.rows_of(item), out.len());
    let own = items.own.as_ref().expect("this form fuses");
    out.extend_from_slice(&own[place.start * dim..place.end * dim]);
    let out = &mut out[start..];
    let count = weights.len() / gates.len();
    others.sent[other].multiply_add(Left::rows(weights, count), out);
    let bias = side.fuse.as_ref().and_then(|(_, bias, _)| bias.as_ref());
    for (row, &gate) in out.chunks_exact_mut(dim).zip(gates) {
        match bias {
            None => row.iter_mut().for_each(|x| *x = (*x * gate).max(0.0)),
            Some(bias) => {
                row.iter_mut().zip(bias).for_each(|(x, b)| *x = (*x * gate + b).max(0.0));
            }
        }
    }
}

/// With `A` the weights of rows and `H` the affinities of what they are of: `softmax(A H Aᵀ) A`.
fn mixed(
    weights: &[f32],
    (rows, count): (usize, usize),
    affinities: &[f32],
    scale: f32,
) -> Vec<f32> {
    let (mut asked, mut found) = (vec![0.0; rows * count], vec![0.0; rows * rows]);
    small_product(weights, count, affinities, count, &mut asked);
    small_product(&asked, count, &turned(weights, count), rows, &mut found);
    softmax(&mut found, rows, scale);
    small_product(&found, rows, weights, count, &mut asked);
    asked
}

/// The mean share of every row: each head has a softmax over the rows.
pub(super) fn shares(logits: &[f32], heads: usize) -> Vec<f32> {
    let count = logits.len() / heads;
    let mut by_head = turned(logits, heads);
    softmax(&mut by_head, count, 1.0);
    column_means(&by_head, count, heads as f32)
}

/// The sum of every column over `divisor`.
fn column_means(values: &[f32], columns: usize, divisor: f32) -> Vec<f32> {
    let mut sums = vec![0.0; columns];
    for row in values.chunks_exact(columns) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
    }
    sums.iter_mut().for_each(|sum| *sum /= divisor);
    sums
}

/// The transpose of rows of `columns` numbers.
fn turned(values: &[f32], columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|column| values[column..].iter().step_by(columns)).copied().collect()
}

/// Softmax of every row of `count` numbers times `scale`.
fn softmax(rows: &mut [f32], count: usize, scale: f32) {
    for row in rows.chunks_exact_mut(count) {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        row.iter_mut().for_each(|x| *x = (*x - largest) * scale);
    }
    exp_all(rows);
    for row in rows.chunks_exact_mut(count) {
        let share = 1.0 / row.iter().sum::<f32>();
        row.iter_mut().for_each(|x| *x *= share);
    }
}

fn sum(a: &[f32], b: &[f32]) -> f32 {
    let mut out = Vec::new();
    dots(a, b, &mut out);
    out[0]
}
