//! Similarity vectors of SGRAF on a GPU. Names are those of `cross::aligned`.
//!
//! The words of pairs attend to regions by products of small matrices. Everything else is a product of all
//! of them with weights, and kernels that go over rows once.

mod all;
mod backward;

use nextpair_cuda::{Array, Grid, Operand, Pointer};

use super::Unit;
use super::lines::{Lines, PAIR_THREADS, Padded, Paired};
use super::tables::Rows;
use crate::{Attention, Error};
pub(crate) use all::AllAligned;

/// Rows of pairs computed together. Tests see several calls.
const ROWS: usize = if cfg!(test) { 1 << 5 } else { 1 << 14 };

/// The weights of words, their biases, the weights of wholes and their biases.
pub(crate) type SimilarityArrays<'a> = [&'a Array<f32>; 4];

/// Similarity vectors of some pairs.
pub(crate) struct Aligned<'a> {
    unit: &'a Unit,
    /// Dimensions of the rows that are compared, and of the vectors.
    dim: usize,
    size: usize,
    images: Rows<'a>,
    texts: Rows<'a>,
    weights: SimilarityArrays<'a>,
    attending: Array<u32>,
    /// Regions, padded, and their offsets before.
    padded: Array<f32>,
    region_offsets: Array<u32>,
    /// Regions of an image at most, and words of a caption.
    rows: usize,
    most: usize,
}

/// Some pairs on their way: a row for each word, then one for the whole of each pair.
struct Pass {
    lines: Lines,
    /// The caption's row of each row, where its vector is, and the image's row of each pair.
    indices: Array<u32>,
    words: Array<f32>,
    raw: Array<f32>,
    weights: Array<f32>,
    squares: Array<f32>,
}

impl Pass {
    /// Number of rows.
    fn rows(&self) -> usize {
        self.lines.len + self.lines.count
    }

    fn texts_of(&self) -> Pointer {
        self.indices.at(0)
    }

    fn places(&self) -> Pointer {
        self.indices.at(self.rows())
    }

    fn images_of(&self) -> Pointer {
        self.indices.at(2 * self.rows())
    }
}

/// Differences of the rows of a pass, and norms of what words attend to.
struct Differences {
    rows: Array<f32>,
    norms: Array<f32>,
}

/// The offsets of the rows that are not the first of their item.
fn part_offsets(offsets: &[usize]) -> Vec<usize> {
    offsets.iter().enumerate().map(|(item, offset)| offset - item).collect()
}

impl<'a> Aligned<'a> {
    pub(crate) fn new(
        unit: &'a Unit,
        (dim, size): (usize, usize),
        attention: Attention,
        (images, texts): (Rows<'a>, Rows<'a>),
        weights: SimilarityArrays<'a>,
    ) -> Result<Self, Error> {
        // There may be no items, if there are no pairs.
        let [rows, most] = [images, texts].map(|items| items.longest().saturating_sub(1));
        Ok(Aligned {
            unit,
            dim,
            size,
            images,
            texts,
            weights,
            attending: unit.attending(&attention)?,
            padded: unit.padded(images, 1, (rows, dim))?,
            region_offsets: unit.offsets(&part_offsets(images.offsets))?,
            rows,
            most,
        })
    }

    /// Pairs computed together.
    fn at_once(&self) -> usize {
        (ROWS / (self.most + 1)).max(1)
    }

    /// The vectors of `(image, caption)` pairs: of each the whole, then the words.
    pub(crate) fn vectors(&self, pairs: &[(u32, u32)]) -> Result<Array<f32>, Error> {
        let (unit, size) = (self.unit, self.size);
        let rows_of = |&(_, text): &(u32, u32)| {
            self.texts.offsets[text as usize + 1] - self.texts.offsets[text as usize]
        };
        let out = unit.empty(pairs.iter().map(rows_of).sum::<usize>() * size)?;
        let mut first = 0;
        for pairs in pairs.chunks(self.at_once()) {
            let pass = self.pass(pairs, None)?;
            let (rows, vectors) = (pass.rows(), self.multiplied(&pass)?);
            let [_, of_words, _, of_wholes] = self.weights;
            let arguments = [
                out.at(first * size).into(),
                (&vectors).into(),
                of_words.into(),
                of_wholes.into(),
                pass.places().into(),
                pass.lines.len.into(),
                size.into(),
            ];
            unit.run("place_vectors", Unit::rows(rows), &arguments)?;
            first += rows;
        }
        Ok(out)
    }

