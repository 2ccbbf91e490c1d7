//! Annotators that need no people.

use nextpair_data::{Side, draw};
use nextpair_models::{Choice, Corpus, Pair};

use crate::Noise;
use crate::plan::pairs_of;

/// What draws are for, apart from other draws of the same seed.
const KIND: u64 = 0xa1;
const OTHER: u64 = 0xa2;

/// What an annotator made of a batch.
pub(crate) struct Annotated {
    pub(crate) pairs: Vec<Pair>,
    /// Pairs that were made wrong on purpose.
    pub(crate) wrong: usize,
}

/// The dataset's own other halves.
pub(crate) fn oracle(corpus: &Corpus, picked: &[usize], choice: Choice, seed: u64) -> Annotated {
    let pairs = picked.iter().flat_map(|&item| pairs_of(corpus, item, choice, seed)).collect();
    Annotated { pairs, wrong: 0 }
}

/// The dataset's own other halves, with mistakes. What happens to an item depends on the seed and
/// the item, and for swaps on who else is in the batch.
pub(crate) fn noisy(
    corpus: &Corpus,
    (picked, all, side): (&[usize], &[usize], Side),
    choice: Choice,
    seed: u64,
    noise: Noise,
) -> Annotated {
    let unit =
        |item: usize| (draw::draw_of(seed, KIND, item as u64) >> 11) as f64 / (1u64 << 53) as f64;
    let (mut pairs, mut wrong) = (Vec::new(), 0);
    let mut waiting: Option<usize> = None;
    let right = |item: usize| pairs_of(corpus, item, choice, seed);
    // The halves of `other` that belong to the picked `item`, wrongly.
    let crossed = |item: usize, other: usize| -> Vec<Pair> {
        match side {
            Side::Image => {
                right(other).into_iter().map(|pair| Pair { item, caption: pair.caption }).collect()
            }
            Side::Text => {
                right(item).into_iter().map(|pair| Pair { item: other, ..pair }).collect()
            }
        }
    };
    for &item in picked {
        let at = unit(item);
        if at < noise.wrong && all.len() > 1 {
            let other = draw::draw_of(seed, OTHER, item as u64) as usize % (all.len() - 1);
            // The place of the item itself is left out.
            let own = all.partition_point(|&candidate| candidate < item);
            let other = all[if other >= own { other + 1 } else { other }];
            let made = crossed(item, other);
            wrong += made.len();
            pairs.extend(made);
        } else if at < noise.wrong + noise.swapped {
            match waiting.take() {
                None => waiting = Some(item),
                Some(first) => {
                    let made = [crossed(first, item), crossed(item, first)].concat();
                    wrong += made.len();
                    pairs.extend(made);
                }
            }
        } else {
            pairs.extend(right(item));
        }
    }
    // One that found nobody to swap with is right after all.
    pairs.extend(waiting.into_iter().flat_map(right));
    Annotated { pairs, wrong }
}
