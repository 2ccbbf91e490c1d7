//! The pool of a trained model: items that it was not trained on.

use nextpair_data::Side;
use nextpair_data::dataset::TRAIN;
use nextpair_models::{Choice, Corpus, Pair};

/// An item that is not paired yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpaired {
    /// The item.
    pub item: usize,
    /// The item, or the caption that represents it in a pool of texts.
    pub own: usize,
}

/// Returns the items that are in none of `pairs` and have the side of the pool, among those of the
/// split train or without a split. In a pool of texts, the caption of an item is the one that
/// `captions` and `seed` choose for training, or the first if they choose all.
pub fn unpaired(
    corpus: &Corpus,
    pairs: &[Pair],
    side: Side,
    captions: Choice,
    seed: u64,
) -> Vec<Unpaired> {
    let items = corpus.dataset().items();
    let mut paired = vec![false; items.len()];
    pairs.iter().for_each(|pair| paired[pair.item] = true);
    let one = match captions {
        Choice::All => Choice::First,
        other => other,
    };
    let own = |item: usize| match side {
        Side::Image => corpus.has_image(item).then_some(Unpaired { item, own: item }),
        Side::Text => {
            let chosen = corpus.chosen(item, one, seed);
            chosen.first().map(|pair| Unpaired { item, own: pair.caption })
        }
    };
    let to_train = |item: &usize| items.split_of(*item).is_none_or(|split| split == TRAIN);
    (0..items.len()).filter(|&item| !paired[item]).filter(to_train).filter_map(own).collect()
}
