//! All matching steps of the queries of a chunk.

use std::cell::RefCell;
use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use crate::packed::{Packed, Tiles, VECTORS, panel_product};

use super::Matcher;
use super::chunk::{Chunk, Span};
use super::context::Context;
use super::lengths::normalise;
use super::update::Update;

thread_local! {
    /// Memory for scoring, kept because a chunk may be over sooner than memory is had.
    pub(super) static TRACE: RefCell<Trace> = RefCell::default();
}

/// What happened to the queries of a chunk, step by step. Its memory is used again.
#[derive(Default)]
pub(super) struct Trace {
    pub(super) steps: Vec<Step>,
    /// Whether proposals and gates are kept.
    keeps_gates: bool,
    /// What the rows of a context have in common with the attended vectors.
    overlaps: Vec<f32>,
}

/// One matching step.
pub(super) struct Step {
    /// The queries of this step; those of the first one are the chunk's.
    pub(super) queries: Packed,
    /// What they saw, for every span.
    pub(super) seen: Vec<Seen>,
    /// How well they agree with what they attended to, by lanes.
    pub(super) relevances: Vec<f32>,
    /// Proposals and gates on the way to the next step, if they are kept.
    pub(super) gates: Packed,
    /// The lengths of the next queries before they were normalised, if they were.
    pub(super) lengths: Vec<f32>,
}

/// What the queries of a span see of their context: a line for every attended row.
pub(super) struct Seen {
    /// The products with the rows.
    pub(super) scores: Packed,
    /// The attention weights.
    pub(super) weights: Packed,
}

impl Step {
    fn new() -> Self {
        Step {
            queries: Packed::empty(),
            seen: Vec::new(),
            relevances: Vec::new(),
            gates: Packed::empty(),
            lengths: Vec::new(),
        }
    }
}

impl Trace {
    /// One that keeps what gradients need.
    pub(super) fn with_gates() -> Self {
        Trace { keeps_gates: true, ..Trace::default() }
    }

    fn prepare(&mut self, steps: usize, chunk: &Chunk) {
        self.steps.resize_with(self.steps.len().max(steps), Step::new);
        for step in &mut self.steps {
            let spans = chunk.spans.len().max(step.seen.len());
            let seen = || Seen { scores: Packed::empty(), weights: Packed::empty() };
            step.seen.resize_with(spans, seen);
            step.relevances.resize(chunk.norms.len(), 0.0);
        }
    }
}

impl Matcher {
    /// Writes the relevance of every step and item of a chunk to `out`, steps x items. There is
    /// one context for every span.
    pub(super) fn forward(
        &self,
        chunk: &Chunk,
        contexts: &[&Context],
        trace: &mut Trace,
        out: &mut [f64],
    ) {
        trace.prepare(self.attention.steps, chunk);
        let Trace { steps, overlaps, keeps_gates } = trace;
        for (k, out) in out.chunks_exact_mut(chunk.items.len()).enumerate() {
            let (past, future) = steps.split_at_mut(k + 1);
            let (first, now) = past.split_at_mut(k.min(1));
            let now =
                now.last_mut().expect("steps 0 to k, without the first unless it is this one");
            let queries = if k == 0 { &chunk.queries } else { &now.queries };
            for (i, (span, context)) in chunk.spans.iter().zip(contexts).enumerate() {
                let Seen { scores, weights } = &mut now.seen[i];
                score(context, queries, span, scores);
                self.attention.weigh(&chunk.items_of(span), scores, weights);
                let first = first.first().map_or(&*scores, |step| &step.seen[i].scores);
                let lanes = chunk.lanes_of(span);
                Relevance {
                    context,
                    first,
                    weights,
                    lanes: span.lanes.clone(),
                    norms: &chunk.norms[lanes.clone()],
                    overlaps,
                    relevances: &mut now.relevances[lanes],
                }
                .run();
            }
            for (out, lanes) in out.iter_mut().zip(&chunk.items) {
                *out = self.attention.aggregation.of(&now.relevances[lanes.clone()]);
            }
            if let (Some(next), Some(memory)) = (future.first_mut(), &self.memory)
                && k + 1 < self.attention.steps
            {
                let seen = &now.seen;
                let attended = chunk.attended(|i| (&seen[i].weights, contexts[i].projected()));
                Update {
                    memory,
                    started: (k == 0).then_some(&chunk.started),
                    attended: &attended,
                    from: queries,
                    to: &mut next.queries,
                    gates: keeps_gates.then_some(&mut now.gates),
                }
                .run();
                if self.attention.normalise_memory {
                    now.lengths = normalise(&mut next.queries);
                }
            }
        }
    }
}

