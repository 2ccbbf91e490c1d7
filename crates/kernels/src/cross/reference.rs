//! Attention matching as published, one number at a time. Tests hold the fast form to it.

use crate::Real;

use super::{Aggregation, Attention, Normaliser};

/// Weights and biases of the proposal and of the gate.
#[derive(Clone, Copy)]
pub(crate) struct PlainMemory<'a, R> {
    pub(crate) linear_weight: &'a [R],
    pub(crate) linear_bias: &'a [R],
    pub(crate) gate_weight: &'a [R],
    pub(crate) gate_bias: &'a [R],
}

/// The relevances of one context and the queries of one item at every step; both are rows of `dim`.
pub(crate) fn steps<R: Real>(
    attention: &Attention,
    memory: Option<PlainMemory<'_, R>>,
    dim: usize,
    context: &[R],
    queries: &[R],
) -> Vec<R> {
    let context: Vec<&[R]> = context.chunks_exact(dim).collect();
    let first: Vec<&[R]> = queries.chunks_exact(dim).collect();
    let mut refined: Vec<Vec<R>> = first.iter().map(|query| query.to_vec()).collect();
    let mut steps = Vec::new();
    for step in 0..attention.steps {
        let attended = attend(attention, &context, &refined);
        let relevance = |(q, f): (&&[R], &Vec<R>)| {
            let norms = (R::dot(q, q) * R::dot(f, f)).sqrt();
            R::dot(q, f) / norms.max(R::of(1e-8))
        };
        let relevances = first.iter().zip(&attended).map(relevance).collect();
        steps.push(aggregate(attention.aggregation, relevances));
        if step + 1 < attention.steps {
            let memory = memory.expect("several steps have a memory");
            for (query, attended) in refined.iter_mut().zip(&attended) {
                *query = refine(memory, query, attended, attention.normalise_memory);
            }
        }
    }
    steps
}

/// What queries attend to.
pub(crate) fn attend<R: Real>(
    attention: &Attention,
    context: &[&[R]],
    queries: &[Vec<R>],
) -> Vec<Vec<R>> {
    let score = |query: &Vec<R>| context.iter().map(|c| R::dot(query, c)).collect();
    let mut scores: Vec<Vec<R>> = queries.iter().map(score).collect();
    if attention.normaliser.clips() {
        let leaky = |s: R| if s.value() > 0.0 { s } else { s * R::of(0.1) };
        scores.iter_mut().flatten().for_each(|s| *s = leaky(*s));
    }
    for c in 0..context.len() {
        let column: Vec<R> = scores.iter().map(|row| row[c]).collect();
        let norm = match attention.normaliser {
            Normaliser::ClippedL2 | Normaliser::L2 => R::dot(&column, &column).sqrt() + R::of(1e-8),
            Normaliser::ClippedL1 | Normaliser::L1 => {
                R::sum(column.iter().map(|s| s.abs())) + R::of(1e-8)
            }
            Normaliser::Softmax => {
                scores.iter_mut().for_each(|row| row[c] = row[c].exp());
                R::sum(column.iter().map(|s| s.exp()))
            }
            Normaliser::Clipped | Normaliser::None => R::of(1.0),
        };
        scores.iter_mut().for_each(|row| row[c] = row[c] / norm);
    }
    let attended = |row: &Vec<R>| {
        let temperature = R::of(attention.temperature.into());
        let exps: Vec<R> = shifted_exps(row.iter().map(|&s| temperature * s).collect()).0;
        let sum = R::sum(exps.iter().copied());
        let column = |k: usize| R::sum(exps.iter().zip(context).map(|(&e, c)| e / sum * c[k]));
        (0..context[0].len()).map(column).collect()
    };
    scores.iter().map(attended).collect()
}

fn aggregate<R: Real>(aggregation: Aggregation, relevances: Vec<R>) -> R {
    let count = relevances.len() as f64;
    match aggregation {
        Aggregation::Mean => R::sum(relevances) / R::of(count),
        Aggregation::Sum => R::sum(relevances),
        Aggregation::Max => relevances[1..].iter().fold(relevances[0], |max, &r| max.max(r)),
        Aggregation::LogSumExp(factor) => {
            let factor = R::of(factor.into());
            let (exps, largest) =
                shifted_exps(relevances.into_iter().map(|r| factor * r).collect());
            (R::sum(exps).ln() + R::of(largest)) / factor
        }
    }
}

fn refine<R: Real>(
    memory: PlainMemory<'_, R>,
    query: &[R],
    attended: &[R],
    normalise: bool,
) -> Vec<R> {
    let both = [query, attended].concat();
    let layer = |weights: &[R], biases: &[R], k: usize| {
        R::dot(&weights[k * both.len()..][..both.len()], &both) + biases[k]
    };
    let mixed = |k: usize| {
        let proposal = layer(memory.linear_weight, memory.linear_bias, k).tanh();
        let gate = layer(memory.gate_weight, memory.gate_bias, k).sigmoid();
        gate * query[k] + (R::of(1.0) - gate) * proposal
    };
    let mut refined: Vec<R> = (0..query.len()).map(mixed).collect();
    if normalise {
        let norm = R::dot(&refined, &refined).sqrt() + R::of(1e-8);
        refined.iter_mut().for_each(|x| *x = *x / norm);
    }
    refined
}

/// `exp(x - m)` with the largest of them, `m`, which is a constant: no sum overflows.
fn shifted_exps<R: Real>(logits: Vec<R>) -> (Vec<R>, f64) {
    let largest = logits.iter().map(|x| x.value()).fold(f64::NEG_INFINITY, f64::max);
    (logits.into_iter().map(|x| (x - R::of(largest)).exp()).collect(), largest)
}
