//! The fast form against the published one.

mod gradients;

use nextpair_core::Draws;
use proptest::prelude::*;

use super::reference::{self, PlainMemory};
use super::*;

pub(super) const NORMALISERS: [Normaliser; 7] = [
    Normaliser::ClippedL2,
    Normaliser::L2,
    Normaliser::ClippedL1,
    Normaliser::L1,
    Normaliser::Clipped,
    Normaliser::Softmax,
    Normaliser::None,
];
pub(super) const AGGREGATIONS: [Aggregation; 4] =
    [Aggregation::Mean, Aggregation::Sum, Aggregation::Max, Aggregation::LogSumExp(6.0)];

/// Pseudo-random contexts, queries and weights, of about the sizes that models have.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) dim: usize,
    pub(super) attention: Attention,
    pub(super) contexts: (Vec<f32>, Vec<usize>),
    pub(super) queries: (Vec<f32>, Vec<usize>),
    pub(super) memory: [Vec<f32>; 4],
}

/// Pseudo-random numbers in -1 to 1.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32 / (1 << 23) as f32) - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// Items with these numbers of rows, of unit norm or not.
fn items(sizes: &[usize], dim: usize, seed: u64, unit: bool) -> (Vec<f32>, Vec<usize>) {
    let mut offsets = vec![0];
    sizes.iter().for_each(|size| offsets.push(offsets[offsets.len() - 1] + size));
    let mut values = numbers(offsets[sizes.len()] * dim, seed);
    // Give all rows something in common, so that they do not cancel out in the mean. A norm near
    // zero has no accurate digits, and neither has a cosine with it.
    values.iter_mut().for_each(|x| *x += 0.5);
    for (i, row) in values.chunks_mut(dim).enumerate() {
        let length = if unit { 1.0 } else { 0.5 + 0.3 * (i % 5) as f32 };
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        row.iter_mut().for_each(|x| *x *= length / norm);
    }
    (values, offsets)
}

impl Problem {
    pub(super) fn new(
        dim: usize,
        attention: Attention,
        contexts: &[usize],
        queries: &[usize],
        seed: u64,
    ) -> Self {
        let scale = 1.5 / (2.0 * dim as f32).sqrt();
        let sizes = [2 * dim * dim, dim, 2 * dim * dim, dim];
        let memory = [0, 1, 2, 3].map(|i| {
            let mut weights = numbers(sizes[i], seed * 7 + i as u64 + 3);
            weights.iter_mut().for_each(|x| *x *= scale);
            weights
        });
        Problem {
            dim,
            attention,
            contexts: items(contexts, dim, seed * 7 + 1, seed.is_multiple_of(2)),
            queries: items(queries, dim, seed * 7 + 2, !seed.is_multiple_of(3)),
            memory,
        }
    }

    pub(super) fn matcher(&self) -> Matcher {
        let [linear_weight, linear_bias, gate_weight, gate_bias] = &self.memory;
        let memory = Memory { linear_weight, linear_bias, gate_weight, gate_bias };
        Matcher::new(self.dim, self.attention, Some(memory)).unwrap()
    }

    pub(super) fn contexts(&self) -> Ragged<'_> {
        Ragged { dim: self.dim, values: &self.contexts.0, offsets: &self.contexts.1 }
    }

    pub(super) fn queries(&self) -> Ragged<'_> {
        Ragged { dim: self.dim, values: &self.queries.0, offsets: &self.queries.1 }
    }

    pub(super) fn plain_memory(&self) -> [Vec<f64>; 4] {
        self.memory.clone().map(|w| w.iter().map(|&x| x as f64).collect())
    }

    fn scores(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.contexts().len() * self.queries().len()];
        self.matcher().scores(self.contexts(), self.queries(), &mut out).unwrap();
        out
    }
}

pub(super) fn plain(parts: &[Vec<f64>; 4]) -> PlainMemory<'_, f64> {
    let [linear_weight, linear_bias, gate_weight, gate_bias] = parts;
    PlainMemory { linear_weight, linear_bias, gate_weight, gate_bias }
}

pub(super) fn plain_rows(items: Ragged<'_>, item: usize) -> Vec<f64> {
    items.values_of(item).iter().map(|&x| x as f64).collect()
}

