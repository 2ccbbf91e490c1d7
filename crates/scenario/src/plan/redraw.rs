//! Splits that every seed draws anew.

use nextpair_data::dataset::{DEV, TRAIN};
use nextpair_data::draw;
use nextpair_models::Corpus;

use crate::{Error, Experiment};

/// Keeps these draws apart from others with the same seed.
const SPLITS: u64 = 0x5b;

/// The items of train, dev and test together, and how many of them each split has.
#[derive(Clone, Debug)]
pub(crate) struct Redraw {
    /// All items with both halves, ascending.
    all: Vec<usize>,
    dev: usize,
    test: usize,
}

/// The splits of a seed. Train and test are ascending; dev is as drawn, so that its first items are as
/// good as any.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Drawn {
    pub(super) train: Vec<usize>,
    pub(super) dev: Vec<usize>,
    pub(super) test: Vec<usize>,
}

impl Redraw {
    pub(super) fn new(
        experiment: &Experiment,
        corpus: &Corpus,
        train: &[usize],
        test: &[usize],
    ) -> Result<Self, Error> {
        let split = &experiment.evaluation.split;
        if [TRAIN, DEV].contains(&split.as_str()) {
            let what = format!("redraw: the test is on {split}; it needs a split of its own");
            return Err(Error::setting("splits", what));
        }
        let dev = corpus.dev_items(usize::MAX);
        let mut all = [train, &dev, test].concat();
        all.sort_unstable();
        Ok(Redraw { all, dev: dev.len(), test: test.len() })
    }

    /// Returns the items of all splits, ascending.
    pub(super) fn all(&self) -> &[usize] {
        &self.all
    }

    /// Draws the splits of a seed. They depend on the seed alone, so all strategies share them.
    pub(super) fn of_seed(&self, seed: u64) -> Drawn {
        let mut drawn: Vec<(u64, usize)> =
            self.all.iter().map(|&item| (draw::draw_of(seed, SPLITS, item as u64), item)).collect();
        drawn.sort_unstable();
        let mut drawn = drawn.into_iter().map(|(_, item)| item);
        let mut take = |count: usize| drawn.by_ref().take(count).collect::<Vec<usize>>();
        let (mut test, dev, mut train) = (take(self.test), take(self.dev), take(self.all.len()));
        test.sort_unstable();
        train.sort_unstable();
        Drawn { train, dev, test }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_of_a_seed_are_whole_and_disjoint() {
        let redraw = Redraw { all: (10..110).collect(), dev: 15, test: 25 };
        let one = redraw.of_seed(3);
        assert_eq!((one.train.len(), one.dev.len(), one.test.len()), (60, 15, 25));
        let mut all = [&one.train[..], &one.dev, &one.test].concat();
        all.sort_unstable();
        assert_eq!(all, redraw.all);
        assert!(one.test.windows(2).all(|two| two[0] < two[1]));
        assert_eq!(redraw.of_seed(3), one);
        assert_ne!(redraw.of_seed(4).test, one.test);
    }

    #[test]
    fn every_item_is_tested_about_equally_often() {
        let redraw = Redraw { all: (0..40).collect(), dev: 0, test: 10 };
        let mut counts = [0; 40];
        (0..4000).for_each(|seed| redraw.of_seed(seed).test.iter().for_each(|&i| counts[i] += 1));
        // Expected 1000 each, standard deviation 27.
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
