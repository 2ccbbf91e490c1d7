//! All matching steps of the queries of a chunk.

use std::cell::RefCell;
use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::packed::{Packed, Tiles, VECTORS, panel_product};
use crate::unit::arch;

use super::Matcher;
use super::chunk::{Chunk, Span};
use super::context::Context;
use super::lengths::normalise;
use super::update::Update;

thread_local! {
    /// Scratch memory, kept because allocating it may take longer than a chunk.
    pub(super) static TRACE: RefCell<Trace> = RefCell::default();
}

/// The intermediate results of a chunk, step by step. Its memory is reused.
#[derive(Default)]
pub(super) struct Trace {
    pub(super) steps: Vec<Step>,
    /// Whether to keep proposals and gates.
    keeps_gates: bool,
    /// Products of a context's Gram matrix with the attention weights.
    overlaps: Vec<f32>,
}

/// One matching step.
pub(super) struct Step {
    /// The queries of this step; those of the first one are the chunk's.
    pub(super) queries: Packed,
    /// Scores and weights of every span.
    pub(super) seen: Vec<Seen>,
    /// Cosines of the queries and their attended vectors, by lane.
    pub(super) relevances: Vec<f32>,
    /// Proposals and gates of the memory on the way to the next step, if kept.
    pub(super) gates: Packed,
    /// Norms of the next queries before they were normalised, if they were.
    pub(super) lengths: Vec<f32>,
}

/// Scores and attention weights of a span: one line per attended row.
pub(super) struct Seen {
    /// Products of the queries with the rows.
    pub(super) scores: Packed,
    /// Attention weights.
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
    /// A trace that keeps all that gradients need.
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
    /// Writes the relevance of every step and item of a chunk to `out`, steps x items. `contexts`
    /// has one context per span.
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
pub(super) fn score(context: &Context, queries: &Packed, span: &Span, scores: &mut Packed) {
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
    /// Whether to add to `out` rather than overwrite it.
    pub(super) add: bool,
    pub(super) out: &'a mut [f32],
}

impl Product<'_> {
    pub(super) fn run(self) {
        arch().dispatch(self);
    }
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        panel_product(simd, self.tiles, self.panel, self.add, self.out);
    }
}

/// The cosines of the first queries and their attended vectors.
///
/// With `a` the weights, `s` the first scores and `G` the Gram matrix of the rows, a query and its
/// attended vector have the product `a·s`, and the attended vector has the norm `√(aᵀ G a)`. The
/// attended vector itself is not needed.
struct Relevance<'a> {
    context: &'a Context,
    first: &'a Packed,
    weights: &'a Packed,
    lanes: Range<usize>,
    norms: &'a [f32],
    overlaps: &'a mut Vec<f32>,
    relevances: &'a mut [f32],
}

/// Smallest product of two norms that a cosine is divided by.
pub(super) const LEAST: f32 = 1e-8;

impl Relevance<'_> {
    fn run(self) {
        arch().dispatch(self);
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
                // Rounding can make the square of a tiny norm negative.
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
