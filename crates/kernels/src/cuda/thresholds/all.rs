//! Scores of all pairs in evaluation, without gradients.

use std::ops::Range;

use nextpair_cuda::{Array, Grid};

use super::ThresholdedRows;
use crate::Error;
use crate::cuda::lines::PAIR_THREADS;
use crate::cuda::tables::Rows;
use crate::cuda::tiles::{context_blocks, item_blocks};

/// The products of some words and some images, as kernels read them.
pub(super) struct Tile {
    pub(super) described: Array<u64>,
    /// What the description points to.
    _products: Array<f32>,
    _word_offsets: Array<u32>,
}

impl ThresholdedRows<'_> {
    /// The scores of all pairs, images by captions.
    pub(crate) fn scores(&self, threshold: f32) -> Result<Array<f32>, Error> {
        let (unit, captions, images) = (&self.unit, self.texts.len(), self.images.len());
        let out = unit.empty(images * captions)?;
        let rows_at_once = unit.rows_at_once(4 * self.rows);
        for block in item_blocks(self.texts.offsets) {
            let offsets = &self.texts.offsets[block.start..=block.end];
            let texts = Rows { values: self.texts.values, offsets };
            let most = texts.longest();
            let like = self.likeness(texts, most)?;
            let words = offsets[block.len()] - offsets[0];
            for of_images in context_blocks(images, words, rows_at_once) {
                let tile = self.tile(of_images.clone(), offsets)?;
                let arguments = [
                    out.at(of_images.start * captions + block.start).into(),
                    (&tile.described).into(),
                    (&like).into(),
                    threshold.into(),
                    most.into(),
                    captions.into(),
                    (&self.attending).into(),
                ];
                let grid = Grid::plane(of_images.len(), block.len(), PAIR_THREADS);
                unit.run("threshold_all", grid.shared(self.shared(most, 1)), &arguments)?;
            }
        }
        Ok(out)
    }

    /// The products of some images and the words of captions with these offsets.
    pub(super) fn tile(&self, images: Range<usize>, offsets: &[usize]) -> Result<Tile, Error> {
        let (unit, dim, rows, count) = (&self.unit, self.dim, self.rows, images.len());
        let word_offsets = unit.offsets(offsets)?;
        let words = (self.texts.values.at(offsets[0] * dim), offsets, &word_offsets);
        let regions = (self.padded.at(images.start * rows * dim), count);
        let products = unit.multiply_all_rows(words, regions, (rows, dim))?;
        let described = unit.array(&[
            products.pointer().bits(),
            word_offsets.pointer().bits(),
            self.region_offsets.at(images.start).bits(),
            self.grams.at(images.start * rows * rows).bits(),
            count as u64 | (rows as u64) << 32,
        ])?;
        Ok(Tile { described, _products: products, _word_offsets: word_offsets })
    }
}
