//! Back-propagates a chunk's scores through all of its steps.

pub(super) mod attention;
mod gates;
mod queries;
mod relevance;

use std::cell::RefCell;

use crate::packed::{Packed, Tiles};

use super::Matcher;
use super::chunk::Chunk;
use super::context::Context;
use super::forward::{Product, Trace};
use super::lengths::{add_scaled, normalise_backward};
use attention::AttendBackward;
use gates::GatesBackward;
use queries::QueriesBackward;
use relevance::RelevanceBackward;

/// The part of one span in the gradient of its context at one step: one row per query, one number
/// per attended row.
pub(super) struct Pull {
    /// Attention weights.
    pub(super) weights: Vec<f32>,
    /// Gradients of the scores.
    pub(super) scores: Vec<f32>,
    /// For every query, the factor of `a aᵀ` in the gradient of the Gram matrix, with `a` its
    /// weights.
    pub(super) squares: Vec<f32>,
}

/// Output rows of a chunk, one per query.
pub(super) struct Room<'a> {
    /// Gradients of the memory's pre-activations, for every step but the last.
    pub(super) arguments: Vec<&'a mut [f32]>,
    /// The queries of every step.
    pub(super) queries: Vec<&'a mut [f32]>,
    /// Gradients of the first queries, without the part through the memory's first projection.
    pub(super) gradients: &'a mut [f32],
}

thread_local! {
    /// Scratch memory, kept because allocating it may take longer than a chunk.
    pub(super) static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

/// Scratch memory, reused for every chunk.
pub(super) struct Scratch {
    pub(super) trace: Trace,
    /// Gradient of the queries of a step.
    state: Packed,
    /// Gradient of the memory's pre-activations.
    arguments: Packed,
    /// Gradients of the scores of every span.
    scores: Vec<Packed>,
    /// Gradients of the first scores through the cosines.
    first: Vec<Packed>,
    normalised: Packed,
}

impl Scratch {
    fn new() -> Self {
        Scratch {
            trace: Trace::with_gates(),
            state: Packed::empty(),
            arguments: Packed::empty(),
            scores: Vec::new(),
            first: Vec::new(),
            normalised: Packed::empty(),
        }
    }
}

impl Matcher {
    /// Back-propagates through the steps of a chunk that [`Matcher::forward`] has just left in the
    /// trace. `upstream` is the gradient of every item's score, `turned` the transpose of the
    /// memory's query weights. Returns the [`Pull`] of every span, step by step.
    pub(super) fn backward(
        &self,
        chunk: &Chunk,
        contexts: &[&Context],
        turned: Option<&Tiles>,
        upstream: &[f32],
        scratch: &mut Scratch,
        mut room: Room<'_>,
    ) -> Vec<Vec<Pull>> {
        let Scratch { trace, state, arguments, scores, first, normalised } = scratch;
        let (steps, spans) = (self.attention.steps, chunk.spans.len());
        scores.resize_with(spans.max(scores.len()), Packed::empty);
        first.resize_with(spans.max(first.len()), Packed::empty);
        for (first, seen) in first.iter_mut().zip(&trace.steps[0].seen).take(spans) {
            first.clear(seen.scores.depth(), seen.scores.columns());
        }
        state.clear(self.dim, chunk.queries.columns());
        let mut pulls: Vec<Vec<Pull>> = (0..spans).map(|_| Vec::new()).collect();
        let mut gains = vec![0.0; chunk.norms.len()];
        let mut radial = vec![0.0; chunk.norms.len()];
        let (mut squares, mut along) = (gains.clone(), gains.clone());
        for k in (0..steps).rev() {
            let step = &trace.steps[k];
            let queries = if k == 0 { &chunk.queries } else { &step.queries };
            queries.unpack_columns(0..queries.columns(), room.queries[k]);
            let refines = if k + 1 < steps { self.memory.as_ref() } else { None };
            if let Some(memory) = refines {
                if self.attention.normalise_memory {
                    normalise_backward(state, &trace.steps[k + 1].queries, &step.lengths);
                }
                let (gates, gradient) = (&step.gates, &mut *state);
                GatesBackward { memory, gates, queries, gradient, arguments }.run();
                arguments.unpack_columns(0..queries.columns(), room.arguments[k]);
            }
            for (lanes, &upstream) in chunk.items.iter().zip(upstream) {
                let relevances = &step.relevances[lanes.clone()];
                self.attention.aggregation.gains(relevances, upstream, &mut gains[lanes.clone()]);
            }
            for (i, (span, context)) in chunk.spans.iter().zip(contexts).enumerate() {
                let (seen, gradient) = (&step.seen[i], &mut scores[i]);
                let lanes = chunk.lanes_of(span);
                RelevanceBackward {
                    context,
                    first: &trace.steps[0].seen[i].scores,
                    weights: &seen.weights,
                    norms: &chunk.norms[lanes.clone()],
                    gains: &gains[lanes.clone()],
                    squares: &mut squares[lanes.clone()],
                    radial: &mut along[lanes.clone()],
                    weights_gradient: gradient,
                    first_gradient: &mut first[i],
                }
                .run();
                if refines.is_some() {
                    for (j, panel) in span.panels.clone().enumerate() {
                        let (tiles, panel) = (context.turned_projected(), arguments.panel(panel));
                        Product { tiles, panel, add: true, out: gradient.panel_mut(j) }.run();
                    }
                }
                AttendBackward {
                    normaliser: self.attention.normaliser,
                    temperature: self.attention.temperature,
                    items: &chunk.items_of(span),
                    scores: &seen.scores,
                    weights: &seen.weights,
                    gradient,
                    normalised,
                }
                .run();
                if k == 0 {
                    gradient.add(&first[i]);
                }
                // Other lanes of the panels belong to other spans.
                let used = lanes.start + span.lanes.start..lanes.start + span.lanes.end;
                for (radial, along) in radial[used.clone()].iter_mut().zip(&along[used.clone()]) {
                    *radial += along;
                }
                pulls[i].push(Pull {
                    weights: seen.weights.rows(span.lanes.clone()),
                    scores: gradient.rows(span.lanes.clone()),
                    squares: squares[used].to_vec(),
                });
            }
            let scored = chunk.attended(|i| (&scores[i], contexts[i].turned_regions()));
            let memory = match (refines, turned) {
                (Some(_), Some(turned)) if k > 0 => Some((turned, &*arguments)),
                _ => None,
            };
            QueriesBackward { memory, scored: &scored, gradient: state }.run();
        }
        add_scaled(state, &chunk.queries, &radial);
        state.unpack_columns(0..chunk.queries.columns(), room.gradients);
        pulls.iter_mut().for_each(|steps| steps.reverse());
        pulls
    }
}
