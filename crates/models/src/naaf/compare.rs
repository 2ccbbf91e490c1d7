//! How NAAF compares: with `s` the products of a word and the regions, the part of a word is `n + p + q`.
//! `n` is its largest product less the threshold, where that is negative; `p` its product with the mean of
//! the regions above the threshold by a softmax, at unit norm; `q` the mean of `s` by attention.

use std::sync::{Mutex, PoisonError};

use nextpair_data::Side;
use nextpair_kernels::ops::{
    Part, Tables, add, attend, concat_columns, gather, inverse_root, mean_spans, multiply,
    row_dots, scale,
};
use nextpair_kernels::{Encoded, Error, Tensor};

use super::THRESHOLDS;
use super::mining::{MinedBatch, mine};
use crate::composed::{Composed, OfPairs, attention};
use crate::{Comparison, Pass, Weights};

/// The temperature of the smoothing over the words of a caption.
const SMOOTHING: f64 = 5.0;

/// What keeps a region out of a softmax.
const HIDDEN: f64 = -1e4;

/// Compares with a threshold for each caption, or one for all.
#[derive(Clone)]
pub(super) struct Thresholded {
    /// Temperature of both attentions.
    pub(super) temperature: f32,
    pub(super) thresholds: Thresholds,
}

/// The thresholds of captions, and which words are penalised.
#[derive(Clone)]
pub(super) enum Thresholds {
    /// One for every caption of a batch. Words are penalised that no region is above it for, as in training.
    Each(Vec<f32>),
    /// One for all. Words are penalised whose like in the same caption are below it, as in evaluation.
    Smoothed(f32),
}

impl OfPairs for Thresholded {
    /// Of captions also the threshold, and how like each other its words are, if that counts.
    fn tables(
        &self,
        _weights: &Weights,
        side: Side,
        items: &Encoded,
    ) -> Result<Vec<Encoded>, crate::Error> {
        if side == Side::Image {
            return Ok(vec![items.clone()]);
        }
        let (count, device) = (items.len(), items.rows.device());
        let one_each = |values: Vec<f32>| {
            let rows = Tensor::new(values, &[count, 1], device)?;
            Encoded::uniform(rows, 1)
        };
        Ok(match &self.thresholds {
            Thresholds::Each(thresholds) => vec![items.clone(), one_each(thresholds.clone())?],
            Thresholds::Smoothed(threshold) => {
                let (words, tables) = (items.rows.detached(), Tables::within(&items.offsets)?);
                let products = tables.products(&words, &words)?;
                let likeness = tables.softmax(&scale(&products, SMOOTHING)?)?;
                let squares = items.offsets.windows(2).map(|span| (span[1] - span[0]).pow(2));
                let mut offsets = vec![0];
                offsets.extend(squares.scan(0, |end, own| {
                    *end += own;
                    Some(*end)
                }));
                let likeness = Encoded { rows: likeness, offsets };
                vec![items.clone(), one_each(vec![*threshold; count])?, likeness]
            }
        })
    }

    fn scores(&self, part: &Part<'_>) -> Result<Tensor, Error> {
        let (parts, _, lines) = self.parts(part)?;
        mean_spans(&parts, &lines)
    }
}

impl Thresholded {
    /// The parts of the words of all pairs, their largest products, and the first word of each pair, then
    /// the end of the last.
    fn parts(&self, part: &Part<'_>) -> Result<(Tensor, Tensor, Vec<usize>), Error> {
        let (regions, words) = (&part.first[0], &part.second[0]);
        let pairs: Vec<(u32, u32)> =
            part.pairs.iter().map(|&(image, text)| (text, image)).collect();
        let tables = Tables::new(&words.offsets, &regions.offsets, &pairs)?;
        let products = tables.products(&words.rows, &regions.rows)?;
        let rows = tables.rows();
        let seen = Seen::of(&products.to_f64s()?, &rows, tables.lines(), part)?;
        let tops = gather(&products, &seen.tops)?;
        let penalties = multiply(&add(&tops, &tops.like(seen.below)?)?, &tops.like(seen.counts)?)?;
        let sharp = scale(&products, self.temperature.into())?;
        let above = tables.softmax(&add(&sharp, &products.like(seen.hidden)?)?)?;
        let attended = tables.sums(&above, &regions.rows)?;
        let norms = inverse_root(&row_dots(&attended, &attended)?)?;
        let norms = multiply(&norms, &tops.like(seen.above)?)?;
        let focused = multiply(&attend(&above, &products, &rows)?, &norms)?;
        let weights = attention(&tables, &products, self.temperature)?;
        let regular = attend(&weights, &products, &rows)?;
        let parts = add(&add(&penalties, &focused)?, &regular)?;
        Ok((parts, tops, tables.lines().to_vec()))
    }
}

/// What thresholds make of products. It has no gradient.
struct Seen {
    /// What keeps products that are not above out of a softmax.
    hidden: Vec<f64>,
    /// The place of the largest product of every word, whether it is above, minus the threshold, and whether
    /// the difference counts.
    tops: Vec<u32>,
    above: Vec<f64>,
    below: Vec<f64>,
    counts: Vec<f64>,
}

