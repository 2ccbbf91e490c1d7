//! Names of pairs, as experiments and `select` write them.

use std::collections::BTreeMap;

use nextpair_data::queue::Anchor;
use nextpair_models::{Corpus, Pair};

/// The names of pairs: the id of the item, with the number of the caption if the item has several
/// pairs (`dog.jpg#2`).
pub struct PairNames<'a> {
    corpus: &'a Corpus,
    pairs: &'a [Pair],
    /// The number of pairs of every item.
    counts: BTreeMap<usize, usize>,
}

impl<'a> PairNames<'a> {
    /// Counts the pairs of every item.
    pub fn of(corpus: &'a Corpus, pairs: &'a [Pair]) -> Self {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        pairs.iter().for_each(|pair| *counts.entry(pair.item).or_default() += 1);
        PairNames { corpus, pairs, counts }
    }

    /// Returns the name of a pair.
    pub fn name(&self, pair: u32) -> String {
        let (items, pair) = (self.corpus.dataset().items(), &self.pairs[pair as usize]);
        match self.counts[&pair.item] {
            1 => items.get(pair.item).id,
            _ => {
                let (owner, at, _) = self.caption(pair);
                let item = items.get(pair.item).id;
                match owner == pair.item {
                    true => format!("{item}#{at}"),
                    // A simulated annotator may have taken the caption of another item.
                    false => format!("{item}#{}#{at}", items.get(owner).id),
                }
            }
        }
    }

    /// Returns the item that has the caption of a pair, its number there, and its text.
    fn caption(&self, pair: &Pair) -> (usize, usize, String) {
        let items = self.corpus.dataset().items();
        let owner = items.item_of_caption(pair.caption);
        let at = pair.caption - items.captions_of(owner).start;
        (owner, at, items.get(owner).captions.swap_remove(at))
    }

    /// Returns the name of a pair with its item and caption.
    pub fn anchor(&self, pair: u32) -> Anchor {
        let (items, name) = (self.corpus.dataset().items(), self.name(pair));
        let pair = &self.pairs[pair as usize];
        Anchor { name, pair: Some((items.get(pair.item).id, self.caption(pair).2)) }
    }
}
