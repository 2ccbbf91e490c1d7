//! Simulated annotators.

use nextpair_data::{Side, draw};
use nextpair_models::{Choice, Corpus, Pair};

use crate::Noise;

/// Keeps these draws apart from others with the same seed.
const KIND: u64 = 0xa1;
const OTHER: u64 = 0xa2;

/// A batch after annotation.
pub(crate) struct Annotated {
    pub(crate) pairs: Vec<Pair>,
    /// Number of pairs made wrong on purpose.
    pub(crate) wrong: usize,
}

/// Pairs items with their own other halves from the dataset.
pub(crate) fn oracle(corpus: &Corpus, picked: &[usize], choice: Choice, seed: u64) -> Annotated {
    let pairs = picked.iter().flat_map(|&item| corpus.chosen(item, choice, seed)).collect();
    Annotated { pairs, wrong: 0 }
}

/// Pairs items with their own other halves, with mistakes. The kind of mistake depends on the seed
/// and the item. The partner of a swap also depends on the rest of the batch.
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
    let right = |item: usize| corpus.chosen(item, choice, seed);
    // Wrong pairs of the picked `item` with the halves of `other`.
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
            // Skip the item itself.
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
    // An item left without a partner to swap with is paired correctly.
    pairs.extend(waiting.into_iter().flat_map(right));
    Annotated { pairs, wrong }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nextpair_data::dataset::Dataset;
    use nextpair_data::import::import_scenes;
    use nextpair_data::scenes::Settings;
    use nextpair_data::text::Vocabulary;

    use super::*;

    const ITEMS: usize = 600;

    fn corpus(test: impl FnOnce(&Corpus)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ds");
        import_scenes(&Settings { images: ITEMS, ..Settings::default() }, &path, &()).unwrap();
        let vocabulary = Vocabulary::build(["A star ."], 1);
        test(&Corpus::of_words(Dataset::open(&path).unwrap(), None, &vocabulary).unwrap());
    }

    fn is_wrong(corpus: &Corpus, pair: &Pair) -> bool {
        corpus.dataset().items().item_of_caption(pair.caption) != pair.item
    }

    #[test]
    fn mistakes_are_as_many_as_asked_for() {
        corpus(|corpus| {
            let all: Vec<usize> = (0..ITEMS).collect();
            for (side, wrong, swapped) in [
                (Side::Image, 0.3, 0.0),
                (Side::Image, 0.0, 0.4),
                (Side::Text, 0.2, 0.2),
                (Side::Text, 0.0, 0.0),
                (Side::Image, 1.0, 0.0),
            ] {
                let noise = Noise { wrong, swapped };
                let mut count = 0;
                for seed in 0..10 {
                    let made = noisy(corpus, (&all, &all, side), Choice::Random, seed, noise);
                    assert_eq!(made.pairs.len(), ITEMS);
                    let found = made.pairs.iter().filter(|pair| is_wrong(corpus, pair)).count();
                    assert_eq!(found, made.wrong);
                    count += found;
                }
                // Six thousand draws: four standard deviations are less than 0.03.
                let share = count as f64 / (10 * ITEMS) as f64;
                assert!((share - wrong - swapped).abs() < 0.03, "{share} of {noise:?}");
            }
        });
    }

    #[test]
    fn the_picked_half_is_kept_and_the_other_one_is_wrong() {
        corpus(|corpus| {
            let all: Vec<usize> = (0..ITEMS).collect();
            let picked: Vec<usize> = (0..ITEMS).step_by(3).collect();
            let owner = |pair: &Pair| corpus.dataset().items().item_of_caption(pair.caption);
            let noise = Noise { wrong: 0.3, swapped: 0.3 };
            for (side, choice) in [(Side::Image, Choice::All), (Side::Text, Choice::First)] {
                let of = |batch: &[usize]| noisy(corpus, (batch, &all, side), choice, 5, noise);
                let kept = |pair: &Pair| if side == Side::Image { pair.item } else { owner(pair) };
                let made = of(&picked);
                let items: BTreeSet<usize> = made.pairs.iter().map(kept).collect();
                assert!(items.into_iter().eq(picked.iter().copied()), "{side}");
                // Mistakes of the first kind do not depend on the rest of the batch.
                let alone = |noise: Noise| {
                    let one =
                        |&item: &usize| noisy(corpus, (&[item], &all, side), choice, 5, noise);
                    picked.iter().map(|item| one(item).wrong).sum::<usize>()
                };
                assert!(alone(noise) < made.wrong, "nobody to swap with");
                assert_eq!(alone(noise), alone(Noise { swapped: 0.0, ..noise }));
            }
            let right = oracle(corpus, &picked, Choice::All, 5);
            assert!(!right.pairs.iter().any(|pair| is_wrong(corpus, pair)));
            assert_eq!((right.wrong, right.pairs.len()), (0, picked.len() * 5));
        });
    }
}
