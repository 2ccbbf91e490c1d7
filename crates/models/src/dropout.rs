//! Dropout (Srivastava, Hinton, Krizhevsky, Sutskever and Salakhutdinov, JMLR 2014) by common
//! random numbers.
//!
//! Whether a number is dropped depends on the seed, the epoch, the image or caption, and the place
//! of the number in it, and on nothing else: neither on the batch nor on the threads. Models of one
//! seed that learn from different pairs drop the same of what they share.

use nextpair_data::{Draws, Side, draw};
use nextpair_kernels::Tensor;
use nextpair_kernels::ops;

use crate::{Error, Pair};

/// The shares of numbers that training sets to zero. The others grow by `1 / (1 - share)`, so that
/// sums stay what they are on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dropout {
    /// Of features and of word vectors.
    pub inputs: f64,
    /// Of hidden units and of vectors of the joint space.
    pub states: f64,
}

/// The numbers of a model that dropout applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Features of images or captions, or word vectors.
    Inputs,
    /// Units of a hidden layer.
    Hidden,
    /// Vectors of the joint space before they are scaled to unit norm.
    States,
}

/// What to drop from a batch of pairs.
#[derive(Clone)]
pub(crate) struct Masks<'a> {
    pub(crate) dropout: Dropout,
    /// The seed of the epoch, for each member.
    pub(crate) seeds: Vec<u64>,
    /// The pairs of the first member, of the second, and so on: equally many of each.
    pub(crate) pairs: &'a [Pair],
}

impl Masks<'_> {
    /// Drops numbers of the rows of images or captions; `offsets` has the first row of each item,
    /// then the end of the last.
    pub(crate) fn applied(
        &self,
        layer: Layer,
        side: Side,
        rows: &Tensor,
        offsets: &[usize],
    ) -> Result<Tensor, Error> {
        let share = match layer {
            Layer::Inputs => self.dropout.inputs,
            Layer::Hidden | Layer::States => self.dropout.states,
        };
        self.dropped((share, layer as u64), side, rows, offsets)
    }

    /// The same for any share and purpose.
    pub(crate) fn dropped(
        &self,
        (share, purpose): (f64, u64),
        side: Side,
        rows: &Tensor,
        offsets: &[usize],
    ) -> Result<Tensor, Error> {
        if share == 0.0 {
            return Ok(rows.clone());
        }
        let (count, dim) = rows.matrix_shape()?;
        if offsets.len() != self.pairs.len() + 1 || offsets.last() != Some(&count) {
            return Err(Error::Shape {
                what: "the rows to drop numbers of".to_owned(),
                found: format!("{count} rows of {} items", offsets.len().saturating_sub(1)),
                expected: format!("those of {} pairs", self.pairs.len()),
            });
        }
        let mut streams = Vec::with_capacity(count);
        let each = self.pairs.len().div_ceil(self.seeds.len().max(1)).max(1);
        let seeds = self.seeds.iter().flat_map(|&seed| std::iter::repeat_n(seed, each));
        for ((span, pair), seed) in offsets.windows(2).zip(self.pairs).zip(seeds) {
            let draws = draws(seed, purpose, side, pair);
            let rows = 0..span[1].saturating_sub(span[0]);
            streams.extend(rows.map(|row| draws.state_after((row * dim) as u64)));
        }
        Ok(ops::dropout(rows, streams, share)?)
    }

    /// The offsets of items that have equally many rows each.
    pub(crate) fn equal_spans(&self, rows: &Tensor) -> Result<Vec<usize>, Error> {
        let count = rows.matrix_shape()?.0;
        let each = (count / self.pairs.len().max(1)).max(1);
        Ok((0..=count).step_by(each).collect())
    }

    /// The draws of image or caption `row` of the batch.
    pub(crate) fn draws(&self, purpose: u64, side: Side, row: usize) -> Option<Draws> {
        let each = self.pairs.len().div_ceil(self.seeds.len().max(1)).max(1);
        let (seed, pair) = (self.seeds.get(row / each)?, self.pairs.get(row)?);
        Some(draws(*seed, purpose, side, pair))
    }
}