    /// Up to the squares of differences, which themselves are kept if they are wanted.
    fn pass(&self, pairs: &[(u32, u32)], kept: Option<&Differences>) -> Result<Pass, Error> {
        let Aligned { unit, dim, rows, most, .. } = *self;
        let (of_images, of_texts) = (self.images.offsets, self.texts.offsets);
        let words_of = |text: usize| of_texts[text] + 1..of_texts[text + 1];
        let paired = Paired::new(pairs, words_of);
        let wholes = |offsets: &'a [usize], items: Vec<u32>| {
            items.into_iter().map(|item| offsets[item as usize] as u32)
        };
        let (images, texts): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        // Every pair has one vector more than words.
        let spans = paired.firsts.iter().zip(&paired.ends).enumerate();
        let places_of_words = spans
            .flat_map(|(pair, (&from, &to))| (from..to).map(move |line| line + pair as u32 + 1));
        let firsts = paired.firsts.iter().enumerate();
        let places_of_wholes = firsts.map(|(pair, first)| first + pair as u32);
        let mut indices = paired.words.clone();
        indices.extend(wholes(of_texts, texts));
        indices.extend(places_of_words.chain(places_of_wholes));
        indices.extend(wholes(of_images, images));
        let padded = Padded { offsets: &self.region_offsets, grams: None, rows };
        let lines = Lines::new(unit, paired, padded, None, most)?;
        let each = |count: usize, width: usize| unit.empty::<f32>(count * width);
        let pass = Pass {
            indices: unit.array(&indices)?,
            words: each(lines.len, dim)?,
            raw: each(lines.len, rows)?,
            weights: each(lines.len, rows)?,
            squares: each(lines.len + lines.count, dim)?,
            lines,
        };
        let (lines, regions) = (&pass.lines, (&self.padded, dim));
        lines.gather(unit, (self.texts.values, dim), &pass.words)?;
        lines.multiply_by_rows(unit, &pass.words, regions, &pass.raw)?;
        let arguments = [
            (&pass.weights).into(),
            (&pass.raw).into(),
            (&lines.described).into(),
            (&self.attending).into(),
        ];
        let grid = Grid::blocks(lines.count, PAIR_THREADS).shared(4 * most * rows);
        unit.run("align_pairs", grid, &arguments)?;
        // Squares take the place of what is attended to.
        let attended = &pass.squares;
        lines.add_rows(unit, &pass.weights, regions, 0.0, attended)?;
        let arguments = [
            (&pass.squares).into(),
            kept.map(|kept| &kept.rows).into(),
            kept.map(|kept| &kept.norms).into(),
            attended.into(),
            self.images.values.into(),
            self.texts.values.into(),
            pass.texts_of().into(),
            pass.images_of().into(),
            lines.len.into(),
            dim.into(),
        ];
        unit.run("differ_pairs", Unit::rows(pass.rows()), &arguments)?;
        Ok(pass)
    }

    /// The squares of a pass through the weights.
    fn multiplied(&self, pass: &Pass) -> Result<Array<f32>, Error> {
        let Aligned { unit, dim, size, .. } = *self;
        let [local, _, global, _] = self.weights;
        let out = unit.empty(pass.rows() * size)?;
        for (first, count, weight) in
            [(0, pass.lines.len, local), (pass.lines.len, pass.lines.count, global)]
        {
            let left = Operand::new(&pass.squares, first * dim, dim);
            let right = Operand::new(weight, 0, dim).turned();
            let to = Operand::new(&out, first * size, size);
            unit.multiply((count, size, dim), left, right, 0.0, to)?;
        }
        Ok(out)
    }
}
