//! V-optimal design against the plain loop.

use nextpair_core::Matrix;
use nextpair_engine::{
    Draws, Error, Neighbour, Picks, Problem, ProblemBuilder, Spend, VOptimal, reference,
};

/// Rows of a kind: some are copies, some are the mean of all, which is 0, all may be equal.
fn rows(draws: &mut Draws, count: usize, dim: usize, kind: usize) -> Vec<Vec<f64>> {
    let mut rows: Vec<Vec<f64>> = Vec::new();
    for at in 0..count {
        let fresh: Vec<f64> = (0..dim).map(|_| f64::from((3.0 * draws.normal()) as f32)).collect();
        rows.push(match kind {
            0 => fresh,
            1 if at % 3 == 2 => rows[draws.below(at)].clone(),
            2 => fresh.iter().map(|x| x.round()).collect(),
            3 => vec![1.5; dim],
            4 => fresh.iter().map(|x| f64::from((x * 1e30) as f32)).collect(),
            5 if at % 3 == 1 => rows[at - 1].iter().map(|x| -x).collect(),
            5 if at % 3 == 2 => vec![0.0; dim],
            _ => fresh,
        });
    }
    rows
}

fn matrix(rows: &[Vec<f64>], dim: usize) -> Matrix {
    Matrix::from_vec(dim, rows.concat().into_iter().map(|x| x as f32).collect::<Vec<_>>())
}

fn problem(pool: &[Vec<f64>], paired: &[Vec<f64>]) -> ProblemBuilder {
    let dim = pool[0].len();
    Problem::of_pool(pool.len()).features(matrix(pool, dim), matrix(paired, dim))
}

fn select(pool: &[Vec<f64>], paired: &[Vec<f64>], strategy: VOptimal, budget: usize) -> Picks {
    problem(pool, paired).build().unwrap().select(&strategy, budget, &()).unwrap()
}

#[test]
fn picks_and_gains_have_the_bits_of_the_plain_loop() {
    let mut draws = Draws::new(5);
    for case in 0..300 {
        let (dim, pairs) = (1 + draws.below(24), [0, 1, 5, 30][draws.below(4)]);
        let (pool, budget) = ([1, 7, 16, 18, 60][draws.below(5)], draws.unit());
        let prior = [0.05, 0.3, 1.0, 10.0][draws.below(4)];
        let pool = rows(&mut draws, pool, dim, case % 6);
        let paired = rows(&mut draws, pairs, dim, case % 6);
        let budget = match case % 7 {
            0 => pool.len(),
            _ => 1 + (budget * (pool.len() - 1) as f64).round() as usize,
        };
        let strategy = VOptimal { prior: Some(prior), ..VOptimal::default() };
        let mut problem = problem(&pool, &paired);
        let (mut usable, mut costs): (Vec<f64>, Vec<f64>) =
            (0..pool.len()).map(|_| (draws.unit(), 0.1 + draws.below(3) as f64)).unzip();
        // The money buys at least one item.
        let mut money = 2.1 + 9.0 * draws.unit();
        // Neither, weights, costs, or both.
        let (is_weighed, is_paid) = (case % 4 % 2 == 1, case % 4 / 2 == 1);
        match is_weighed {
            true => problem = problem.usable(usable.clone()),
            false => usable.fill(1.0),
        }
        match is_paid {
            true => problem = problem.spend(Some(Spend { costs: costs.clone(), money })),
            false => (money, costs) = (pool.len() as f64, vec![1.0; pool.len()]),
        }
        let weighed = reference::DesignWeights { usable: &usable, costs: &costs, money };
        let weighed = (is_weighed || is_paid).then_some(&weighed);
        let found = problem.build().unwrap().select(&strategy, budget, &()).unwrap();
        let found: Vec<(usize, u64)> =
            found.picks.iter().map(|pick| (pick.index as usize, pick.score.to_bits())).collect();
        let expected = reference::design(&pool, &paired, weighed, prior, (&[], budget));
        let expected: Vec<(usize, u64)> =
            expected.into_iter().map(|(item, gain)| (item, gain.to_bits())).collect();
        assert_eq!(found, expected, "case {case}");
    }
}

