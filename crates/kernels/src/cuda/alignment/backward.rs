//! From the gradients of similarity vectors back to those of images, captions and weights.

use nextpair_cuda::{Array, Grid, Operand};

use super::{Aligned, Differences, PAIR_THREADS, Pass};
use crate::Error;
use crate::cuda::Unit;

/// Gradients while they are added up.
struct Sums {
    /// Of regions, padded, and of the wholes of images.
    padded: Array<f32>,
    wholes: Array<f32>,
    texts: Array<f32>,
    /// Of weights and biases.
    weights: [Array<f32>; 4],
}

impl Aligned<'_> {
    /// The gradients of images, captions and weights, with `upstream` those of the vectors of pairs.
    pub(crate) fn gradients(
        &self,
        pairs: &[(u32, u32)],
        upstream: &Array<f32>,
    ) -> Result<[Array<f32>; 6], Error> {
        let (unit, dim) = (self.unit, self.dim);
        let zeros = |len: usize| unit.zeros::<f32>(len);
        let [local, local_bias, global, global_bias] =
            self.weights.map(|weight| zeros(weight.len()));
        let mut sums = Sums {
            padded: zeros(self.padded.len())?,
            wholes: zeros(self.images.len() * dim)?,
            texts: zeros(self.texts.values.len())?,
            weights: [local?, local_bias?, global?, global_bias?],
        };
        let mut first = 0;
        for pairs in pairs.chunks(self.at_once()) {
            first = self.backward(pairs, upstream, first, &mut sums)?;
        }
        let images = self.joined(&sums)?;
        let [local, local_bias, global, global_bias] = sums.weights;
        Ok([images, sums.texts, local, local_bias, global, global_bias])
    }

    /// Adds the gradients of some pairs, whose vectors begin with `first`. Returns the end of their vectors.
    fn backward(
        &self,
        pairs: &[(u32, u32)],
        upstream: &Array<f32>,
        first: usize,
        sums: &mut Sums,
    ) -> Result<usize, Error> {
        let Aligned { unit, dim, size, rows, most, .. } = *self;
        let words = pairs.iter().map(|&(_, text)| {
            self.texts.offsets[text as usize + 1] - self.texts.offsets[text as usize] - 1
        });
        let lines = words.sum::<usize>();
        let all = lines + pairs.len();
        let kept = Differences { rows: unit.empty(all * dim)?, norms: unit.empty(lines)? };
        let pass = self.pass(pairs, Some(&kept))?;
        let up = unit.empty::<f32>(all * size)?;
        let arguments =
            [(&up).into(), upstream.at(first * size).into(), pass.places().into(), size.into()];
        unit.run("gather", Unit::rows(all), &arguments)?;
        let slopes = self.through_weights(&pass, &up, sums)?;
        let of_texts = unit.empty::<f32>(all * dim)?;
        let arguments = [
            (&of_texts).into(),
            (&slopes).into(),
            (&kept.rows).into(),
            (&kept.norms).into(),
            self.texts.values.into(),
            pass.texts_of().into(),
            lines.into(),
            dim.into(),
        ];
        unit.run("differ_pairs_back", Unit::rows(all), &arguments)?;
        // The regions and words, through the weighted sums and through the weights.
        let (described, regions) = (&pass.lines, (&self.padded, dim));
        described.add_to_contexts(unit, &pass.weights, &slopes, dim, &sums.padded)?;
        let of_raw = unit.empty::<f32>(lines * rows)?;
        described.multiply_by_rows(unit, &slopes, regions, &of_raw)?;
        let arguments = [
            (&of_raw).into(),
            (&pass.weights).into(),
            (&pass.raw).into(),
            (&described.described).into(),
            (&self.attending).into(),
        ];
        let grid = Grid::blocks(pairs.len(), PAIR_THREADS).shared(12 * most * rows);
        unit.run("align_pairs_back", grid, &arguments)?;
        described.add_rows(unit, &of_raw, regions, 1.0, &of_texts)?;
        described.add_to_contexts(unit, &of_raw, &pass.words, dim, &sums.padded)?;
        let whole_of = |(pair, &(_, text)): (usize, &(u32, u32))| {
            (self.texts.offsets[text as usize] as u32, (lines + pair) as u32)
        };
        let members = described.by_word().chain(pairs.iter().enumerate().map(whole_of));
        let count = self.texts.values.len() / dim;
        unit.add(&mut sums.texts, &unit.add_rows(&of_texts, dim, members, count)?)?;
        let members = described.by_context().map(|(image, pair)| (image, pair + lines as u32));
        let of_wholes = unit.add_rows(&slopes, dim, members, self.images.len())?;
        unit.add(&mut sums.wholes, &of_wholes)?;
        Ok(first + all)
    }

    /// The gradients of squares from those of vectors, `up`; adds those of weights and biases.
    fn through_weights(
        &self,
        pass: &Pass,
        up: &Array<f32>,
        sums: &Sums,
    ) -> Result<Array<f32>, Error> {
        let Aligned { unit, dim, size, .. } = *self;
        let (lines, count) = (pass.lines.len, pass.lines.count);
        let slopes = unit.empty(pass.rows() * dim)?;
        let (of_vectors, squares) =
            (unit.factor(up, size, dim)?, unit.factor(&pass.squares, dim, size)?);
        for (part, first, count) in [(0, 0, lines), (2, lines, count)] {
            let left = of_vectors.operand(first * size, size);
            let weight = unit.factor(self.weights[part], dim, size)?;
            let to = Operand::new(&slopes, first * dim, dim);
            unit.multiply((count, dim, size), left, weight.operand(0, dim), 0.0, to)?;
            let right = squares.operand(first * dim, dim);
            let to = Operand::new(&sums.weights[part], 0, dim);
            unit.multiply((size, dim, count), left.turned(), right, 1.0, to)?;
            let bias = &sums.weights[part + 1];
            let arguments =
                [bias.into(), up.at(first * size).into(), count.into(), size.into(), 1.0f32.into()];
            unit.run("column_sums", Grid::blocks(size.div_ceil(32), 1024), &arguments)?;
        }
        Ok(slopes)
    }

    /// The gradients of images: of each that of the whole, then of the regions.
    fn joined(&self, sums: &Sums) -> Result<Array<f32>, Error> {
        let Aligned { unit, dim, rows, .. } = *self;
        let regions = self.padded.len() / dim;
        let both = unit.empty(sums.padded.len() + sums.wholes.len())?;
        both.copy_from(0, &sums.padded, 0, sums.padded.len())?;
        both.copy_from(sums.padded.len(), &sums.wholes, 0, sums.wholes.len())?;
        let spans = self.images.offsets.windows(2).enumerate();
        let order = spans
            .flat_map(|(image, span)| {
                let own = image * rows..image * rows + span[1] - span[0] - 1;
                [regions + image].into_iter().chain(own).map(|row| row as u32)
            })
            .collect();
        unit.gathered(&both, order, dim)
    }
}
