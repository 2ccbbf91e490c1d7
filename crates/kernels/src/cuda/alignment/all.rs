//! Similarity vectors of all pairs, without gradients.
//!
//! Products of all words and regions are one product, and so are the vectors of all pairs of a block. What
//! words attend to is one product for each image.

use std::ops::Range;

use nextpair_cuda::{Array, Grid, Operand};

use super::{SimilarityArrays, part_offsets};
use crate::cuda::Unit;
use crate::cuda::lines::PAIR_THREADS;
use crate::cuda::tables::Rows;
use crate::cuda::tiles::{context_blocks, item_blocks};
use crate::{Attention, Error};

/// Compares all pairs of images and captions.
pub(crate) struct AllAligned<'a> {
    unit: &'a Unit,
    dim: usize,
    size: usize,
    weights: SimilarityArrays<'a>,
    attending: Array<u32>,
    images: Rows<'a>,
    texts: Rows<'a>,
    /// Regions of an image at most.
    rows: usize,
}

/// Some captions, whose words stand apart from wholes.
struct Block {
    captions: Range<usize>,
    wholes: Array<f32>,
    words: Array<f32>,
    /// The first word of each caption, then the end of the last.
    offsets: Array<u32>,
    /// Number of words, and of a caption at most.
    count: usize,
    most: usize,
    /// The word or whole of each vector of an image, as kernels read it.
    sources: Array<u32>,
    /// The first vector of each caption, then the end of the last.
    firsts: Vec<usize>,
}

impl Block {
    fn new(
        unit: &Unit,
        texts: Rows<'_>,
        captions: Range<usize>,
        dim: usize,
    ) -> Result<Self, Error> {
        let own = &texts.offsets[captions.start..=captions.end];
        let offsets = part_offsets(own);
        let offsets: Vec<usize> = offsets.iter().map(|offset| offset - offsets[0]).collect();
        let count = offsets[captions.len()];
        let mut sources = Vec::with_capacity(count + captions.len());
        for (at, span) in offsets.windows(2).enumerate() {
            sources.push((count + at) as u32);
            sources.extend((span[0]..span[1]).map(|word| word as u32));
        }
        let rows = own.windows(2).flat_map(|span| (span[0] + 1..span[1]).map(|row| row as u32));
        Ok(Block {
            wholes: wholes(unit, Rows { offsets: own, ..texts }, dim)?,
            words: unit.gathered(texts.values, rows.collect(), dim)?,
            most: offsets.windows(2).map(|span| span[1] - span[0]).max().unwrap_or(0),
            offsets: unit.offsets(&offsets)?,
            count,
            sources: unit.array(&sources)?,
            firsts: own.iter().map(|offset| offset - own[0]).collect(),
            captions,
        })
    }

    /// The first vector of each pair with one of so many images, then the end of the last.
    fn pair_offsets(&self, images: usize) -> Vec<usize> {
        let (ends, nodes) = (&self.firsts[1..], self.firsts[self.captions.len()]);
        let of_image = |image: usize| ends.iter().map(move |end| image * nodes + end);
        [0].into_iter().chain((0..images).flat_map(of_image)).collect()
    }
}

impl<'a> AllAligned<'a> {
    pub(crate) fn new(
        unit: &'a Unit,
        (dim, size): (usize, usize),
        attention: Attention,
        (images, texts): (Rows<'a>, Rows<'a>),
        weights: SimilarityArrays<'a>,
    ) -> Result<Self, Error> {
        let (attending, rows) = (unit.attending(&attention)?, images.longest() - 1);
        Ok(AllAligned { unit, dim, size, weights, attending, images, texts, rows })
    }

    /// The scores of all pairs, images by captions. `score` gets the similarity vectors of some pairs at
    /// unit norm, of each the whole and then the words, and the first of each, then the end of the last.
    pub(crate) fn scores(
        &self,
        score: impl Fn(Array<f32>, &[usize]) -> Result<Array<f32>, Error>,
    ) -> Result<Array<f32>, Error> {
        let AllAligned { unit, dim, size, images, texts, rows, .. } = *self;
        let columns = texts.len();
        let out = unit.empty(images.len() * columns)?;
        // What a word attends to, its products, and some vectors on their way.
        let rows_at_once = unit.rows_at_once(4 * (dim + rows + 8 * size));
        for captions in item_blocks(texts.offsets) {
            let block = Block::new(unit, texts, captions.clone(), dim)?;
            for of_images in context_blocks(images.len(), block.sources.len(), rows_at_once) {
                let offsets = &images.offsets[of_images.start..=of_images.end];
                let nodes = self.nodes(Rows { offsets, ..images }, &block)?;
                let scores = score(nodes, &block.pair_offsets(of_images.len()))?;
                let place = (of_images.start, captions.start);
                unit.place_tile((&scores, captions.len()), (&out, columns), place)?;
            }
        }
        Ok(out)
    }

