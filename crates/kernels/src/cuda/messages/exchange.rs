//! Messages of some images and some captions: what they ask each other, and the weights that come of it.

use nextpair_cuda::{Array, Grid, Operand, Pointer};

use super::AllMessages;
use super::tables::Table;
use crate::cuda::lines::PAIR_THREADS;
use crate::{Error, MessageForm};

/// Some images and captions, as kernels read them.
pub(super) struct Exchange<'a> {
    pub(super) described: Array<u64>,
    pub(super) tables: [&'a Table; 2],
    /// Rows of an image at most, and of a caption.
    pub(super) longest: [usize; 2],
    /// Rows of all pairs, of images and of captions.
    pub(super) rows: [usize; 2],
    pub(super) images: usize,
    pub(super) captions: usize,
    /// What the description points to.
    _matrices: Vec<Array<f32>>,
}

impl Exchange<'_> {
    /// One block for each pair.
    pub(super) fn grid(&self) -> Grid {
        Grid::plane(self.images, self.captions, PAIR_THREADS)
    }

    /// Rows of an item at most.
    pub(super) fn largest(&self) -> usize {
        self.longest[0].max(self.longest[1])
    }
}

impl AllMessages<'_> {
    /// Products, and where weights go.
    pub(super) fn exchange<'t>(&self, tables: [&'t Table; 2]) -> Result<Exchange<'t>, Error> {
        let AllMessages { unit, dim, form, .. } = *self;
        let [of_images, of_texts] = tables;
        let (wide, words) = (of_images.rows, of_texts.rows);
        let product = |words_of: Operand, regions_of: Operand| {
            let out = unit.empty::<f32>(words * wide)?;
            let to = Operand::new(&out, 0, wide);
            unit.multiply((words, wide, dim), words_of, regions_of.turned(), 0.0, to)?;
            Ok::<_, Error>(out)
        };
        let products = product(of_texts.values(dim), of_images.values(dim))?;
        let whole = |table: &Array<f32>| Operand::new(table, 0, dim);
        let (to_words, to_regions) = match (&of_images.queries, &of_texts.queries) {
            (Some(regions_ask), Some(words_ask)) => (
                product(whole(&of_texts.keys), whole(regions_ask))?,
                product(whole(words_ask), whole(&of_images.keys))?,
            ),
            _ => {
                let both = product(whole(&of_texts.keys), whole(&of_images.keys))?;
                (both.clone(), both)
            }
        };
        // Weights take the place of what is asked, which one array may have for both.
        let of_words = match form.is_new() {
            true => to_regions.clone(),
            false => unit.empty(words * wide)?,
        };
        let bits = |array: &Option<Array<f32>>| array.as_ref().map_or(0, |a| a.pointer().bits());
        let padded = match form {
            MessageForm::CrossAttentionNew { padded } => padded,
            _ => 0,
        };
        let pack = |low: usize, high: usize| low as u64 | (high as u64) << 32;
        let (images, captions) = (of_images.items, of_texts.items);
        let described = unit.array(&[
            products.pointer().bits(),
            to_words.pointer().bits(),
            to_regions.pointer().bits(),
            to_words.pointer().bits(),
            of_words.pointer().bits(),
            of_texts.offsets.pointer().bits(),
            of_images.offsets.pointer().bits(),
            bits(&of_texts.grams),
            bits(&of_images.grams),
            bits(&of_texts.affinities),
            bits(&of_images.affinities),
            pack(images, of_images.longest),
            pack(captions, of_texts.longest),
            pack(words, padded),
        ])?;
        Ok(Exchange {
            described,
            tables,
            longest: [of_images.longest, of_texts.longest],
            rows: [wide * captions, images * words],
            images,
            captions,
            _matrices: vec![products, to_words, to_regions, of_words],
        })
    }

    /// Turns what is asked into weights. The forms that fuse have gates, and the one that compares means
    /// writes its scores.
    pub(super) fn exchanged(
        &self,
        exchange: &Exchange<'_>,
        (to, columns): (Pointer, usize),
    ) -> Result<Array<f32>, Error> {
        let [rows, most] = exchange.longest;
        let compares = matches!(self.form, MessageForm::CrossAttentionNew { .. });
        let gates = match self.form.fuses() {
            true => self.unit.empty(exchange.rows[0] + exchange.rows[1])?,
            false => self.unit.empty(0)?,
        };
        let arguments = [
            (&exchange.described).into(),
            (&gates).into(),
            if compares { to } else { Pointer::NULL }.into(),
            columns.into(),
            (1.0 / (self.dim as f32).sqrt()).into(),
        ];
        let warps = PAIR_THREADS as usize / 32;
        let shared = 4 * (3 * most * rows + warps * (most + rows));
        self.unit.run("exchange_messages", exchange.grid().shared(shared), &arguments)?;
        Ok(gates)
    }
}
