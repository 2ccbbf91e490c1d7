//! Word counts of a dataset, by split.

use super::WordCounts;
use crate::Progress;
use crate::dataset::{DEV, Items, TRAIN};

/// Word counts of every split, and the number of words in each caption.
#[derive(Clone, Debug, Default)]
pub struct SplitWords {
    splits: Vec<(Option<String>, WordCounts)>,
    lengths: Vec<u32>,
}

impl SplitWords {
    /// Counts words, reading every caption once.
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

    /// The splits in order of appearance; `None` stands for items without a split.
    pub fn splits(&self) -> impl Iterator<Item = (Option<&str>, &WordCounts)> {
        self.splits.iter().map(|(split, counts)| (split.as_deref(), counts))
    }

    /// Number of words in each caption, in order.
    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// The counts to build a vocabulary from: train, then dev, never test. If no split is called
    /// train, items without a split are the training data.
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
