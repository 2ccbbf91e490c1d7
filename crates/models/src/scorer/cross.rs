//! The processor's kernels as one differentiable operation.

use std::sync::Arc;

use candle_core::{CpuStorage, CustomOp3, Layout, Shape, Tensor};
use nextpair_kernels::{self as kernels, Attention, Matcher, Ragged};

use crate::Error;
use crate::attention::Memory;
use crate::numbers::{copied, lend, storage};
use crate::ragged::Encoded;

/// Packs the weights of a direction.
pub(super) fn matcher(
    dim: usize,
    attention: Attention,
    memory: Option<&Memory>,
) -> Result<Matcher, Error> {
    let Some(memory) = memory else { return Ok(Matcher::new(dim, attention, None)?) };
    let [linear_weight, linear_bias, gate_weight, gate_bias] = memory.parts().map(copied);
    let (linear_weight, linear_bias) = (linear_weight?, linear_bias?);
    let (gate_weight, gate_bias) = (gate_weight?, gate_bias?);
    let memory = kernels::Memory {
        linear_weight: &linear_weight,
        linear_bias: &linear_bias,
        gate_weight: &gate_weight,
        gate_bias: &gate_bias,
    };
    Ok(Matcher::new(dim, attention, Some(memory))?)
}

/// The scores of pairs `(context, query)`, as they are known or computed. The gradient reaches
/// contexts, queries and memory.
pub(super) fn pair_scores(
    matcher: &Arc<Matcher>,
    memory: Option<&Memory>,
    (contexts, queries): (&Encoded, &Encoded),
    pairs: Vec<(u32, u32)>,
    known: Option<Vec<f32>>,
) -> Result<Tensor, Error> {
    // An operation takes three tensors, so the four of the memory travel as one.
    let memory = match memory {
        Some(memory) => {
            let parts = memory.parts().map(|part| part.flatten_all());
            Tensor::cat(&parts.into_iter().collect::<Result<Vec<_>, _>>()?, 0)?
        }
        None => Tensor::zeros(1, contexts.rows.dtype(), contexts.rows.device())?,
    };
    let op = PairScores {
        matcher: matcher.clone(),
        context_offsets: contexts.offsets.clone(),
        query_offsets: queries.offsets.clone(),
        pairs,
        known,
    };
    let (contexts, queries) = (contexts.rows.contiguous()?, queries.rows.contiguous()?);
    Ok(contexts.apply_op3(&queries, &memory, op)?)
}

struct PairScores {
    matcher: Arc<Matcher>,
    context_offsets: Vec<usize>,
    query_offsets: Vec<usize>,
    pairs: Vec<(u32, u32)>,
    known: Option<Vec<f32>>,
}

impl PairScores {
    fn ragged<'a>(values: &'a [f32], offsets: &'a [usize]) -> Ragged<'a> {
        let rows = offsets.last().copied().unwrap_or(0).max(1);
        Ragged { dim: values.len() / rows, values, offsets }
    }
}

impl CustomOp3 for PairScores {
    fn name(&self) -> &'static str {
        "pair-scores"
    }

    fn cpu_fwd(
        &self,
        contexts: &CpuStorage,
        context_layout: &Layout,
        queries: &CpuStorage,
        query_layout: &Layout,
        _memory: &CpuStorage,
        _memory_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        if let Some(known) = &self.known {
            return Ok((CpuStorage::F32(known.clone()), Shape::from(known.len())));
        }
        let contexts = storage(contexts, context_layout)?;
        let queries = storage(queries, query_layout)?;
        let mut out = vec![0.0; self.pairs.len()];
        let contexts = Self::ragged(contexts, &self.context_offsets);
        let queries = Self::ragged(queries, &self.query_offsets);
        self.matcher
            .pair_scores(contexts, queries, &self.pairs, &mut out)
            .map_err(candle_core::Error::wrap)?;
        Ok((CpuStorage::F32(out), Shape::from(self.pairs.len())))
    }

    fn bwd(
        &self,
        contexts: &Tensor,
        queries: &Tensor,
        memory: &Tensor,
        _scores: &Tensor,
        upstream: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let device = contexts.device();
        let upstream = copied(upstream)?;
        let gradients = lend(contexts, |contexts| {
            lend(queries, |queries| {
                let contexts = Self::ragged(contexts, &self.context_offsets);
                let queries = Self::ragged(queries, &self.query_offsets);
                let gradients = self.matcher.gradients(contexts, queries, &self.pairs, &upstream);
                gradients.map_err(candle_core::Error::wrap)
            })
        })?;
        let of_memory = match gradients.memory {
            Some(parts) => Some(Tensor::from_vec(parts.concat(), memory.shape(), device)?),
            None => None,
        };
        Ok((
            Some(Tensor::from_vec(gradients.contexts, contexts.shape(), device)?),
            Some(Tensor::from_vec(gradients.queries, queries.shape(), device)?),
            of_memory,
        ))
    }
}
