//! Gradients against finite differences of the published form.

use super::*;

/// Distance between the two points of a finite difference.
const STEP: f64 = 1e-5;

/// The problem in double precision: contexts, queries, and the four parts of the memory.
fn tensors(problem: &Problem) -> [Vec<f64>; 6] {
    let [lw, lb, gw, gb] = &problem.memory;
    let double = |values: &Vec<f32>| values.iter().map(|&x| x as f64).collect();
    [&problem.contexts.0, &problem.queries.0, lw, lb, gw, gb].map(double)
}

/// The weighted sum of scores whose gradients are tested.
fn loss(problem: &Problem, tensors: &[Vec<f64>; 6], pairs: &[(u32, u32)], upstream: &[f32]) -> f64 {
    let [contexts, queries, lw, lb, gw, gb] = tensors;
    let memory = [lw, lb, gw, gb].map(Vec::clone);
    let rows = |values: &[f64], of: std::ops::Range<usize>| {
        values[of.start * problem.dim..of.end * problem.dim].to_vec()
    };
    let score = |(context, item): (u32, u32)| -> f64 {
        let context = rows(contexts, problem.contexts().rows_of(context as usize));
        let item = rows(queries, problem.queries().rows_of(item as usize));
        reference::steps(&problem.attention, Some(plain(&memory)), problem.dim, &context, &item)
            .iter()
            .sum()
    };
    pairs.iter().zip(upstream).map(|(&pair, &up)| up as f64 * score(pair)).sum()
}

fn check(problem: &Problem, pairs: &[(u32, u32)], upstream: &[f32]) {
    let (contexts, queries) = (problem.contexts(), problem.queries());
    let found = problem.matcher().gradients(contexts, queries, pairs, upstream).unwrap();
    let none = [0, 1, 2, 3].map(|i| vec![0.0; problem.memory[i].len()]);
    let [lw, lb, gw, gb] = found.memory.unwrap_or(none);
    let mut moved = tensors(problem);
    for (t, found) in [found.contexts, found.queries, lw, lb, gw, gb].iter().enumerate() {
        let mut expected = Vec::new();
        for i in 0..moved[t].len() {
            let before = moved[t][i];
            let [up, down] = [STEP, -STEP].map(|by| {
                moved[t][i] = before + by;
                loss(problem, &moved, pairs, upstream)
            });
            moved[t][i] = before;
            expected.push((up - down) / (2.0 * STEP));
        }
        let largest = expected.iter().fold(0.0, |max: f64, x| max.max(x.abs()));
        for (i, (&found, expected)) in found.iter().zip(&expected).enumerate() {
            let difference = (found as f64 - expected).abs();
            assert!(
                difference <= 1e-4 * largest.max(1e-6),
                "{:?}: tensor {t}, number {i}: {found} for {expected}",
                problem.attention
            );
        }
    }
}

const PAIRS: [(u32, u32); 5] = [(1, 0), (0, 2), (0, 0), (1, 2), (0, 1)];
const UPSTREAM: [f32; 5] = [0.7, -1.0, 0.4, 1.3, 0.0];

#[test]
fn every_normaliser_and_number_of_steps_has_its_gradient() {
    for normaliser in NORMALISERS {
        for steps in 1..5 {
            for normalise_memory in [false, true].into_iter().take(steps) {
                let attention =
                    Attention { normaliser, normalise_memory, temperature: 4.0, ..usual(steps) };
                let seed = steps as u64 + 3;
                let problem = Problem::new(7, attention, &[3, 5], &[4, 1, 2], seed);
                check(&problem, &PAIRS, &UPSTREAM);
            }
        }
    }
}

#[test]
fn every_aggregation_has_its_gradient() {
    for aggregation in AGGREGATIONS {
        for steps in [1, 3] {
            let attention = Attention { aggregation, ..usual(steps) };
            let problem = Problem::new(7, attention, &[3, 4], &[4, 1, 3], 5);
            check(&problem, &PAIRS, &UPSTREAM);
        }
    }
}

#[test]
fn gradients_do_not_depend_on_threads_and_add_up() {
    let contexts: Vec<usize> = (0..150).map(|i| 1 + i * 7 % 5).collect();
    let queries: Vec<usize> = (0..40).map(|i| 1 + i * 13 % 9).collect();
    let problem = Problem::new(6, usual(3), &contexts, &queries, 8);
    let every: Vec<(u32, u32)> = (0..150).flat_map(|c| (0..40).map(move |q| (c, q))).collect();
    let upstream = numbers(every.len(), 3);
    let gradients = |pairs: &[(u32, u32)], upstream: &[f32]| {
        let (contexts, queries) = (problem.contexts(), problem.queries());
        problem.matcher().gradients(contexts, queries, pairs, upstream).unwrap()
    };
    let all = gradients(&every, &upstream);
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert_eq!(one.install(|| gradients(&every, &upstream)), all);
    let (first, second) = every.split_at(2345);
    let parts = [gradients(first, &upstream[..2345]), gradients(second, &upstream[2345..])];
    let [a, b] = parts
        .map(|g| [vec![g.contexts, g.queries], g.memory.unwrap().into_iter().collect()].concat());
    let all = [vec![all.contexts, all.queries], all.memory.unwrap().into_iter().collect()].concat();
    for ((a, b), all) in a.iter().zip(&b).zip(&all) {
        let largest = all.iter().fold(0.0, |max: f32, x| max.max(x.abs()));
        for ((a, b), all) in a.iter().zip(b).zip(all) {
            assert!((a + b - all).abs() <= 1e-4 * largest, "{a} + {b} for {all}");
        }
    }
}

#[test]
fn nothing_upstream_gives_nothing() {
    let problem = Problem::new(4, usual(2), &[3, 2], &[2, 5], 1);
    let (contexts, queries) = (problem.contexts(), problem.queries());
    let found = problem.matcher().gradients(contexts, queries, &[(1, 1)], &[0.0]).unwrap();
    assert!(found.contexts.iter().chain(&found.queries).all(|&x| x == 0.0));
    assert!(found.memory.unwrap().iter().flatten().all(|&x| x == 0.0));
    let short = problem.matcher().gradients(contexts, queries, &[(1, 1)], &[]);
    assert_eq!(
        short.unwrap_err().to_string(),
        "the gradients of the scores: 0 numbers, 1 are needed"
    );
}
