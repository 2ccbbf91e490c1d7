//! Strategies that cover points or measure what the model knows, against the reference.

use nextpair_core::Matrix;
use nextpair_engine::{
    BuiltIn, CoreSet, CoreSetMargin, Draws, Entropy, Error, Herding, LeastSimilar, Margin, Measure,
    Metric, Neighbour, Novelty, Picks, Problem, Route, Settings, reference,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use crate::case::{Case, Numbers, Parameters, cases, config, vectors};

/// Index, score and number of points of every pick.
fn found(picks: &Picks) -> Vec<(usize, f64, usize)> {
    let points = |pick: &nextpair_engine::Pick| pick.facts[0].value as usize;
    picks.picks.iter().map(|pick| (pick.index as usize, pick.score, points(pick))).collect()
}

/// Everything that the reference needs, in plain form.
struct Plain {
    pool: Vec<Vec<f64>>,
    paired: Vec<Vec<f64>>,
    /// Similarities of the pool to the anchors in scope.
    similarities: Vec<Vec<f64>>,
    scale: f64,
}

impl Plain {
    fn of(case: &Case) -> Option<Self> {
        let entropy = case.strategy(Entropy::default());
        let problem = case.problem().ok()?.of_strategy(&entropy).ok()?;
        let anchors = problem.matching().unwrap().rule.anchors().to_vec();
        let cross = case.table(&case.pool);
        let in_scope = |row: &Vec<f64>| anchors.iter().map(|&j| row[j as usize]).collect();
        Some(Plain {
            pool: case.rows(&case.pool),
            paired: case.rows(&case.rivals),
            similarities: cross.iter().map(in_scope).collect(),
            scale: problem.matching().unwrap().paired.scale(),
        })
    }

    fn entropies(&self, case: &Case) -> Vec<f64> {
        let temperature = case.parameters.temperature.unwrap_or(0.05 * self.scale);
        self.similarities.iter().map(|row| reference::entropy(row, temperature)).collect()
    }

    fn herd<'a>(&'a self, case: &Case, weights: &'a [f64]) -> reference::CoverProblem<'a> {
        reference::CoverProblem {
            pool: &self.pool,
            paired: &self.paired,
            points: case.parameters.points,
            bandwidth: case.parameters.bandwidth,
            seed: case.settings.seed,
            weights,
            paired_weight: 1.0,
            queries: None,
        }
    }

    /// 0.5 plus the rank of the entropy, from 0 to 1.
    fn novelty(&self, case: &Case) -> Vec<f64> {
        let entropies = self.entropies(case);
        let mut order: Vec<usize> = (0..entropies.len()).collect();
        order.sort_by(|&a, &b| entropies[a].total_cmp(&entropies[b]).then(a.cmp(&b)));
        let last = f64::max(1.0, entropies.len() as f64 - 1.0);
        let mut weights = vec![0.0; entropies.len()];
        order.iter().enumerate().for_each(|(rank, &i)| weights[i] = 0.5 + rank as f64 / last);
        weights
    }
}

/// The best `budget` of some scores.
fn best(scores: &[f64], budget: usize) -> Vec<(usize, f64)> {
    reference::order(scores)[..budget].iter().map(|&i| (i, scores[i])).collect()
}

fn scored(picks: &Picks) -> Vec<(usize, f64)> {
    picks.picks.iter().map(|pick| (pick.index as usize, pick.score)).collect()
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn herding_equals_plain_greedy(case in cases()) {
        if let Some(plain) = Plain::of(&case) {
            let picks = case.select(Herding::default(), case.budget).unwrap();
            let ones = vec![1.0; plain.pool.len()];
            prop_assert_eq!(found(&picks), plain.herd(&case, &ones).cover(case.budget));
        }
    }

    #[test]
    fn herding_without_pairs_equals_plain_greedy(case in cases()) {
        let picks = case.unpaired()?;
        let picks = picks.select(&case.strategy(Herding::default()), case.budget, &())?;
        let pool = case.rows(&case.pool);
        let (paired, similarities) = (Vec::new(), Vec::new());
        let plain = Plain { pool, paired, similarities, scale: 1.0 };
        let ones = vec![1.0; plain.pool.len()];
        prop_assert_eq!(found(&picks), plain.herd(&case, &ones).cover(case.budget));
    }

    #[test]
    fn novelty_equals_plain_greedy(case in cases()) {
        if let Some(plain) = Plain::of(&case) {
            let picks = case.select(Novelty::default(), case.budget).unwrap();
            let weights = plain.novelty(&case);
            let herd = plain.herd(&case, &weights);
            let herd = reference::CoverProblem { paired_weight: 0.5, ..herd };
            prop_assert_eq!(found(&picks), herd.cover(case.budget));
            for pick in &picks.picks {
                prop_assert_eq!(pick.facts[1].value + 0.5, weights[pick.index as usize]);
            }
        }
    }

    #[test]
    fn queries_weigh_the_points(case in cases(), count in 1usize..9) {
        if let Some(plain) = Plain::of(&case) {
            let mut draws = Draws::new(case.settings.seed ^ 1);
            let queries = vectors(&mut draws, Numbers::Isotropic, count, case.dim);
            let single: Vec<f32> = queries.iter().map(|&v| v as f32).collect();
            let problem = case.builder().queries(Matrix::from_vec(case.dim, single)).build()?;
            let all: Vec<Vec<f64>> = plain.pool.iter().chain(&plain.paired).cloned().collect();
            let queries = case.rows(&queries);
            let similar = |x: &Vec<f64>| {
                queries.iter().map(|y| reference::similarity(case.metric, x, y)).collect()
            };
            let similarities: Vec<Vec<f64>> = all.iter().map(similar).collect();
            let ones = vec![1.0; plain.pool.len()];
            let herd = plain.herd(&case, &ones);
            let herd = reference::CoverProblem { queries: Some(&similarities), ..herd };
            let picks = problem.select(&case.strategy(Herding::default()), case.budget, &())?;
            prop_assert_eq!(found(&picks), herd.cover(case.budget));
            let refused = problem.select(&CoreSet::default(), case.budget, &());
            let refused = matches!(refused, Err(Error::QueriesUnread { strategy: "core-set" }));
            prop_assert!(refused);
        }
    }

    #[test]
    fn entropy_margin_and_least_similar_equal_the_reference(case in cases()) {
        if let Some(plain) = Plain::of(&case) {
            let select =
                |strategy: BuiltIn| scored(&case.select(strategy, case.budget).unwrap());
            let entropies = plain.entropies(&case);
            prop_assert_eq!(select(Entropy::default().into()), best(&entropies, case.budget));
            let sorted = |row: &Vec<f64>| {
                let mut row = row.clone();
                row.sort_by(|a, b| b.total_cmp(a));
                row
            };
            let gap = |row: &Vec<f64>| {
                let row = sorted(row);
                0.0 - (row[0] - row.get(1).copied().unwrap_or(0.0))
            };
            let gaps: Vec<f64> = plain.similarities.iter().map(gap).collect();
            prop_assert_eq!(select(Margin::default().into()), best(&gaps, case.budget));
            let unlike = |row: &Vec<f64>| 0.0 - sorted(row)[0];
            let unlike: Vec<f64> = plain.similarities.iter().map(unlike).collect();
            prop_assert_eq!(select(LeastSimilar::default().into()), best(&unlike, case.budget));
            let mut candidates: Vec<usize> =
                reference::k_center(&plain.paired, &plain.pool, 3 * case.budget)
                    .into_iter()
                    .map(|(i, _)| i)
                    .collect();
            candidates.sort_unstable();
            let of_candidates: Vec<f64> = candidates.iter().map(|&i| gaps[i]).collect();
            let expected: Vec<(usize, f64)> = best(&of_candidates, case.budget)
                .into_iter()
                .map(|(at, gap)| (candidates[at], gap))
                .collect();
            prop_assert_eq!(select(CoreSetMargin::default().into()), expected);
        }
    }
}

/// Large enough for several blocks and panels, and for bounds that decide what is looked at.
#[test]
fn large_covers_equal_the_reference_and_do_not_depend_on_threads() {
    let (pairs, items, dim) = (150, 1100, 24);
    let mut draws = Draws::new(7);
    let rivals = vectors(&mut draws, Numbers::Falling, pairs, dim);
    let noise = vectors(&mut draws, Numbers::Falling, pairs, dim);
    let anchors = rivals.iter().zip(noise).map(|(r, n)| (r + n) as f32 as f64).collect();
    let mut pool = vectors(&mut draws, Numbers::Falling, items, dim);
    // Copies, and an item without a direction.
    let (first, rest) = pool.split_at_mut(200 * dim);
    rest[..200 * dim].copy_from_slice(first);
    let case = Case {
        metric: Metric::Cosine,
        dim,
        anchors,
        rivals,
        pool,
        settings: Settings::default(),
        parameters: Parameters { points: 700, ..Parameters::default() },
        route: Route::Auto,
        budget: 60,
    };
    let plain = Plain::of(&case).unwrap();
    let weights = plain.novelty(&case);
    let herd = plain.herd(&case, &weights);
    let expected = reference::CoverProblem { paired_weight: 0.5, ..herd }.cover(case.budget);
    for threads in [1, 3] {
        let threads = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let picks = threads.install(|| case.select(Novelty::default(), case.budget).unwrap());
        assert_eq!(found(&picks), expected);
    }
}

#[test]
fn impossible_settings_are_refused() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let case = cases().new_tree(&mut runner).unwrap().current();
    let with = |strategy: BuiltIn, change: &dyn Fn(&mut Parameters)| {
        let mut case = case.clone();
        change(&mut case.parameters);
        let refused = case.select(strategy, case.budget).err().unwrap().to_string();
        let checked = case.builder().check(&case.strategy(strategy)).err().unwrap();
        assert_eq!(checked.to_string(), refused);
        refused
    };
    for strategy in [Herding::default().into(), Novelty::default().into()] {
        let points = with(strategy, &|p| p.points = 0);
        assert_eq!(points, "points is 0; it must be a number above 0");
        let bandwidth = with(strategy, &|p| p.bandwidth = Some(-1.0));
        assert_eq!(bandwidth, "bandwidth is -1; it must be a number above 0");
    }
    for strategy in [Entropy::default().into(), Novelty::default().into()] {
        let temperature = with(strategy, &|p| p.temperature = Some(f64::NAN));
        assert_eq!(temperature, "entropy-temperature is NaN; it must be a number above 0");
    }
}

