//! A selection split over shards is the selection.

use nextpair_core::{Draws, Matrix, Side};
use nextpair_engine::{BuiltIn, CoreSet, Error, HardNegative, Partial, Problem};
use proptest::prelude::*;

use crate::case::cases;

proptest! {
    #![proptest_config(crate::case::config(150))]

    #[test]
    fn any_split_gives_the_whole(case in cases(), cuts in prop::collection::vec(0.0..1.0f64, 0..4), swap: bool) {
        for strategy in BuiltIn::all().map(|strategy| case.strategy(strategy)) {
            if strategy.check_shardable().is_err() {
                continue;
            }
            let whole = case.select(strategy, case.budget);
            let pool = case.pool.len() / case.dim;
            let mut ends: Vec<usize> = cuts.iter().map(|c| (c * pool as f64) as usize).collect();
            ends.extend([0, pool]);
            ends.sort_unstable();
            let mut parts: Vec<Result<Partial, Error>> = ends
                .windows(2)
                .map(|pair| {
                    let items = pair[0] as u32..pair[1] as u32;
                    let part = case.part(items.clone())?.score(&strategy, case.budget, &())?;
                    // Narrowing a whole problem gives the same part.
                    let narrowed = case.problem()?.only(items.clone())?;
                    assert_eq!(narrowed.score(&strategy, case.budget, &())?, part);
                    // And so do its rows without the others.
                    let alone = case.alone(items.clone())?;
                    assert_eq!(alone.items(), items);
                    assert_eq!(alone.score(&strategy, case.budget, &())?, part);
                    // And so do thresholds that a part of no items brings.
                    let nothing = case.alone(0..0)?.score(&strategy, case.budget, &())?;
                    let told = alone.with_thresholds_of(&strategy, &nothing, &())?;
                    assert_eq!(told.score(&strategy, case.budget, &())?, part);
                    Ok(part)
                })
                .collect();
            if swap {
                parts.reverse();
            }
            let all = parts.into_iter().reduce(|a, b| a?.merge(b?)).unwrap();
            let split = case
                .problem()
                .and_then(|problem| problem.finish(&strategy, all?, case.budget, &()));
            match (whole, split) {
                (Ok(whole), Ok(split)) => prop_assert_eq!(whole, split),
                (Err(a), Err(b)) => prop_assert_eq!(a.to_string(), b.to_string()),
                (a, b) => prop_assert!(false, "{:?} {:?}", a, b),
            }
        }
    }
}

#[test]
fn core_set_says_why_it_cannot_be_split() {
    let error = BuiltIn::from(CoreSet::default()).check_shardable().unwrap_err().to_string();
    assert!(error.contains("core-set cannot be split into shards: every pick depends"), "{error}");
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let part = |items: std::ops::Range<u32>| Partial {
        items: vec![items],
        keep: 2,
        best: Vec::new(),
        hard_negatives: Some(0),
        anchors: vec![0],
        thresholds: vec![0.5],
        own: vec![0.75],
        hits: Vec::new(),
    };
    let overlap = part(0..5).merge(part(3..8)).unwrap_err().to_string();
    assert!(overlap.contains("item 3 is in more than one"), "{overlap}");
    let other = Partial { thresholds: vec![0.6], ..part(5..8) };
    let differ = part(0..5).merge(other).unwrap_err().to_string();
    assert!(differ.contains("different paired sets"), "{differ}");
    let other = Partial { own: vec![0.8], ..part(5..8) };
    let differ = part(0..5).merge(other).unwrap_err().to_string();
    assert!(differ.contains("different paired sets"), "{differ}");
    let gap = part(0..3).merge(part(5..8)).unwrap().check_complete(8).unwrap_err().to_string();
    assert!(gap.contains("items 3 to 4 of 8 are in none"), "{gap}");
    let tail = part(0..3).check_complete(8).unwrap_err().to_string();
    assert!(tail.contains("items 3 to 7 of 8"), "{tail}");
}

#[test]
fn thresholds_of_other_pairs_or_settings_are_refused() {
    let world = |seed: u64| {
        let mut draws = Draws::new(seed);
        let mut matrix = |rows: usize| {
            Matrix::from_vec(4, (0..4 * rows).map(|_| draws.normal() as f32).collect::<Vec<_>>())
        };
        let (images, texts, pool) = (matrix(40), matrix(40), matrix(9));
        Problem::of_embeddings(images, texts, pool, Side::Image).build().unwrap()
    };
    let with = |top_k: usize| HardNegative { top_k, ..HardNegative::default() };
    let part = world(1).score(&with(1), 3, &()).unwrap();
    let told = world(1).with_thresholds_of(&with(1), &part, &()).unwrap();
    // They are those of one strategy: another computes its own.
    for top_k in [1, 2] {
        let own = world(1).score(&with(top_k), 3, &()).unwrap();
        assert_eq!(told.score(&with(top_k), 3, &()).unwrap(), own);
    }
    let other_pairs = Partial { anchors: (0..39).collect(), ..part.clone() };
    let cut = Partial { thresholds: part.thresholds[1..].to_vec(), ..part.clone() };
    for (problem, top_k, part, says) in [
        (world(2), 1, &part, "pair 0 has the similarity"),
        (world(1), 2, &part, "pair 0 has the threshold"),
        (world(1), 1, &other_pairs, "they have 39 anchors"),
        (world(1), 1, &cut, "they have 40 anchors, or not these 40"),
    ] {
        let error = problem.with_thresholds_of(&with(top_k), part, &()).err().unwrap().to_string();
        assert!(error.contains("of other pairs or settings"), "{error}");
        assert!(error.contains(says), "{error}");
    }
}