    /// The similarity vectors of some images and the captions of a block, at unit norm.
    fn nodes(&self, images: Rows<'_>, block: &Block) -> Result<Array<f32>, Error> {
        let AllAligned { unit, dim, size, .. } = *self;
        let (count, words, captions) = (images.len(), block.count, block.captions.len());
        let [local, local_bias, global, global_bias] = self.weights;
        let through = |squares: &Array<f32>, weight: &Array<f32>| {
            let (rows, left) = (squares.len() / dim, Operand::new(squares, 0, dim));
            let out = unit.empty::<f32>(rows * size)?;
            let (right, to) = (Operand::new(weight, 0, dim), Operand::new(&out, 0, size));
            unit.multiply((rows, size, dim), left, right.turned(), 0.0, to)?;
            Ok::<_, Error>(out)
        };
        let squares = self.attended(images, block)?;
        let arguments = [(&squares).into(), (&block.words).into(), words.into(), dim.into()];
        unit.run("differ_all", Unit::rows(count * words), &arguments)?;
        let of_words = through(&squares, local)?;
        drop(squares);
        let (squares, of_images) =
            (unit.empty(count * captions * dim)?, wholes(unit, images, dim)?);
        let arguments = [
            (&squares).into(),
            (&of_images).into(),
            (&block.wholes).into(),
            captions.into(),
            dim.into(),
        ];
        unit.run("differ_wholes", Unit::rows(count * captions), &arguments)?;
        let of_wholes = through(&squares, global)?;
        let nodes = count * block.sources.len();
        let out = unit.empty(nodes * size)?;
        let arguments = [
            (&out).into(),
            (&of_words).into(),
            (&of_wholes).into(),
            local_bias.into(),
            global_bias.into(),
            (&block.sources).into(),
            words.into(),
            captions.into(),
            size.into(),
        ];
        unit.run("place_all", Unit::rows(nodes), &arguments)?;
        Ok(out)
    }

    /// What the words of a block attend to in some images: images by words.
    fn attended(&self, images: Rows<'_>, block: &Block) -> Result<Array<f32>, Error> {
        let AllAligned { unit, dim, rows, .. } = *self;
        let (count, words) = (images.len(), block.count);
        let padded = unit.padded(images, 1, (rows, dim))?;
        let offsets = unit.offsets(&part_offsets(images.offsets))?;
        let products = unit.empty::<f32>(words * count * rows)?;
        let own = Operand::new(&block.words, 0, dim);
        let regions = Operand::new(&padded, 0, dim);
        let to = Operand::new(&products, 0, count * rows);
        unit.multiply((words, count * rows, dim), own, regions.turned(), 0.0, to)?;
        let arguments = [
            (&products).into(),
            (&block.offsets).into(),
            (&offsets).into(),
            rows.into(),
            (&self.attending).into(),
        ];
        let grid = Grid::plane(count, block.captions.len(), PAIR_THREADS);
        unit.run("align_all", grid.shared(4 * block.most * rows), &arguments)?;
        let out = unit.empty(count * words * dim)?;
        let weights = Operand::new(&products, 0, count * rows).apart(rows);
        let to = Operand::new(&out, 0, dim).apart(words * dim);
        let regions = regions.apart(rows * dim);
        unit.multiply_each(count, (words, dim, rows), weights, regions, 0.0, to)?;
        Ok(out)
    }
}

/// The first row of every item.
fn wholes(unit: &Unit, items: Rows<'_>, dim: usize) -> Result<Array<f32>, Error> {
    let firsts = items.offsets[..items.len()].iter().map(|&first| first as u32);
    unit.gathered(items.values, firsts.collect(), dim)
}