#[test]
fn picks_say_what_is_near() {
    let mut draws = Draws::new(23);
    let mut rows = |count: usize| -> Vec<Vec<f64>> {
        let row = |draws: &mut Draws| (0..5).map(|_| f64::from(draws.normal() as f32)).collect();
        (0..count).map(|_| row(&mut draws)).collect()
    };
    let (pool, paired) = (rows(80), rows(12));
    let mean: Vec<f64> = (0..5).map(|k| paired.iter().map(|x| x[k]).sum::<f64>() / 12.0).collect();
    let cosine = |x: &[f64], y: &[f64]| {
        let [x, y] = [x, y].map(|x| x.iter().zip(&mean).map(|(x, m)| x - m).collect::<Vec<f64>>());
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        dot(&x, &y) / (dot(&x, &x) * dot(&y, &y)).sqrt()
    };
    let matrix = |rows: &[Vec<f64>]| Matrix::from_f64(5, &rows.concat());
    let build = |paired: &[Vec<f64>]| {
        Problem::of_pool(80).features(matrix(&pool), matrix(paired)).build().unwrap()
    };
    let strategies: [&dyn nextpair_engine::Strategy; 2] =
        [&CoreSet::default(), &Herding::default()];
    for strategy in strategies {
        let picks = build(&paired).select(strategy, 9, &()).unwrap();
        for pick in &picks.picks {
            let near = pick.near[0];
            let Neighbour::Paired(row) = near.item else { panic!("{pick:?}") };
            let cosines = paired.iter().map(|y| cosine(&pool[pick.index as usize], y));
            let best = cosines.fold(f64::NEG_INFINITY, f64::max);
            assert!((near.value - best).abs() < 1e-12, "{row} {near:?} {best}");
        }
    }
    let picks = build(&paired).select(&Herding::default(), 9, &()).unwrap();
    let picked = picks.indices();
    for (at, pick) in picks.picks.iter().enumerate() {
        assert!(pick.near.len() == 4 || (at > 0 && pick.near.len() < 4), "{pick:?}");
        let shares: Vec<f64> = pick.near[1..].iter().map(|near| near.value).collect();
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
        let learns = |item: u32| pick.near.iter().any(|near| near.item == Neighbour::Pool(item));
        assert!(!picked[..=at].iter().any(|&item| learns(item)), "{pick:?}");
    }
    let effect = picks.effect.unwrap();
    let gains: f64 = picks.picks.iter().map(|pick| pick.score).sum();
    assert_eq!(effect.measure, Measure::Uncovered);
    assert!((effect.before - effect.after - gains).abs() < 1e-9, "{effect:?} {gains}");
    assert!(effect.after < effect.random && effect.random < effect.before, "{effect:?}");
    // Nothing is near where reasons are not wanted.
    let settings = Settings { explain: 0, ..Settings::default() };
    let problem = Problem::of_pool(80).features(matrix(&pool), matrix(&paired)).settings(settings);
    let plain = problem.build().unwrap().select(&Herding::default(), 9, &()).unwrap();
    assert_eq!((plain.effect, plain.indices()), (None, picks.indices()));
    assert!(plain.picks.iter().all(|pick| pick.near.is_empty()));
}
