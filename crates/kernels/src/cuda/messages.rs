//! Scores of CAMP for all pairs on a GPU, without gradients. Names are those of `cross::messages`.
//!
//! Captions are taken some at a time, and with them some images, each with its tables. Weights of messages
//! are small matrices of a pair, which one kernel handles. What remains of the size of a vector for every
//! row of a pair is fused by a kernel, and pooled by one product for all pairs.

mod exchange;
mod tables;

use std::ops::Range;

use nextpair_cuda::{Array, Grid, Operand, Pointer};

use super::Unit;
use super::lines::PAIR_THREADS;
use super::tables::Rows;
use super::tiles::{context_blocks, item_blocks};
use crate::{Error, MessageForm};
use exchange::Exchange;
use tables::Table;

/// Columns that a block of threads fuses: four each.
const COLUMNS: usize = 4 * PAIR_THREADS as usize;

/// The weights of one side, as far as a form has them.
pub(crate) struct MessageArrays<'a> {
    pub(crate) key: &'a Array<f32>,
    pub(crate) query: Option<&'a Array<f32>>,
    /// Of the queries and keys of messages that are means of these vectors.
    pub(crate) message: Option<[&'a Array<f32>; 2]>,
    pub(crate) fuse: Option<&'a Array<f32>>,
    pub(crate) fuse_bias: Option<&'a Array<f32>>,
    pub(crate) pool: Option<PoolArrays<'a>>,
}

/// The weights of a pool. Biases of its second layer do nothing.
#[derive(Clone, Copy)]
pub(crate) struct PoolArrays<'a> {
    pub(crate) first: &'a Array<f32>,
    pub(crate) bias: &'a Array<f32>,
    pub(crate) second: &'a Array<f32>,
}

/// Compares all pairs of images and captions.
pub(crate) struct AllMessages<'a> {
    pub(crate) unit: &'a Unit,
    pub(crate) dim: usize,
    pub(crate) form: MessageForm,
    pub(crate) images: Rows<'a>,
    pub(crate) texts: Rows<'a>,
    /// Weights of images and of captions.
    pub(crate) weights: [MessageArrays<'a>; 2],
}

impl PoolArrays<'_> {
    fn heads(&self, dim: usize) -> usize {
        self.second.len() / dim
    }
}

