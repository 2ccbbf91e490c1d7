//! Scores of NAAF on a GPU. Names are those of `cross::thresholds`.
//!
//! A score jumps where a product passes the threshold, so products are in single precision whatever the
//! precision of the unit is, and have the same bits whatever else is scored with a pair.

mod all;
mod mining;

use nextpair_cuda::{Array, Grid, Operand};

use super::Unit;
use super::lines::{Lines, PAIR_THREADS, Padded, Paired};
use super::tables::Rows;
use crate::{Attention, Error};

/// Queries computed together. Tests see several calls.
const ROWS: usize = if cfg!(test) { 1 << 5 } else { 1 << 14 };

/// Images and captions on a GPU, with what depends on images alone.
pub(crate) struct ThresholdedRows<'a> {
    unit: Unit,
    dim: usize,
    attending: Array<u32>,
    images: Rows<'a>,
    texts: Rows<'a>,
    /// Regions of an image at most, and words of a caption.
    rows: usize,
    most: usize,
    region_offsets: Array<u32>,
    /// Regions, padded, and their Gram matrices.
    padded: Array<f32>,
    grams: Array<f32>,
}

/// Pairs with the threshold of each, and whether likeness smoothes what is penalised.
#[derive(Clone, Copy)]
pub(crate) struct ThresholdedPairs<'a> {
    pub(crate) pairs: &'a [(u32, u32)],
    pub(crate) thresholds: &'a [f32],
    pub(crate) smoothed: bool,
}

/// Some pairs on their way.
struct Pass {
    lines: Lines,
    words: Array<f32>,
    raw: Array<f32>,
    thresholds: Array<f32>,
    captions: Array<u32>,
}

impl<'a> ThresholdedRows<'a> {
    pub(crate) fn new(
        unit: &Unit,
        dim: usize,
        attention: &Attention,
        images: Rows<'a>,
        texts: Rows<'a>,
    ) -> Result<Self, Error> {
        let unit = unit.in_single_precision();
        let (rows, most) = (images.longest(), texts.longest());
        let padded = match images.is_uniform() {
            true => images.values.clone(),
            false => unit.padded(images, 0, (rows, dim))?,
        };
        let grams = unit.multiply_own_rows(&padded, images.len(), (rows, dim))?;
        let (attending, region_offsets) =
            (unit.attending(attention)?, unit.offsets(images.offsets)?);
        Ok(ThresholdedRows {
            unit,
            dim,
            attending,
            images,
            texts,
            rows,
            most,
            region_offsets,
            padded,
            grams,
        })
    }

    /// Bytes of shared memory of a block that scores captions of so many words, with so many matrices of
    /// words by regions in single precision beside one in double.
    fn shared(&self, most: usize, matrices: usize) -> usize {
        (8 + 4 * matrices) * most * self.rows + 4 * 4 * most
    }

    /// How like the words of each of some captions are, padded to `most`.
    fn likeness(&self, texts: Rows<'_>, most: usize) -> Result<Array<f32>, Error> {
        let (unit, count) = (&self.unit, texts.len());
        let like =
            unit.grams(&unit.padded(texts, 0, (most, self.dim))?, count, (most, self.dim))?;
        let offsets = unit.offsets(texts.offsets)?;
        let arguments = [(&like).into(), (&offsets).into(), most.into()];
        unit.run("likeness", Unit::rows(count), &arguments)?;
        Ok(like)
    }

    fn like(&self, of: ThresholdedPairs<'_>) -> Result<Option<Array<f32>>, Error> {
        of.smoothed.then(|| self.likeness(self.texts, self.most)).transpose()
    }

    /// Pairs computed together.
    fn at_once(&self) -> usize {
        (ROWS / self.most.max(1)).max(1)
    }