/// The draws of an image or a caption.
fn draws(seed: u64, purpose: u64, side: Side, pair: &Pair) -> Draws {
    let (item, _) = side.own_and_other(pair.item, pair.caption);
    let purpose = 2 * purpose + side as u64;
    Draws::new(draw::draw_of(seed, purpose, item as u64))
}

#[cfg(test)]
mod tests {
    use nextpair_kernels::Device;

    use super::*;

    fn pairs(of: &[(usize, usize)]) -> Vec<Pair> {
        of.iter().map(|&(item, caption)| Pair { item, caption }).collect()
    }

    /// The mask of the items of a side, which have as many rows as `lengths` say.
    fn mask(of: &[Pair], layer: Layer, side: Side, lengths: &[usize], seed: u64) -> Vec<Vec<f32>> {
        let mut offsets = vec![0];
        lengths.iter().for_each(|length| offsets.push(offsets[offsets.len() - 1] + length));
        let rows = offsets[lengths.len()];
        let ones = Tensor::new(vec![1.0; rows * 50], &[rows, 50], Device::Cpu).unwrap();
        let dropout = Dropout { inputs: 0.4, states: 0.2 };
        let masks = Masks { dropout, seeds: vec![seed], pairs: of };
        let found = masks.applied(layer, side, &ones, &offsets).unwrap().to_f32s().unwrap();
        offsets.windows(2).map(|span| found[span[0] * 50..span[1] * 50].to_vec()).collect()
    }

    #[test]
    fn a_mask_is_that_of_the_item_in_any_batch() {
        let (one, other) = (pairs(&[(3, 30), (4, 41), (3, 31)]), pairs(&[(9, 90), (4, 41)]));
        for layer in [Layer::Inputs, Layer::Hidden, Layer::States] {
            let images = mask(&one, layer, Side::Image, &[2, 2, 2], 1);
            assert_eq!(images[0], images[2], "one image with two captions");
            assert_eq!(images[1], mask(&other, layer, Side::Image, &[2, 2], 1)[1]);
            let texts = mask(&one, layer, Side::Text, &[1, 3, 2], 1);
            assert_eq!(texts[1], mask(&other, layer, Side::Text, &[7, 3], 1)[1]);
            assert_ne!(texts[0], texts[2][..50]);
            assert_ne!(images, mask(&one, layer, Side::Image, &[2, 2, 2], 2), "another epoch");
        }
        // A shorter item begins as a longer one does.
        let long = mask(&one, Layer::Inputs, Side::Text, &[4, 4, 4], 1);
        assert_eq!(long[0][..50], mask(&one, Layer::Inputs, Side::Text, &[1, 1, 1], 1)[0]);
        let sides = |side| mask(&pairs(&[(5, 5)]), Layer::States, side, &[1], 1);
        assert_ne!(sides(Side::Image), sides(Side::Text));
    }

    #[test]
    fn the_share_is_dropped_and_the_rest_grows() {
        for (layer, share) in [(Layer::Inputs, 0.4), (Layer::States, 0.2)] {
            let found = mask(&pairs(&[(1, 1)]), layer, Side::Image, &[400], 3).concat();
            let dropped = found.iter().filter(|&&x| x == 0.0).count() as f64 / 20_000.0;
            assert!((dropped - share).abs() < 0.02, "{dropped}");
            assert!(
                found.iter().all(|&x| x == 0.0 || (x - 1.0 / (1.0 - share) as f32).abs() < 1e-6)
            );
        }
    }

    #[test]
    fn rows_must_be_those_of_the_pairs() {
        let rows = Tensor::new(vec![1.0; 6], &[3, 2], Device::Cpu).unwrap();
        let pairs = pairs(&[(0, 0), (1, 1)]);
        let dropout = Dropout { inputs: 0.5, states: 0.0 };
        let masks = Masks { dropout, seeds: vec![0], pairs: &pairs };
        for offsets in [vec![0, 1, 2, 3], vec![0, 1, 2]] {
            assert!(masks.applied(Layer::Inputs, Side::Image, &rows, &offsets).is_err());
        }
        assert!(masks.applied(Layer::States, Side::Image, &rows, &[0]).is_ok(), "nothing to drop");
    }
}
