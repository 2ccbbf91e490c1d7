//! The words of a dataset, split by split.

use super::WordCounts;
use crate::Progress;
use crate::dataset::{DEV, Items, TRAIN};

/// Word counts of every split, and how many words each caption has.
#[derive(Clone, Debug, Default)]
pub struct SplitWords {
    splits: Vec<(Option<String>, WordCounts)>,
    lengths: Vec<u32>,
}

impl SplitWords {
    /// Reads every caption once.
    pub fn count(items: &Items, progress: &dyn Progress) -> Self {
        progress.start("captions", items.len() as u64);
        let mut words = SplitWords {
            splits: items.splits().map(|s| (s.map(str::to_owned), WordCounts::default())).collect(),
            lengths: Vec::with_capacity(items.captions()),
        };
        for item in items.iter() {
            let of_item = |(split, _): &(Option<String>, _)| *split == item.split;
            let at = words.splits.iter().position(of_item);
            let (_, counts) = &mut words.splits[at.expect("the items know all their splits")];
            words.lengths.extend(item.captions.iter().map(|caption| counts.add(caption) as u32));
            progress.advance(1);
        }
        words
    }

    /// The splits in order of appearance; `None` are items without one.
    pub fn splits(&self) -> impl Iterator<Item = (Option<&str>, &WordCounts)> {
        self.splits.iter().map(|(split, counts)| (split.as_deref(), counts))
    }

    /// Words of each caption, in order.
    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// What a vocabulary is built of: train, then dev, never test. Where no split is called
    /// train, items without a split are what people train on.
    pub fn of_train_and_dev(&self) -> WordCounts {
        let named = self.splits().any(|(split, _)| split == Some(TRAIN));
        let mut both = WordCounts::default();
        for name in [named.then_some(TRAIN), Some(DEV)] {
            let of_name = self.splits().filter(|(split, _)| *split == name);
            of_name.for_each(|(_, counts)| both.add_all(counts));
        }
        both
    }
}
