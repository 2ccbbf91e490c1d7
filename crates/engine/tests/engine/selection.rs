//! Thresholds, scores, picks and explanations.

use std::sync::Arc;

use nextpair_engine::{
    BuiltIn, CoreSet, Coverage, Draws, Error, HardNegative, Hybrid, KnownSimilarities, Picks,
    Problem, Settings, Weight, group_labels, reference, thresholds,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use crate::case::{Case, Parameters, Plain, cases, config};

/// The picks of a strategy and the reference's view, or `None` where both refuse.
fn both(case: &Case, strategy: impl Into<BuiltIn>) -> Option<(Picks, Plain)> {
    let strategy = case.strategy(strategy);
    let problem = match case.problem().and_then(|problem| problem.of_strategy(&strategy)) {
        Ok(problem) => problem,
        Err(Error::TooFewRivals { .. }) => return None,
        Err(other) => panic!("{other}"),
    };
    let picks = case.select(strategy, case.budget).unwrap();
    let rule = &problem.matching().unwrap().rule;
    let plain = case.plain(rule.anchors(), rule.rivals()).expect("the engine found thresholds");
    Some((picks, plain))
}

proptest! {
    #![proptest_config(config(300))]

    /// Pairs form a group if they share an image or a text, or if other pairs connect them.
    #[test]
    fn groups_are_what_pairs_share(
        shared in (1u32..40, 1u32..40).prop_flat_map(|(images, texts)| {
            prop::collection::vec((0..images, 0..texts), 0..50)
        }),
    ) {
        let (images, texts): (Vec<u32>, Vec<u32>) = shared.iter().copied().unzip();
        let pairs = shared.len();
        let share = |a: usize, b: usize| images[a] == images[b] || texts[a] == texts[b];
        let expected = reference::groups(pairs, share);
        prop_assert_eq!(&group_labels(pairs, [&images[..], &texts]).unwrap(), &expected);
        prop_assert_eq!(&group_labels(pairs, [&texts[..], &images]).unwrap(), &expected);
        let alone: Vec<u32> = (0..pairs as u32).collect();
        prop_assert_eq!(group_labels(pairs, []).unwrap(), alone);
        let by_image = reference::groups(pairs, |a, b| images[a] == images[b]);
        prop_assert_eq!(group_labels(pairs, [&images[..]]).unwrap(), by_image);
    }
}

#[test]
fn pairs_that_share_a_text_do_not_raise_thresholds() {
    // Pair 2 has the text of pair 0, and its image is as similar to that text as a good rival.
    let own = KnownSimilarities::new(3, vec![0.9, 0.1, 0.9, 0.2, 0.9, 0.3, 0.8, 0.1, 0.8]).unwrap();
    let own = Arc::new(own);
    let labels = [[0, 1, 2], [0, 1, 0]];
    let xi = |kinds: &[[u32; 3]]| {
        let groups = Some(group_labels(3, kinds.iter().map(|kind| &kind[..])).unwrap());
        let settings = Settings { groups, ..Settings::default() };
        let problem = Problem::of_similarities(own.clone(), own.clone()).settings(settings);
        thresholds(problem.build().unwrap().matching().unwrap(), &()).unwrap()
    };
    assert_eq!(xi(&labels[..1]), [0.8, 0.1, 0.9]);
    assert_eq!(xi(&labels), [0.2, 0.1, 0.3]);
    let few = group_labels(3, [&[0, 1][..]]).unwrap_err().to_string();
    assert_eq!(few, "2 group labels for 3 pairs; one label per pair is needed");
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn check(case: &Case) {
    let Some((picks, plain)) = both(case, HardNegative::default()) else { return };
    assert_eq!(bits(&picks.thresholds), bits(&plain.xi));
    let scores = plain.scores(case.parameters.weight, case.parameters.fill, case.budget);
    let order = reference::order(&scores);
    let expected: Vec<(u32, u64, Option<u32>)> = order[..case.budget]
        .iter()
        .map(|&i| (i as u32, scores[i].to_bits(), Some(plain.hits[i].len() as u32)))
        .collect();
    let found: Vec<(u32, u64, Option<u32>)> =
        picks.picks.iter().map(|p| (p.index, p.score.to_bits(), p.hits)).collect();
    assert_eq!(found, expected);
    let hard = plain.hits.iter().filter(|hits| !hits.is_empty()).count();
    assert_eq!(picks.hard_negatives, Some(hard as u64));
    for pick in &picks.picks {
        let mut why: Vec<(usize, f64, f64, f64, f64)> = plain.hits[pick.index as usize]
            .iter()
            .map(|&(p, s)| (plain.anchors[p], s, plain.xi[p], s - plain.xi[p], plain.own[p]))
            .collect();
        why.sort_by(|a, b| b.3.total_cmp(&a.3).then(a.0.cmp(&b.0)));
        why.truncate(case.settings.explain);
        let found: Vec<_> = pick
            .why
            .iter()
            .map(|r| (r.anchor as usize, r.similarity, r.threshold, r.surplus, r.own))
            .collect();
        assert_eq!(found, why);
    }
}

proptest! {
    #![proptest_config(crate::case::config(600))]

    #[test]
    fn hard_negative_equals_the_reference(case in cases()) {
        check(&case);
    }

    #[test]
    fn any_similarity_gives_the_same_picks(case in cases()) {
        for strategy in [HardNegative::default().into(), BuiltIn::from(Coverage::default())] {
            let embedded = case.select(strategy, case.budget);
            let strategy = case.strategy(strategy);
            let given = case.given().and_then(|p| p.select(&strategy, case.budget, &()));
            match (embedded, given) {
                (Ok(embedded), Ok(given)) => prop_assert_eq!(embedded, given),
                (embedded, given) => prop_assert!(embedded.is_err() && given.is_err()),
            }
        }
    }

    #[test]
    fn coverage_equals_plain_greedy(case in cases()) {
        if let Some((picks, plain)) = both(&case, Coverage::default()) {
            let weight = case.parameters.weight;
            let fillers = plain.scores(Weight::Surplus, case.parameters.fill, case.budget);
            let expected =
                reference::coverage(&plain.hits, &plain.xi, weight, &fillers, case.budget);
            let found: Vec<(usize, f64)> =
                picks.picks.iter().map(|p| (p.index as usize, p.score)).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn core_set_equals_plain_greedy(case in cases()) {
        let picks = case.select(CoreSet::default(), case.budget);
        if let Ok(picks) = picks {
            let (centres, items) = (case.rows(&case.rivals), case.rows(&case.pool));
            let expected = reference::k_center(&centres, &items, case.budget);
            let found: Vec<(usize, f64)> =
                picks.picks.iter().map(|p| (p.index as usize, p.score)).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn core_set_without_pairs_begins_in_the_middle(case in cases()) {
        let picks = case.unpaired()?.select(&CoreSet::default(), case.budget, &())?;
        let expected = reference::k_center(&[], &case.rows(&case.pool), case.budget);
        let found: Vec<(usize, f64)> =
            picks.picks.iter().map(|p| (p.index as usize, p.score)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn hybrid_thins_the_best_by_surplus(case in cases()) {
        if let Some((picks, plain)) = both(&case, Hybrid::default()) {
            let wanted = (3 * case.budget).min(case.pool.len() / case.dim);
            let scores = plain.scores(Weight::Surplus, case.parameters.fill, wanted);
            let mut candidates = reference::order(&scores);
            candidates.truncate(3 * case.budget);
            candidates.sort_unstable();
            let pool = case.rows(&case.pool);
            let items: Vec<Vec<f64>> = candidates.iter().map(|&i| pool[i].clone()).collect();
            let centres = case.rows(&case.rivals);
            let expected: Vec<(usize, f64)> =
                reference::k_center(&centres, &items, case.budget)
                    .into_iter()
                    .map(|(slot, distance)| (candidates[slot], distance))
                    .collect();
            let found: Vec<(usize, f64)> =
                picks.picks.iter().map(|p| (p.index as usize, p.score)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}

/// Large enough for several blocks, panels, waves and a probe of the data.
#[test]
fn large_problems_equal_the_reference_on_every_route() {
    use crate::case::{Numbers, vectors};
    use nextpair_engine::{Code, Metric, Route};
    let (pairs, items, dim) = (1300, 3300, 64);
    let routes = [
        Route::Auto,
        Route::Fixed { axes: None, code: Code::Float },
        Route::Fixed { axes: None, code: Code::Int8 },
        Route::Fixed { axes: Some(32), code: Code::Float },
        Route::Fixed { axes: Some(32), code: Code::Int8 },
    ];
    for (numbers, metric) in [
        (Numbers::Falling, Metric::Cosine),
        (Numbers::Isotropic, Metric::Cosine),
        (Numbers::Uneven, Metric::Dot),
    ] {
        let mut draws = Draws::new(3);
        let rivals = vectors(&mut draws, numbers, pairs, dim);
        let noise = vectors(&mut draws, numbers, pairs, dim);
        let anchors = rivals.iter().zip(noise).map(|(r, n)| (r + n) as f32 as f64).collect();
        let mut case = Case {
            metric,
            dim,
            anchors,
            rivals,
            pool: vectors(&mut draws, numbers, items, dim),
            settings: Settings::default(),
            parameters: Parameters { top_k: 3, ..Parameters::default() },
            route: Route::Auto,
            budget: 400,
        };
        let everyone: Vec<u32> = (0..pairs as u32).collect();
        let plain = case.plain(&everyone, &everyone).unwrap();
        let scores = plain.scores(Weight::Surplus, case.parameters.fill, 400);
        let order = reference::order(&scores);
        for route in routes {
            case.route = route;
            let picks = case.select(HardNegative::default(), 400).unwrap();
            assert_eq!(bits(&picks.thresholds), bits(&plain.xi), "{route:?} {numbers:?}");
            for (pick, &i) in picks.picks.iter().zip(&order) {
                assert_eq!(pick.index as usize, i, "{route:?} {numbers:?}");
                assert_eq!(pick.score.to_bits(), scores[i].to_bits());
            }
        }
    }
}

#[test]
fn k_center_is_exact_at_any_scale() {
    use nextpair_core::Matrix;
    use nextpair_engine::{Vectors, k_center};
    let (centres, items, dim) = (200, 40, 16);
    for exponent in [-100, -50, -40, -38, -20, 0, 20, 38, 40, 100] {
        let scale = 10f64.powi(exponent);
        let mut draws = Draws::new(1);
        let mut values =
            |n: usize| -> Vec<f64> { (0..n * dim).map(|_| draws.normal() * scale).collect() };
        let (a, b) = (values(centres), values(items));
        let rows = |v: &[f64]| v.chunks(dim).map(<[f64]>::to_vec).collect::<Vec<_>>();
        let expected = reference::k_center(&rows(&a), &rows(&b), 10);
        let (a, b) = (Matrix::from_f64(dim, &a), Matrix::from_f64(dim, &b));
        let (a, b) = (Vectors::new(a, "a").unwrap(), Vectors::new(b, "b").unwrap());
        let found: Vec<(usize, f64)> = k_center(&a, &b, 10, &())
            .unwrap()
            .into_iter()
            .map(|(index, distance)| (index as usize, distance))
            .collect();
        assert_eq!(found, expected, "scale 1e{exponent}");
    }
}

#[test]
fn any_thread_count_gives_the_same_picks() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..20 {
        let case = cases().new_tree(&mut runner).unwrap().current();
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| case.select(HardNegative::default(), case.budget).ok())
        };
        let one = with(1);
        assert_eq!(one, with(2));
        assert_eq!(one, with(5));
    }
}

#[test]
fn thresholds_come_alone_too() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let case = cases().new_tree(&mut runner).unwrap().current();
    let strategy = case.strategy(HardNegative::default());
    if let Ok(problem) = case.problem().and_then(|problem| problem.of_strategy(&strategy)) {
        let xi = thresholds(problem.matching().unwrap(), &()).unwrap();
        assert!(xi.iter().all(|x| x.is_finite()));
    }
}
