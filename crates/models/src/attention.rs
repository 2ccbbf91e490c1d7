//! Attention matching in plain tensor operations, as SCAN and IMRAM state it: for every device,
//! and what the processor's own kernels must equal.

use candle_core::{D, Tensor};
use nextpair_kernels::{Aggregation, Attention, Normaliser};

use crate::Error;
use crate::norm::{root, unit_rows};
use crate::ragged::{Encoded, indices};

/// Added to norms.
const EPSILON: f64 = 1e-8;
/// What softmax takes for nothing.
const NOTHING: f64 = -1e30;

/// The weights of a gated memory.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) linear_weight: Tensor,
    pub(crate) linear_bias: Tensor,
    pub(crate) gate_weight: Tensor,
    pub(crate) gate_bias: Tensor,
}

impl Memory {
    pub(crate) fn parts(&self) -> [&Tensor; 4] {
        [&self.linear_weight, &self.linear_bias, &self.gate_weight, &self.gate_bias]
    }

    /// `o = tanh(W_l [q; f] + b_l)`, `g = sig(W_g [q; f] + b_g)`, `q' = g * q + (1 - g) * o`.
    fn update(
        &self,
        queries: &Tensor,
        attended: &Tensor,
        normalise: bool,
    ) -> Result<Tensor, Error> {
        let shape = queries.dims3()?;
        let flat = |tensor: &Tensor| tensor.flatten(0, 1);
        let both = Tensor::cat(&[&flat(queries)?, &flat(attended)?], 1)?;
        let layer = |weight: &Tensor, bias: &Tensor| both.matmul(&weight.t()?)?.broadcast_add(bias);
        let proposal = layer(&self.linear_weight, &self.linear_bias)?.tanh()?;
        let gate = sigmoid(&layer(&self.gate_weight, &self.gate_bias)?)?;
        let mixed = ((gate * (flat(queries)? - &proposal)?)? + proposal)?;
        let mixed = if normalise { unit_rows(&mixed, EPSILON as f32)? } else { mixed };
        Ok(mixed.reshape(shape)?)
    }
}

/// The logistic function from tanh, which is exact enough and differentiable anywhere.
pub(crate) fn sigmoid(x: &Tensor) -> candle_core::Result<Tensor> {
    ((x * 0.5)?.tanh()? * 0.5)? + 0.5
}

/// 1 where an item has a vector, 0 where it was filled up: items by `width`.
fn mask(lengths: &[usize], width: usize, like: &Tensor) -> Result<Tensor, Error> {
    let values = lengths.iter().flat_map(|&n| (0..width).map(move |at| f32::from(at < n)));
    let mask = Tensor::from_iter(values, like.device())?.reshape((lengths.len(), width))?;
    Ok(mask.to_dtype(like.dtype())?)
}

/// The scores of pairs `(context, query)` at every step: steps times pairs.
pub(crate) fn step_scores(
    attention: &Attention,
    memory: Option<&Memory>,
    contexts: &Encoded,
    queries: &Encoded,
    pairs: &[(u32, u32)],
) -> Result<Vec<Tensor>, Error> {
    let gather = |encoded: &Encoded, items: Vec<u32>| {
        let (rows, lengths, width) = encoded.padded(&items);
        let chosen = encoded.rows.index_select(&indices(rows, encoded.rows.device())?, 0)?;
        let mask = mask(&lengths, width, &chosen)?;
        Ok::<_, Error>((chosen.reshape((items.len(), width, ()))?, mask))
    };
    let (context, context_mask) = gather(contexts, pairs.iter().map(|pair| pair.0).collect())?;
    let (first, query_mask) = gather(queries, pairs.iter().map(|pair| pair.1).collect())?;
    let absent = ((context_mask.unsqueeze(1)? - 1.0)? * -NOTHING)?;
    let counts = query_mask.sum(1)?;
    let mut query = first.clone();
    let mut scores = Vec::new();
    for step in 0..attention.steps {
        let raw = query.matmul(&context.t()?)?;
        let normal = normalised(attention.normaliser, &raw, &query_mask.unsqueeze(2)?)?;
        let logits = (normal * f64::from(attention.temperature))?.broadcast_add(&absent)?;
        let attended = softmax(&logits, 2)?.matmul(&context)?;
        let relevance = cosine(&first, &attended)?;
        scores.push(aggregated(attention.aggregation, &relevance, &query_mask, &counts)?);
        if step + 1 < attention.steps {
            let memory =
                memory.ok_or_else(|| Error::setting("steps", "more than one, no memory"))?;
            query = memory.update(&query, &attended, attention.normalise_memory)?;
        }
    }
    Ok(scores)
}

/// Raw scores normalised over the queries of one item; filled-up queries count for nothing.
fn normalised(normaliser: Normaliser, raw: &Tensor, mask: &Tensor) -> Result<Tensor, Error> {
    use Normaliser::{Clipped, ClippedL1, ClippedL2, L1, L2, None, Softmax};
    let clipped = matches!(normaliser, Clipped | ClippedL1 | ClippedL2);
    // leaky(s) with slope 0.1; its derivative at 0 is 0.1.
    let raw = if clipped { ((raw.relu()? * 0.9)? + (raw * 0.1)?)? } else { raw.clone() };
    Ok(match normaliser {
        Clipped | None => raw,
        L2 | ClippedL2 => {
            let norm = root(raw.broadcast_mul(mask)?.sqr()?.sum_keepdim(1)?)?;
            raw.broadcast_div(&(norm + EPSILON)?)?
        }
        L1 | ClippedL1 => {
            let norm = raw.broadcast_mul(mask)?.abs()?.sum_keepdim(1)?;
            raw.broadcast_div(&(norm + EPSILON)?)?
        }
        Softmax => softmax(&raw.broadcast_add(&((mask - 1.0)? * -NOTHING)?)?, 1)?,
    })
}

fn softmax(logits: &Tensor, axis: usize) -> Result<Tensor, Error> {
    let shifted = logits.broadcast_sub(&logits.max_keepdim(axis)?.detach())?.exp()?;
    Ok(shifted.broadcast_div(&shifted.sum_keepdim(axis)?)?)
}

/// `x . y / max(|x| |y|, 1e-8)` along the last axis.
fn cosine(x: &Tensor, y: &Tensor) -> Result<Tensor, Error> {
    let product = (x * y)?.sum(D::Minus1)?;
    let norms = root((x.sqr()?.sum(D::Minus1)? * y.sqr()?.sum(D::Minus1)?)?)?;
    Ok((product / norms.maximum(EPSILON)?)?)
}

fn aggregated(
    aggregation: Aggregation,
    relevance: &Tensor,
    mask: &Tensor,
    counts: &Tensor,
) -> Result<Tensor, Error> {
    Ok(match aggregation {
        Aggregation::Mean => ((relevance * mask)?.sum(1)? / counts)?,
        Aggregation::Sum => (relevance * mask)?.sum(1)?,
        Aggregation::Max => (relevance + ((mask - 1.0)? * -NOTHING)?)?.max(1)?,
        Aggregation::LogSumExp(scale) => {
            let scale = f64::from(scale);
            (((relevance * scale)?.exp()? * mask)?.sum(1)?.log()? / scale)?
        }
    })
}