fn check(problem: &Problem, tolerance: f64) {
    let (contexts, queries) = (problem.contexts(), problem.queries());
    let (steps, pairs) = (problem.attention.steps, contexts.len() * queries.len());
    let mut by_step = vec![0.0; steps * pairs];
    problem.matcher().all_pairs(contexts, queries, |context, item, scores| {
        for (step, score) in scores.iter().enumerate() {
            by_step[step * pairs + context * queries.len() + item] = *score as f32;
        }
    });
    let scores = problem.scores();
    let memory = problem.plain_memory();
    for pair in 0..pairs {
        let context = plain_rows(contexts, pair / queries.len());
        let item = plain_rows(queries, pair % queries.len());
        let exact = |context: &[f64], item: &[f64]| {
            reference::steps(&problem.attention, Some(plain(&memory)), problem.dim, context, item)
        };
        let expected = exact(&context, &item);
        let off = |step: usize| (by_step[step * pairs + pair] as f64 - expected[step]).abs();
        let mut allowed = vec![tolerance; steps];
        if (0..steps).any(|step| off(step) >= tolerance) {
            // Where all raw scores of a row are nearly 0, normalising them magnifies rounding.
            // Allow an error as large as the exact score moves with the last digits of its inputs.
            for seed in 0..4 {
                let moved =
                    exact(&rounded_otherwise(&context, seed), &rounded_otherwise(&item, seed));
                for ((allowed, moved), expected) in allowed.iter_mut().zip(moved).zip(&expected) {
                    *allowed = allowed.max(tolerance + 20.0 * (moved - expected).abs());
                }
            }
        }
        for (step, allowed) in allowed.iter().enumerate() {
            assert!(off(step) < *allowed, "step {step}: {} off {}", off(step), expected[step]);
        }
        let sum: f64 = expected.iter().sum();
        assert!((scores[pair] as f64 - sum).abs() < allowed.iter().sum::<f64>());
    }
}

/// The same rows with other last digits of single precision.
fn rounded_otherwise(rows: &[f64], seed: u64) -> Vec<f64> {
    let mut draws = Draws::new(seed);
    let digit = |x: &f64| x * (1.0 + (draws.unit() - 0.5) * f64::from(f32::EPSILON));
    rows.iter().map(digit).collect()
}