impl AllMessages<'_> {
    /// The scores of all pairs, images by captions. `score` gets the pooled vectors of some pairs, for the
    /// forms that fuse: that of the image beside that of the caption.
    pub(crate) fn scores(
        &self,
        score: impl Fn(Array<f32>) -> Result<Array<f32>, Error>,
    ) -> Result<Array<f32>, Error> {
        let AllMessages { unit, dim, form, images, texts, .. } = *self;
        let (columns, most) = (texts.len(), images.longest());
        let out = unit.empty(images.len() * columns)?;
        // Fused rows, and what a pool makes of them.
        let rows_at_once = unit.rows_at_once(3 * 4 * dim);
        for captions in item_blocks(texts.offsets) {
            let own = &texts.offsets[captions.start..=captions.end];
            let of_texts = self.caption_table(own)?;
            let rows = captions.len() * most + own[captions.len()] - own[0];
            for of_images in context_blocks(images.len(), rows, rows_at_once) {
                let table = self.image_table(of_images.clone(), most)?;
                let exchange = self.exchange([&table, &of_texts])?;
                let place = (of_images.start, captions.start);
                let to = out.at(place.0 * columns + place.1);
                let gates = self.exchanged(&exchange, (to, columns))?;
                match form {
                    MessageForm::CrossAttentionNew { .. } => {}
                    MessageForm::CrossAttention => self.compare_pools(&exchange, (to, columns))?,
                    MessageForm::GateFusion | MessageForm::GateFusionNew => {
                        let scores = score(self.fused(&exchange, &gates)?)?;
                        unit.place_tile((&scores, captions.len()), (&out, columns), place)?;
                    }
                }
            }
        }
        Ok(out)
    }

    /// What the rows of one side make of their messages.
    fn fused_rows(
        &self,
        exchange: &Exchange<'_>,
        side: usize,
        gates: Option<&Array<f32>>,
    ) -> Result<Array<f32>, Error> {
        let (unit, dim) = (self.unit, self.dim);
        let out = unit.empty(exchange.rows[side] * dim)?;
        // Those of captions come after those of images.
        let first = if side == 0 { 0 } else { exchange.rows[0] };
        let gates = gates.map_or(Pointer::NULL, |gates| gates.at(first));
        let arguments = [
            (&out).into(),
            (&exchange.described).into(),
            side.into(),
            exchange.tables[1 - side].sent.as_ref().into(),
            exchange.tables[side].own.as_ref().into(),
            gates.into(),
            self.weights[side].fuse_bias.into(),
            dim.into(),
        ];
        let grid =
            Grid::plane(exchange.images * dim.div_ceil(COLUMNS), exchange.captions, PAIR_THREADS);
        unit.run("fuse_rows", grid.shared(4 * 12 * exchange.largest()), &arguments)?;
        Ok(out)
    }

    /// The logits of the rows of one side in its pool, from what the first layer makes of them.
    fn logits(
        &self,
        exchange: &Exchange<'_>,
        side: usize,
        hidden: &Array<f32>,
    ) -> Result<(Array<f32>, usize), Error> {
        let (unit, dim) = (self.unit, self.dim);
        let pool = self.weights[side].pool.expect("this form pools");
        let heads = pool.heads(dim);
        let logits = unit.empty(exchange.rows[side] * heads)?;
        let arguments = [
            (&logits).into(),
            (&exchange.described).into(),
            side.into(),
            hidden.into(),
            exchange.tables[side].pooled.as_ref().into(),
            pool.bias.into(),
            pool.second.into(),
            heads.into(),
            dim.into(),
        ];
        unit.run("pool_logits", exchange.grid(), &arguments)?;
        Ok((logits, heads))
    }

    /// The pooled vectors of all pairs: that of the image beside that of the caption.
    fn fused(&self, exchange: &Exchange<'_>, gates: &Array<f32>) -> Result<Array<f32>, Error> {
        let AllMessages { unit, dim, form, .. } = *self;
        let both = unit.empty(exchange.images * exchange.captions * 2 * dim)?;
        for side in [0, 1] {
            let rows = self.fused_rows(exchange, side, Some(gates))?;
            let pool = self.weights[side].pool.expect("forms that fuse also pool");
            let hidden = unit.empty(rows.len())?;
            let (left, right) = (Operand::new(&rows, 0, dim), Operand::new(pool.first, 0, dim));
            let to = Operand::new(&hidden, 0, dim);
            unit.multiply((exchange.rows[side], dim, dim), left, right.turned(), 0.0, to)?;
            let (logits, heads) = self.logits(exchange, side, &hidden)?;
            let arguments = [
                both.at(side * dim).into(),
                (&exchange.described).into(),
                side.into(),
                (&logits).into(),
                (&rows).into(),
                exchange.tables[side].values_on_device(dim).into(),
                heads.into(),
                dim.into(),
                (2 * dim).into(),
                (form == MessageForm::GateFusionNew).into(),
            ];
            let shared = 4 * (1 + heads) * exchange.longest[side];
            unit.run("pool_rows", exchange.grid().shared(shared), &arguments)?;
        }
        Ok(both)
    }

    /// Writes the cosines of pooled messages.
    fn compare_pools(
        &self,
        exchange: &Exchange<'_>,
        (to, columns): (Pointer, usize),
    ) -> Result<(), Error> {
        let of = |side: usize| {
            let hidden = self.fused_rows(exchange, side, None)?;
            self.logits(exchange, side, &hidden)
        };
        let [(of_regions, region_heads), (of_words, word_heads)] = [of(0)?, of(1)?];
        let arguments = [
            to.into(),
            (&exchange.described).into(),
            (&of_regions).into(),
            (&of_words).into(),
            region_heads.into(),
            word_heads.into(),
            columns.into(),
        ];
        let [rows, most] = exchange.longest;
        let shares = (1 + region_heads.max(word_heads)) * exchange.largest();
        let grid = exchange.grid().shared(4 * (most + rows + shares));
        self.unit.run("pooled_cosines", grid, &arguments)
    }

    /// Tables of some images, whose rows are padded.
    fn image_table(&self, of: Range<usize>, most: usize) -> Result<Table, Error> {
        let offsets = &self.images.offsets[of.start..=of.end];
        let items = Rows { values: self.images.values, offsets };
        let values = self.unit.padded(items, 0, (most, self.dim))?;
        let uniform: Vec<usize> = (0..=of.len()).map(|item| item * most).collect();
        let padded = Rows { values: &values, offsets: &uniform };
        let mut table = self.table(0, padded)?;
        // Padding takes no part.
        table.offsets = self.unit.offsets(offsets)?;
        Ok(table)
    }

    /// Tables of captions with these offsets.
    fn caption_table(&self, offsets: &[usize]) -> Result<Table, Error> {
        self.table(1, Rows { values: self.texts.values, offsets })
    }
}