#[test]
fn axes_keep_what_spreads() {
    // Ten dimensions that spread, and thirty that hardly do: the first ten alone decide.
    let mut draws = Draws::new(9);
    let mut wide = |count: usize| -> Vec<Vec<f64>> {
        let number = |draws: &mut Draws, k: usize| {
            f64::from((draws.normal() * if k < 10 { 1.0 } else { 1e-7 }) as f32)
        };
        (0..count).map(|_| (0..40).map(|k| number(&mut draws, k)).collect()).collect()
    };
    let (pool, paired) = (wide(200), wide(30));
    let narrow = |rows: &[Vec<f64>]| rows.iter().map(|x| x[..10].to_vec()).collect::<Vec<_>>();
    let few = select(&pool, &paired, VOptimal { dimensions: 10, ..VOptimal::default() }, 60);
    let all = select(&narrow(&pool), &narrow(&paired), VOptimal::default(), 60);
    assert_eq!(few.indices(), all.indices());
    for (few, all) in few.picks.iter().zip(&all.picks) {
        assert!((few.score - all.score).abs() < 1e-4 * all.score, "{few:?} {all:?}");
    }
}

#[test]
fn every_gain_is_nearly_the_best_of_all() {
    // Against a design that is computed again for every pick. More dimensions than items, and copies, too.
    let mut draws = Draws::new(11);
    for (case, prior) in [0.05, 0.2, 1.0, 10.0].into_iter().cycle().take(12).enumerate() {
        let (dim, kind) = [(8, 0), (40, 0), (8, 1)][case / 4];
        let pool = rows(&mut draws, 40, dim, kind);
        let paired = rows(&mut draws, [20, 5, 0][case % 3], dim, kind);
        let usable: Vec<f64> =
            (0..40).map(|_| if case % 2 == 0 { 1.0 } else { draws.unit() }).collect();
        let problem = problem(&pool, &paired).usable(usable.clone()).build().unwrap();
        let strategy = VOptimal { prior: Some(prior), ..VOptimal::default() };
        let picks = problem.select(&strategy, 30, &()).unwrap();
        let items: Vec<usize> = picks.indices().into_iter().map(|item| item as usize).collect();
        for (at, pick) in picks.picks.iter().enumerate() {
            let again = |costs: &[f64]| {
                let weighed = reference::DesignWeights { usable: &usable, costs, money: 1.0 };
                let after = (&items[..at], 1);
                reference::design(&pool, &paired, Some(&weighed), prior, after)[0].1
            };
            // All are affordable, and then the pick alone.
            let mut costs = vec![1.0; 40];
            let best = again(&costs);
            costs.fill(2.0);
            costs[items[at]] = 1.0;
            let own = again(&costs);
            assert!(best - own < 1e-9, "{case}, {at}: {own} {best}");
            assert!((own - pick.score).abs() < 1e-9, "{case}, {at}: {own} {pick:?}");
        }
    }
}

#[test]
fn picks_say_what_is_near_and_what_learns() {
    let mut draws = Draws::new(13);
    let (pool, paired) = (rows(&mut draws, 60, 6, 1), rows(&mut draws, 9, 6, 0));
    let picks = select(&pool, &paired, VOptimal::default(), 5);
    for pick in &picks.picks {
        let [nearest, learners @ ..] = &pick.near[..] else { panic!("{pick:?}") };
        assert!(matches!(nearest.item, Neighbour::Paired(row) if row < 9), "{nearest:?}");
        assert_eq!(learners.len(), 3);
        for learner in learners {
            let Neighbour::Pool(item) = learner.item else { panic!("{learner:?}") };
            assert!(item != pick.index && (0.0..=1.0).contains(&learner.value), "{learner:?}");
        }
    }
    // The first pick has copies, and what is the same learns the same.
    let first = &picks.picks[0];
    let copy =
        (0..60).find(|&i| i != first.index as usize && pool[i] == pool[first.index as usize]);
    let learns =
        |near: &nextpair_engine::Near| Some(near.item) == copy.map(|i| Neighbour::Pool(i as u32));
    assert!(copy.is_none() || first.near.iter().any(learns), "{first:?}");
    let effect = picks.effect.unwrap();
    let gains: f64 = picks.picks.iter().map(|pick| pick.score).sum();
    assert!((effect.before - effect.after - gains).abs() < 1e-12, "{effect:?} {gains}");
    assert!(effect.after < effect.random && effect.random < effect.before, "{effect:?}");
}