/// The products of the rows of a context with the queries of a span.
fn score(context: &Context, queries: &Packed, span: &Span, scores: &mut Packed) {
    scores.shape(context.rows, span.lanes.end);
    for (i, panel) in span.panels.clone().enumerate() {
        let panel = queries.panel(panel);
        Product { tiles: &context.regions, panel, add: false, out: scores.panel_mut(i) }.run();
    }
}

/// The product of tiles and a panel.
pub(super) struct Product<'a> {
    pub(super) tiles: &'a Tiles,
    pub(super) panel: &'a [f32],
    /// Whether it is added to what is there.
    pub(super) add: bool,
    pub(super) out: &'a mut [f32],
}

impl Product<'_> {
    pub(super) fn run(self) {
        Arch::new().dispatch(self);
    }
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        panel_product(simd, self.tiles, self.panel, self.add, self.out);
    }
}

/// The cosines of the queries as they came and the vectors attended to.
///
/// With `a` the weights, `s` the first scores and `G` the products of the rows with each other, a
/// query and its attended vector have the product `a·s` and the latter the length `√(aᵀ G a)`:
/// the attended vector itself is not needed.
struct Relevance<'a> {
    context: &'a Context,
    first: &'a Packed,
    weights: &'a Packed,
    lanes: Range<usize>,
    norms: &'a [f32],
    overlaps: &'a mut Vec<f32>,
    relevances: &'a mut [f32],
}

/// The least that the lengths of two vectors multiply to in a cosine.
pub(super) const LEAST: f32 = 1e-8;

impl Relevance<'_> {
    fn run(self) {
        Arch::new().dispatch(self);
    }
}

impl WithSimd for Relevance<'_> {
    type Output = ();

    // Inlined, like everything it calls, so that it is compiled for the vector unit in use.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = self.weights.width();
        let zero = simd.splat_f32s(0.0);
        self.overlaps.resize(self.context.rows * width, 0.0);
        for panel in 0..self.weights.panels() {
            let weights = self.weights.panel(panel);
            panel_product(simd, &self.context.gram, weights, false, self.overlaps);
            let (weights, _) = S::as_simd_f32s(self.weights.panel(panel));
            let (first, _) = S::as_simd_f32s(self.first.panel(panel));
            let (overlaps, _) = S::as_simd_f32s(self.overlaps);
            let (norms, _) = S::as_simd_f32s(&self.norms[panel * width..][..width]);
            let mut found = [zero; VECTORS];
            for v in 0..VECTORS {
                let (mut product, mut square) = (zero, zero);
                for row in (v..weights.len()).step_by(VECTORS) {
                    product = simd.mul_add_f32s(weights[row], first[row], product);
                    square = simd.mul_add_f32s(weights[row], overlaps[row], square);
                }
                // The square of a tiny length may come out negative.
                let length = simd.sqrt_f32s(simd.max_f32s(square, zero));
                let lengths = simd.mul_f32s(norms[v], length);
                let lengths = simd.max_f32s(lengths, simd.splat_f32s(LEAST));
                found[v] = simd.div_f32s(product, lengths);
            }
            let found = pulp::bytemuck::cast_slice::<_, f32>(&found);
            let lanes =
                self.lanes.start.max(panel * width)..self.lanes.end.min((panel + 1) * width);
            let within = lanes.start - panel * width..lanes.end - panel * width;
            self.relevances[lanes].copy_from_slice(&found[within]);
        }
    }
}