fn attention() -> impl Strategy<Value = Attention> {
    let choices = (0..NORMALISERS.len(), 0..AGGREGATIONS.len(), 1..5usize, any::<bool>());
    choices.prop_map(|(normaliser, aggregation, steps, normalise_memory)| Attention {
        temperature: 9.0,
        normaliser: NORMALISERS[normaliser],
        aggregation: AGGREGATIONS[aggregation],
        steps,
        normalise_memory,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn scores_are_those_of_the_published_form(
        attention in attention(),
        dim in 8..70usize,
        contexts in prop::collection::vec(1..40usize, 1..5),
        queries in prop::collection::vec(1..40usize, 1..8),
        seed in 0..1000u64,
    ) {
        let problem = Problem::new(dim, attention, &contexts, &queries, seed);
        // A sum has as many relevances as there are queries.
        let sum = if attention.aggregation == Aggregation::Sum { 40.0 } else { 1.0 };
        check(&problem, 2e-6 * sum);
    }
}

pub(super) fn usual(steps: usize) -> Attention {
    Attention {
        temperature: 9.0,
        normaliser: Normaliser::ClippedL2,
        aggregation: Aggregation::Mean,
        steps,
        normalise_memory: false,
    }
}

#[test]
fn every_choice_is_tried_at_a_usual_size() {
    for normaliser in NORMALISERS {
        for normalise_memory in [false, true] {
            let attention = Attention { normaliser, normalise_memory, ..usual(3) };
            check(&Problem::new(128, attention, &[36, 36], &[14, 9, 30], 6), 2e-6);
        }
    }
}

#[test]
fn a_pair_has_the_same_bits_in_any_company() {
    let contexts: Vec<usize> = (0..7).map(|i| 1 + i * 17 % 37).collect();
    let queries: Vec<usize> = (0..90).map(|i| 1 + i * 13 % 23).collect();
    for steps in [1, 3] {
        let attention = Attention { normalise_memory: true, ..usual(steps) };
        let problem = Problem::new(48, attention, &contexts, &queries, 4);
        let (matcher, all) = (problem.matcher(), problem.scores());
        let (contexts, queries) = (problem.contexts(), problem.queries());
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(one.install(|| problem.scores()), all);
        let pairs: Vec<(u32, u32)> =
            (0..700).map(|i| ((i * i * 31 % 7) as u32, (i * 37 % 90) as u32)).collect();
        let mut some = vec![0.0; pairs.len()];
        matcher.pair_scores(contexts, queries, &pairs, &mut some).unwrap();
        for (&(context, item), &score) in pairs.iter().zip(&some) {
            let (context, item) = (context as usize, item as usize);
            assert_eq!(score, all[context * queries.len() + item]);
        }
        for (context, item) in [(0, 0), (3, 40), (6, 89)] {
            let only = [0, contexts.rows_of(context).len()];
            let context_alone =
                Ragged { dim: 48, values: contexts.values_of(context), offsets: &only };
            let only = [0, queries.rows_of(item).len()];
            let item_alone = Ragged { dim: 48, values: queries.values_of(item), offsets: &only };
            let mut alone = [0.0];
            matcher.scores(context_alone, item_alone, &mut alone).unwrap();
            assert_eq!(alone[0], all[context * queries.len() + item]);
        }
    }
}

#[test]
fn more_than_a_block_is_scored() {
    let problem = Problem::new(2, usual(2), &[1; 300], &[41; 120], 2);
    let all = problem.scores();
    let pairs = [(299, 119), (0, 119), (299, 0), (255, 99), (256, 100)];
    let mut some = [0.0; 5];
    let (contexts, queries) = (problem.contexts(), problem.queries());
    problem.matcher().pair_scores(contexts, queries, &pairs, &mut some).unwrap();
    for ((context, item), score) in pairs.into_iter().zip(some) {
        assert_eq!(score, all[context as usize * 120 + item as usize]);
    }
    let every: Vec<(u32, u32)> = (0..300).flat_map(|c| (0..120).map(move |q| (c, q))).collect();
    let mut some = vec![0.0; every.len()];
    problem.matcher().pair_scores(contexts, queries, &every, &mut some).unwrap();
    assert_eq!(some, all);
}

#[test]
fn bad_input_is_refused() {
    let problem = Problem::new(4, usual(2), &[3, 2], &[2, 5], 1);
    let (contexts, queries) = (problem.contexts(), problem.queries());
    let matcher = problem.matcher();
    let mut out = [0.0; 4];
    let mut refused = |contexts: Ragged<'_>, queries: Ragged<'_>| {
        matcher.scores(contexts, queries, &mut out).unwrap_err().to_string()
    };
    let empty = Ragged { offsets: &[0, 2, 2, 7], ..queries };
    assert_eq!(refused(contexts, empty), "the queries: item 1 has no rows; at least one is needed");
    let late = Ragged { offsets: &[1, 5], ..contexts };
    assert_eq!(
        refused(late, queries),
        "the contexts: the offsets speak of 5 rows of 4 from 0 on, there are 20 numbers"
    );
    let narrow = Ragged { dim: 2, ..queries };
    assert_eq!(
        refused(contexts, narrow),
        "the queries have 2 dimensions but the matcher's vectors have 4"
    );
    let short = matcher.scores(contexts, queries, &mut [0.0; 3]).unwrap_err().to_string();
    assert_eq!(short, "the scores: 3 numbers, 4 are needed");
    let pairs = [(0, 0), (2, 1)];
    let far = matcher.pair_scores(contexts, queries, &pairs, &mut [0.0; 2]).unwrap_err();
    assert_eq!(
        far.to_string(),
        "the contexts of the pairs: index 2 at position 1 is out of range, there are 2"
    );
    let alone = |dim, attention| Matcher::new(dim, attention, None).unwrap_err().to_string();
    assert_eq!(alone(4, usual(0)), "0 matching steps; at least one is needed");
    assert_eq!(alone(4, usual(2)), "2 matching steps need the weights of a memory");
    assert_eq!(alone(0, usual(1)), "vectors of 0 dimensions cannot be matched");
    let infinite = Attention { temperature: f32::INFINITY, ..usual(1) };
    assert_eq!(alone(4, infinite), "the temperature is inf; a finite number is needed");
}