    /// The scores of some pairs.
    pub(crate) fn pair_scores(&self, of: ThresholdedPairs<'_>) -> Result<Array<f32>, Error> {
        let (unit, like) = (&self.unit, self.like(of)?);
        let (out, mut first) = (unit.empty(of.pairs.len())?, 0);
        for pairs in of.pairs.chunks(self.at_once()) {
            let pass = self.pass(pairs, of.thresholds)?;
            let arguments = [
                out.at(first).into(),
                (&pass.raw).into(),
                (&pass.thresholds).into(),
                like.as_ref().into(),
                (&pass.captions).into(),
                (&pass.lines.described).into(),
                (&self.attending).into(),
            ];
            let grid = Grid::blocks(pairs.len(), PAIR_THREADS).shared(self.shared(self.most, 1));
            unit.run("threshold_pairs", grid, &arguments)?;
            first += pairs.len();
        }
        Ok(out)
    }

    /// The products of some pairs.
    fn pass(&self, pairs: &[(u32, u32)], thresholds: &[f32]) -> Result<Pass, Error> {
        let (unit, dim, rows) = (&self.unit, self.dim, self.rows);
        let words_of = |text: usize| self.texts.offsets[text]..self.texts.offsets[text + 1];
        let (offsets, grams) = (&self.region_offsets, Some(&self.grams));
        let padded = Padded { offsets, grams, rows };
        let lines = Lines::new(unit, Paired::new(pairs, words_of), padded, None, self.most)?;
        let captions: Vec<u32> = pairs.iter().map(|&(_, text)| text).collect();
        let of_pairs: Vec<f32> = captions.iter().map(|&text| thresholds[text as usize]).collect();
        let pass = Pass {
            words: unit.empty(lines.len * dim)?,
            raw: unit.empty(lines.len * rows)?,
            thresholds: unit.array(&of_pairs)?,
            captions: unit.array(&captions)?,
            lines,
        };
        pass.lines.gather(unit, (self.texts.values, dim), &pass.words)?;
        pass.lines.multiply_by_rows(unit, &pass.words, (&self.padded, dim), &pass.raw)?;
        Ok(pass)
    }

    /// The gradients of images and captions, with `upstream` those of the scores of pairs.
    pub(crate) fn gradients(
        &self,
        of: ThresholdedPairs<'_>,
        upstream: &Array<f32>,
    ) -> Result<[Array<f32>; 2], Error> {
        let (unit, dim, rows, like) = (&self.unit, self.dim, self.rows, self.like(of)?);
        let of_padded = unit.zeros::<f32>(self.padded.len())?;
        let mut of_texts = unit.zeros(self.texts.values.len())?;
        let (images, mut first) = (self.images.len(), 0);
        for pairs in of.pairs.chunks(self.at_once()) {
            let pass = self.pass(pairs, of.thresholds)?;
            let lines = &pass.lines;
            let of_raw = unit.empty::<f32>(lines.len * rows)?;
            let of_grams = unit.empty::<f32>(pairs.len() * rows * rows)?;
            let arguments = [
                (&of_raw).into(),
                (&of_grams).into(),
                (&pass.raw).into(),
                (&pass.thresholds).into(),
                like.as_ref().into(),
                (&pass.captions).into(),
                upstream.at(first).into(),
                (&lines.described).into(),
                (&self.attending).into(),
            ];
            let grid = Grid::blocks(pairs.len(), PAIR_THREADS).shared(self.shared(self.most, 3));
            unit.run("threshold_pairs_back", grid, &arguments)?;
            lines.add_to_contexts(unit, &of_raw, &pass.words, dim, &of_padded)?;
            let of_words = unit.empty::<f32>(lines.len * dim)?;
            lines.add_rows(unit, &of_raw, (&self.padded, dim), 0.0, &of_words)?;
            let words = self.texts.values.len() / dim;
            unit.add(&mut of_texts, &unit.add_rows(&of_words, dim, lines.by_word(), words)?)?;
            // The gradients of Gram matrices, of all pairs of an image together.
            let of_grams = unit.add_rows(&of_grams, rows * rows, lines.by_context(), images)?;
            let left = Operand::new(&of_grams, 0, rows).apart(rows * rows);
            let right = Operand::new(&self.padded, 0, dim).apart(rows * dim);
            let to = Operand::new(&of_padded, 0, dim).apart(rows * dim);
            unit.multiply_each(images, (rows, dim, rows), left, right, 1.0, to)?;
            first += pairs.len();
        }
        Ok([unit.unpadded(of_padded, self.images, (rows, dim))?, of_texts])
    }
}