#[test]
fn a_random_batch_is_observed_with_the_weights_of_its_items() {
    let mut draws = Draws::new(15);
    let (pool, paired) = (rows(&mut draws, 40, 6, 0), rows(&mut draws, 9, 6, 0));
    for usable in [None, Some((0..40).map(|_| draws.unit()).collect::<Vec<f64>>())] {
        let problem = problem(&pool, &paired);
        let problem = match &usable {
            Some(usable) => problem.usable(usable.clone()),
            None => problem,
        };
        let picks = problem.build().unwrap().select(&VOptimal::default(), 40, &()).unwrap();
        // Both batches are the whole pool.
        let effect = picks.effect.unwrap();
        assert!((effect.after / effect.random - 1.0).abs() < 1e-4, "{usable:?} {effect:?}");
    }
}

#[test]
fn weights_that_are_none_are_refused() {
    let mut draws = Draws::new(17);
    let pool = rows(&mut draws, 4, 3, 0);
    let refused = |change: &dyn Fn(ProblemBuilder) -> ProblemBuilder| -> String {
        let built = change(problem(&pool, &[])).build();
        let picked = built.and_then(|problem| problem.select(&VOptimal::default(), 2, &()));
        picked.map(|picks| format!("{picks:?}")).unwrap_or_else(|error: Error| error.to_string())
    };
    let spend = |costs: &[f64], money| Some(Spend { costs: costs.to_vec(), money });
    for (costs, money, said) in [
        (&[1.0, 2.0][..], 5.0, "2 costs for 4 pool items"),
        (&[1.0, 2.0, 0.0, 1.0], 5.0, "the cost of pool item 2 is 0"),
        (&[1.0, f64::NAN, 1.0, 1.0], 5.0, "the cost of pool item 1 is NaN"),
        (&[1.0; 4], -1.0, "spend is -1; it must be a number above 0"),
        (&[3.0; 4], 2.0, "2 is too little to spend: the cheapest item costs 3"),
    ] {
        assert_eq!(refused(&|problem| problem.spend(spend(costs, money))), said);
    }
    let unlikely = vec![0.5, 1.5, 0.1, 0.2];
    assert_eq!(refused(&|p| p.usable(unlikely.clone())), "the probability of pool item 1 is 1.5");
    let says = "the probability of every pool item is 0: there is nothing to pair";
    assert_eq!(refused(&|p| p.usable(vec![0.0; 4])), says);
    let built = problem(&pool, &pool).usable(vec![0.5; 4]).build().unwrap();
    let error = built.select(&nextpair_engine::CoreSet::default(), 1, &()).unwrap_err();
    assert_eq!(error.to_string(), "core-set does not weigh items by probabilities; v-optimal does");
}

#[test]
fn pools_of_many_pieces_have_the_bits_of_the_plain_loop() {
    let mut draws = Draws::new(19);
    let (pool, paired) = (rows(&mut draws, 2500, 5, 0), rows(&mut draws, 1100, 5, 0));
    let expected = reference::design(&pool, &paired, None, 1.0, (&[], 25));
    let all: Vec<Picks> = [1, 3]
        .map(|threads| {
            let threads = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            threads.install(|| select(&pool, &paired, VOptimal::default(), 25))
        })
        .into();
    assert_eq!(all[0], all[1], "learners and effects too");
    for (pick, (item, gain)) in all[0].picks.iter().zip(expected) {
        assert_eq!((pick.index as usize, pick.score.to_bits()), (item, gain.to_bits()));
        assert_eq!(pick.near.len(), 4, "{pick:?}");
    }
}
