//! The pool of a trained model: what it did not learn from.

use std::collections::BTreeMap;

use nextpair_data::Side;
use nextpair_data::dataset::TRAIN;
use nextpair_models::{Choice, Corpus, Pair};

/// An item that is not paired yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpaired {
    /// The item.
    pub item: usize,
    /// What there is of it on the pool's side: the item itself, or the caption that stands for it.
    pub own: usize,
}

/// The items of a corpus that are in none of `pairs` and have the pool's side, among those of the
/// split train or without a split. A caption stands for its item as `captions` and `seed` chose when
/// the model was trained; of all captions the first.
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

/// Item ids of pairs, with the number of the caption where an item has several pairs.
pub fn pair_names(corpus: &Corpus, pairs: &[Pair]) -> Vec<String> {
    let items = corpus.dataset().items();
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    pairs.iter().for_each(|pair| *counts.entry(pair.item).or_default() += 1);
    let name = |pair: &Pair| match counts[&pair.item] {
        1 => items.get(pair.item).id,
        _ => {
            let caption = pair.caption - items.captions_of(pair.item).start;
            format!("{}#{caption}", items.get(pair.item).id)
        }
    };
    pairs.iter().map(name).collect()
}