impl Seen {
    /// Of the products of words, `rows` of them, which are `lines` of pairs.
    fn of(
        products: &[f64],
        rows: &[usize],
        lines: &[usize],
        part: &Part<'_>,
    ) -> Result<Self, Error> {
        // What belongs to captions, pair after pair.
        let of_pairs = |items: &Encoded| {
            let span = |pair: &(u32, u32)| {
                items.offsets[pair.1 as usize] as u32..items.offsets[pair.1 as usize + 1] as u32
            };
            gather(&items.rows, &part.pairs.iter().flat_map(span).collect::<Vec<_>>())?.to_f64s()
        };
        let thresholds = of_pairs(&part.second[1])?;
        let likeness = part.second.get(2).map(of_pairs).transpose()?;
        let mut likeness = likeness.as_deref();
        let words = lines[part.pairs.len()];
        let [mut above, mut below] = [const { Vec::new() }; 2];
        let (mut hidden, mut tops) = (Vec::with_capacity(products.len()), Vec::new());
        let mut counts = vec![0.0; words];
        for (own, threshold) in lines.windows(2).zip(thresholds) {
            for row in rows[own[0]..=own[1]].windows(2) {
                let numbers = &products[row[0]..row[1]];
                let mut top = 0;
                for (at, &number) in numbers.iter().enumerate() {
                    top = if number > numbers[top] { at } else { top };
                    hidden.push(if number > threshold { 0.0 } else { HIDDEN });
                }
                tops.push((row[0] + top) as u32);
                above.push(f64::from(u8::from(numbers[top] > threshold)));
                below.push(-threshold);
            }
            let over = |word: usize| products[tops[word] as usize] - threshold;
            let words = own[0]..own[1];
            for word in words.clone() {
                let like = likeness.as_mut().and_then(|rest| rest.split_off(..words.len()));
                let is_below = match like {
                    Some(like) => {
                        like.iter().zip(words.clone()).map(|(like, word)| like * over(word)).sum()
                    }
                    None => over(word),
                };
                counts[word] = f64::from(u8::from(is_below < 0.0));
            }
        }
        Ok(Seen { hidden, tops, above, below, counts })
    }
}

/// Comparison in training, where every caption has a threshold, which depends on those before it.
pub(super) struct Mined<'a> {
    pub(super) pass: &'a Pass<'a>,
    pub(super) temperature: f32,
    pub(super) penalty: f64,
    /// The threshold of every caption of the batch, once it is known.
    pub(super) thresholds: Mutex<Option<Vec<f32>>>,
}

impl Mined<'_> {
    fn with(&self, thresholds: Vec<f32>) -> Composed<Thresholded> {
        let (temperature, thresholds) = (self.temperature, Thresholds::Each(thresholds));
        let weights = self.pass.weights().clone();
        Composed { model: Thresholded { temperature, thresholds }, weights }
    }

    /// The scores of a batch. Thresholds move on.
    fn mine(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, crate::Error> {
        let [threshold, safe] = THRESHOLDS.map(|name| self.pass.weight(name));
        let (threshold, safe) = (threshold?, safe?);
        let before = [threshold.to_f64s()?[0], safe.to_f64s()?[0]];
        let (images, texts) = (images.detached(), texts.detached());
        let lengths: Vec<usize> = texts.offsets.windows(2).map(|span| span[1] - span[0]).collect();
        let column = |caption: usize, threshold: f32| {
            let comparison = self.with(vec![threshold; texts.len()]);
            let pairs: Vec<(u32, u32)> =
                (0..images.len() as u32).map(|image| (image, caption as u32)).collect();
            let found = comparison.made((&images, &texts), &pairs, None, |model, part| {
                let (parts, tops, _) = model.parts(part)?;
                concat_columns(&[&parts, &tops])
            })?;
            let found = found.to_f32s()?;
            let (parts, tops): (Vec<f32>, Vec<f32>) =
                found.chunks_exact(2).map(|word| (word[0], word[1])).unzip();
            let words = lengths[caption];
            let mean = |words: &[f32]| words.iter().sum::<f32>() * (1.0 / words.len() as f32);
            Ok((parts.chunks_exact(words).map(mean).collect(), tops))
        };
        let MinedBatch { scores, thresholds, after } =
            mine((images.len(), &lengths), self.penalty, before, column)?;
        for (name, (tensor, value)) in
            THRESHOLDS.into_iter().zip([threshold, safe].into_iter().zip(after))
        {
            self.pass.observe(name, tensor.like(vec![value])?);
        }
        *self.thresholds.lock().unwrap_or_else(PoisonError::into_inner) = Some(thresholds);
        Ok(scores)
    }
}

impl Comparison for Mined<'_> {
    fn pair_scores(
        &self,
        images: &Encoded,
        texts: &Encoded,
        pairs: &[(u32, u32)],
        known: Option<Vec<f32>>,
    ) -> Result<Tensor, crate::Error> {
        let found = || self.thresholds.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if found().is_none() {
            self.mine(images, texts)?;
        }
        let thresholds = found().expect("found just now");
        self.with(thresholds).pair_scores(images, texts, pairs, known)
    }

    fn scores(&self, images: &Encoded, texts: &Encoded) -> Result<Vec<f32>, crate::Error> {
        self.mine(images, texts)
    }
}
