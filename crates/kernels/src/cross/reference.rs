//! Attention matching as it was published, in double precision, one number at a time: what the
//! fast form is held to.

use super::{Aggregation, Attention, Normaliser};

/// Weights and biases of the proposal and of the gate, in double precision.
#[derive(Clone)]
pub(super) struct PlainMemory {
    pub(super) linear: (Vec<f64>, Vec<f64>),
    pub(super) gate: (Vec<f64>, Vec<f64>),
}

type Rows = Vec<Vec<f64>>;

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// The relevance of every step of one context and the queries of one item.
pub(super) fn steps(
    attention: &Attention,
    memory: Option<&PlainMemory>,
    context: &Rows,
    queries: &Rows,
) -> Vec<f64> {
    let mut refined = queries.clone();
    let mut steps = Vec::new();
    for step in 0..attention.steps {
        let attended = attend(attention, context, &refined);
        let relevances = queries.iter().zip(&attended).map(|(q, f)| {
            let lengths = dot(q, q).sqrt() * dot(f, f).sqrt();
            dot(q, f) / lengths.max(1e-8)
        });
        steps.push(aggregate(attention.aggregation, relevances.collect()));
        if step + 1 < attention.steps {
            let memory = memory.unwrap();
            for (query, attended) in refined.iter_mut().zip(&attended) {
                *query = refine(memory, query, attended, attention.normalise_memory);
            }
        }
    }
    steps
}

fn attend(attention: &Attention, context: &Rows, queries: &Rows) -> Rows {
    let mut scores: Rows =
        queries.iter().map(|q| context.iter().map(|c| dot(q, c)).collect()).collect();
    if attention.normaliser.clips() {
        scores.iter_mut().flatten().for_each(|s| *s = s.max(0.1 * *s));
    }
    for c in 0..context.len() {
        let column: Vec<f64> = scores.iter().map(|row| row[c]).collect();
        let norm = match attention.normaliser {
            Normaliser::ClippedL2 | Normaliser::L2 => dot(&column, &column).sqrt() + 1e-8,
            Normaliser::ClippedL1 | Normaliser::L1 => {
                column.iter().map(|s| s.abs()).sum::<f64>() + 1e-8
            }
            Normaliser::Softmax => {
                scores.iter_mut().for_each(|row| row[c] = row[c].exp());
                column.iter().map(|s| s.exp()).sum()
            }
            Normaliser::Clipped | Normaliser::None => 1.0,
        };
        scores.iter_mut().for_each(|row| row[c] /= norm);
    }
    let dim = context[0].len();
    scores
        .iter()
        .map(|row| {
            let exps: Vec<f64> =
                row.iter().map(|s| (attention.temperature as f64 * s).exp()).collect();
            let sum: f64 = exps.iter().sum();
            (0..dim).map(|k| exps.iter().zip(context).map(|(e, c)| e / sum * c[k]).sum()).collect()
        })
        .collect()
}

fn aggregate(aggregation: Aggregation, relevances: Vec<f64>) -> f64 {
    match aggregation {
        Aggregation::Mean => relevances.iter().sum::<f64>() / relevances.len() as f64,
        Aggregation::Sum => relevances.iter().sum(),
        Aggregation::Max => relevances.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Aggregation::LogSumExp(factor) => {
            let factor = factor as f64;
            relevances.iter().map(|r| (factor * r).exp()).sum::<f64>().ln() / factor
        }
    }
}

fn refine(memory: &PlainMemory, query: &[f64], attended: &[f64], normalise: bool) -> Vec<f64> {
    let both = [query, attended].concat();
    let layer = |(weights, biases): &(Vec<f64>, Vec<f64>), k: usize| {
        dot(&weights[k * both.len()..][..both.len()], &both) + biases[k]
    };
    let mut refined: Vec<f64> = (0..query.len())
        .map(|k| {
            let proposal = layer(&memory.linear, k).tanh();
            let gate = 1.0 / (1.0 + (-layer(&memory.gate, k)).exp());
            gate * query[k] + (1.0 - gate) * proposal
        })
        .collect();
    if normalise {
        let norm = dot(&refined, &refined).sqrt() + 1e-8;
        refined.iter_mut().for_each(|x| *x /= norm);
    }
    refined
}
