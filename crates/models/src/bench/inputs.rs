//! What is scored and trained on, drawn from a seed.

use nextpair_data::Draws;
use nextpair_kernels::{Device, Encoded, Tensor};

use super::{Lengths, Sizes};
use crate::{Batch, Error, Texts};

/// The shortest caption that is drawn.
const SHORTEST: usize = 4;
/// Ids below are markers.
const FIRST_WORD: usize = 4;

/// Lengths of captions.
fn lengths(sizes: &Sizes, count: usize, draws: &mut Draws) -> Vec<usize> {
    let words = sizes.words;
    let mut all = vec![words; count];
    if sizes.lengths == Lengths::Exact {
        return all;
    }
    for length in &mut all {
        let sum: usize = (0..4).map(|_| draws.below(words / 2 + 1)).sum();
        *length = sum.max(SHORTEST);
    }
    // As many words in all as captions of the same length have.
    let (mut sum, wanted) = (all.iter().sum::<usize>(), words * count);
    for at in (0..count).cycle() {
        match sum.cmp(&wanted) {
            std::cmp::Ordering::Equal => break,
            std::cmp::Ordering::Less => (all[at], sum) = (all[at] + 1, sum + 1),
            std::cmp::Ordering::Greater if all[at] > SHORTEST => {
                (all[at], sum) = (all[at] - 1, sum - 1);
            }
            std::cmp::Ordering::Greater => {}
        }
    }
    all
}

/// A number between -1 and 1.
fn number(draws: &mut Draws) -> f32 {
    (2.0 * draws.unit() - 1.0) as f32
}

/// Encoded images and captions: directions without structure.
pub(super) struct Tile {
    dim: usize,
    regions: usize,
    of_images: Vec<f32>,
    of_words: Vec<f32>,
    offsets: Vec<usize>,
}

impl Tile {
    /// So many images, and captions.
    pub(super) fn drawn(sizes: &Sizes, count: usize, draws: &mut Draws) -> Self {
        let mut offsets = vec![0];
        for length in lengths(sizes, count, draws) {
            offsets.push(offsets[offsets.len() - 1] + length);
        }
        let mut directions = |count: usize| {
            let mut values: Vec<f32> = (0..count * sizes.dim).map(|_| number(draws)).collect();
            for row in values.chunks_exact_mut(sizes.dim) {
                let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
                row.iter_mut().for_each(|x| *x /= norm);
            }
            values
        };
        Tile {
            dim: sizes.dim,
            regions: sizes.regions,
            of_images: directions(count * sizes.regions),
            of_words: directions(offsets[count]),
            offsets,
        }
    }

    /// Images, and captions.
    pub(super) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Some of the images, and the captions of the same numbers.
    pub(super) fn part(&self, which: &[usize]) -> Self {
        let Tile { dim, regions, .. } = *self;
        let each = regions * dim;
        let (mut of_images, mut of_words, mut offsets) = (Vec::new(), Vec::new(), vec![0]);
        for &at in which {
            of_images.extend_from_slice(&self.of_images[at * each..][..each]);
            let words = self.offsets[at]..self.offsets[at + 1];
            offsets.push(offsets[offsets.len() - 1] + words.len());
            of_words.extend_from_slice(&self.of_words[words.start * dim..words.end * dim]);
        }
        Tile { dim, regions, of_images, of_words, offsets }
    }

    /// Images and captions on a device.
    pub(super) fn on(&self, device: Device) -> Result<(Encoded, Encoded), Error> {
        let rows = |values: &[f32]| {
            Tensor::new(values.to_vec(), &[values.len() / self.dim, self.dim], device)
        };
        let images = Encoded::uniform(rows(&self.of_images)?, self.regions)?;
        Ok((images, Encoded { rows: rows(&self.of_words)?, offsets: self.offsets.clone() }))
    }
}

/// A batch of so many pairs, whose features are on a device.
pub(super) fn batch(sizes: &Sizes, count: usize, device: Device) -> Result<Batch, Error> {
    let draws = &mut Draws::new(2);
    let shape = [count, sizes.regions, sizes.features];
    let features = (0..shape.iter().product()).map(|_| number(draws).max(0.0)).collect();
    let words = sizes.vocabulary - FIRST_WORD;
    let captions: Vec<Vec<u32>> = lengths(sizes, count, draws)
        .into_iter()
        .map(|length| (0..length).map(|_| (FIRST_WORD + draws.below(words)) as u32).collect())
        .collect();
    Ok(Batch::new(Tensor::new(features, &shape, device)?, Texts::words(&captions)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_the_same_sum() {
        let exact = Sizes::quick();
        let drawn = Sizes { lengths: Lengths::Drawn, ..exact };
        for count in [1, 2, 7, 256] {
            assert_eq!(lengths(&exact, count, &mut Draws::new(3)), vec![12; count]);
            let found = lengths(&drawn, count, &mut Draws::new(3));
            assert_eq!(found.iter().sum::<usize>(), 12 * count);
            assert!(found.iter().all(|&length| length >= SHORTEST));
            assert!(count < 7 || found.iter().any(|&length| length != 12));
        }
    }

    #[test]
    fn parts_are_those_of_the_whole() {
        let sizes = Sizes { lengths: Lengths::Drawn, ..Sizes::quick() };
        let tile = Tile::drawn(&sizes, 6, &mut Draws::new(1));
        let part = tile.part(&[4, 1]);
        assert_eq!((tile.len(), part.len()), (6, 2));
        let words = |tile: &Tile, at: usize| {
            tile.of_words[tile.offsets[at] * tile.dim..tile.offsets[at + 1] * tile.dim].to_vec()
        };
        assert_eq!(words(&part, 0), words(&tile, 4));
        assert_eq!(words(&part, 1), words(&tile, 1));
        let each = sizes.regions * sizes.dim;
        assert_eq!(part.of_images[..each], tile.of_images[4 * each..5 * each]);
    }
}
