//! Weights of SGRAF for the CPU.

use super::{ReasoningHead, ReasoningStep, Weights};
use crate::cross::aligned::{AlignedWeights, Aligner};
use crate::cross::{Filter, Graph, Head, Reasoner};
use crate::{Attention, Error, Tensor};

/// Added to variances.
const VARIANCE: f64 = 1e-5;

pub(super) fn pack(weights: &Weights) -> Result<Reasoner, Error> {
    let Weights { similarity, head, score, .. } = weights;
    let numbers = |layer: &[Tensor; 2]| Ok::<_, Error>((layer[0].to_f32s()?, layer[1].to_f32s()?));
    let (local, global) = (numbers(&similarity.local)?, numbers(&similarity.global)?);
    let sizes @ (_, size) = similarity.sizes()?;
    let weights = AlignedWeights {
        local: &local.0,
        local_bias: &local.1,
        global: &global.0,
        global_bias: &global.1,
    };
    let aligner = Aligner::new(sizes, Attention::alignment(), weights);
    let head = match head {
        ReasoningHead::Graph(steps) => {
            let packed = |step: &ReasoningStep| {
                let (query, graph) = (numbers(&step.query)?, numbers(&step.graph)?);
                let key = step.key[0].to_f32s()?;
                Ok(Graph::new(size, (&query.0, &query.1), &key, (&graph.0, &graph.1)))
            };
            Head::Graph(steps.iter().map(packed).collect::<Result<_, Error>>()?)
        }
        ReasoningHead::Filter { attention, norm, running } => {
            let (weight, bias) = numbers(attention)?;
            let one = |tensor: &Tensor| Ok::<_, Error>(tensor.to_f64s()?[0]);
            let [gain, shift] = [one(&norm[0])?, one(&norm[1])?];
            let [mean, variance] = [one(&running[0])?, one(&running[1])?];
            let scale = gain / (variance + VARIANCE).sqrt();
            let shift = (f64::from(bias[0]) - mean) * scale + shift;
            Head::Filter(Filter { weight, scale: scale as f32, shift: shift as f32 })
        }
    };
    let (weight, bias) = numbers(score)?;
    Ok(Reasoner { aligner, head, score: (weight, bias[0]) })
}
