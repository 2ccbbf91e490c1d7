//! How the words of captions differ from what they attend to in an image: the similarity vectors of
//! SGRAF (Diao, Zhang, Ma and Lu, AAAI 2021, <https://arxiv.org/abs/2101.01368>).
//!
//! The first row of every image and caption stands for the whole of it. With `f_w` what word `e_w`
//! attends to, scaled to unit norm, the vectors of a pair are `W_g (v_0 - e_0)² + b_g` and, for each
//! word, `W_l (f_w - e_w)² + b_l`, squares number by number. Attended vectors have to be formed here;
//! scores and attention weights are those of [`Matcher`](super::Matcher).

mod backward;

use rayon::prelude::*;

use crate::packed::{Left, Packed};

use super::chunk::{Chunk, LANES, cuts};
use super::context::Context;
use super::forward::score;
use super::rows::{square, unit_difference};
use super::{Attention, Ragged};
pub(crate) use backward::{Task, Turned};

/// Weights of the similarity vectors: `size` by `dim`, and `size` biases.
#[derive(Clone, Copy)]
pub(crate) struct AlignedWeights<'a> {
    pub(crate) local: &'a [f32],
    pub(crate) local_bias: &'a [f32],
    pub(crate) global: &'a [f32],
    pub(crate) global_bias: &'a [f32],
}

/// Computes similarity vectors.
pub(crate) struct Aligner {
    pub(crate) dim: usize,
    pub(crate) size: usize,
    attention: Attention,
    local: Packed,
    local_bias: Vec<f32>,
    global: Packed,
    global_bias: Vec<f32>,
}

/// Items whose first rows stand for the whole: these, and the others.
pub(crate) struct Parted {
    dim: usize,
    wholes: Vec<f32>,
    values: Vec<f32>,
    offsets: Vec<usize>,
}

impl Parted {
    pub(crate) fn new(items: Ragged<'_>) -> Self {
        let (mut wholes, mut values, mut offsets) = (Vec::new(), Vec::new(), vec![0]);
        for item in 0..items.len() {
            let (whole, others) = items.values_of(item).split_at(items.dim);
            wholes.extend_from_slice(whole);
            values.extend_from_slice(others);
            offsets.push(values.len() / items.dim);
        }
        Parted { dim: items.dim, wholes, values, offsets }
    }

    pub(super) fn parts(&self) -> Ragged<'_> {
        Ragged { dim: self.dim, values: &self.values, offsets: &self.offsets }
    }

    fn whole(&self, item: usize) -> &[f32] {
        &self.wholes[item * self.dim..][..self.dim]
    }
}

/// Tables of an image.
pub(crate) struct Picture {
    context: Context,
    /// Its regions, as the right side of products with attention weights.
    regions: Packed,
    whole: Vec<f32>,
}

impl Picture {
    pub(crate) fn all(images: &Parted) -> Vec<Self> {
        let contexts = Context::all(images.parts(), None, false);
        let table = |(item, context): (usize, Context)| {
            let rows = images.parts().values_of(item);
            let regions = Packed::new(context.rows, images.dim, rows);
            Picture { context, regions, whole: images.whole(item).to_vec() }
        };
        contexts.into_par_iter().enumerate().map(table).collect()
    }
}

/// Some captions, whose words stand side by side.
pub(crate) struct Group {
    pub(crate) captions: Vec<usize>,
    chunk: Chunk,
}

impl Group {
    pub(crate) fn new(texts: &Parted, captions: &[usize]) -> Self {
        let chunk = Chunk::gather(texts.parts(), &[], captions, &[captions.len()]);
        Group { captions: captions.to_vec(), chunk }
    }

    /// Groups of all captions.
    pub(crate) fn all(texts: &Parted) -> Vec<Self> {
        let parts = texts.parts();
        let rows: Vec<usize> = (0..parts.len()).map(|item| parts.rows_of(item).len()).collect();
        let runs = cuts(&rows, LANES).into_par_iter();
        runs.map(|run| Group::new(texts, &run.collect::<Vec<_>>())).collect()
    }

    /// Number of words.
    fn words(&self) -> usize {
        self.chunk.queries.columns()
    }

    /// Number of similarity vectors of an image with these captions.
    pub(crate) fn nodes(&self) -> usize {
        self.words() + self.captions.len()
    }

    /// The first similarity vector of each caption, then the end of the last.
    pub(crate) fn offsets(&self) -> Vec<usize> {
        let starts = self.chunk.items.iter().enumerate().map(|(at, lanes)| lanes.start + at);
        starts.chain([self.nodes()]).collect()
    }
}

/// Intermediate results of a group. Its memory is reused.
pub(crate) struct Trace {
    scores: Packed,
    weights: Packed,
    /// Of each word, what it attends to, and then the squares.
    rows: Vec<f32>,
    /// Norms of what words attend to.
    norms: Vec<f32>,
    /// Of each caption, the squares of the wholes.
    wholes: Vec<f32>,
    /// Similarity vectors of words and of wholes.
    vectors: Vec<f32>,
    firsts: Vec<f32>,
}

impl Default for Trace {
    fn default() -> Self {
        let (scores, weights) = (Packed::empty(), Packed::empty());
        let [rows, norms, wholes, vectors, firsts] = [const { Vec::new() }; 5];
        Trace { scores, weights, rows, norms, wholes, vectors, firsts }
    }
}

impl Aligner {
    /// Vectors of `dim` dimensions to vectors of `size`.
    pub(crate) fn new(
        (dim, size): (usize, usize),
        attention: Attention,
        weights: AlignedWeights<'_>,
    ) -> Self {
        Aligner {
            dim,
            size,
            attention,
            local: Packed::transposed(size, dim, weights.local),
            local_bias: weights.local_bias.to_vec(),
            global: Packed::transposed(size, dim, weights.global),
            global_bias: weights.global_bias.to_vec(),
        }
    }

    /// Writes the similarity vectors of an image and the captions of a group: of each caption that of
    /// the whole, then those of its words.
    pub(crate) fn nodes(
        &self,
        picture: &Picture,
        (group, texts): (&Group, &Parted),
        trace: &mut Trace,
        out: &mut [f32],
    ) {
        self.differ(picture, (group, texts), trace);
        square(&mut trace.rows);
        square(&mut trace.wholes);
        let size = self.size;
        repeat(&self.local_bias, group.words(), &mut trace.vectors);
        self.local.multiply_add(Left::rows(&trace.rows, self.dim), &mut trace.vectors);
        repeat(&self.global_bias, group.captions.len(), &mut trace.firsts);
        self.global.multiply_add(Left::rows(&trace.wholes, self.dim), &mut trace.firsts);
        let firsts = trace.firsts.chunks_exact(size);
        for ((lanes, at), first) in group.chunk.items.iter().zip(group.offsets()).zip(firsts) {
            let (whole, words) = out[at * size..][..(lanes.len() + 1) * size].split_at_mut(size);
            whole.copy_from_slice(first);
            words.copy_from_slice(&trace.vectors[lanes.start * size..lanes.end * size]);
        }
    }

    /// Leaves the differences of words and wholes in the trace.
    fn differ(&self, picture: &Picture, (group, texts): (&Group, &Parted), trace: &mut Trace) {
        let Trace { scores, weights, rows, norms, wholes, .. } = trace;
        let (dim, words, span) = (self.dim, group.words(), &group.chunk.spans[0]);
        score(&picture.context, &group.chunk.queries, span, scores);
        self.attention.weigh(&group.chunk.items, scores, weights);
        rows.resize(words * dim, 0.0);
        attend(weights, &picture.regions, false, rows);
        norms.resize(words, 0.0);
        wholes.clear();
        for (lanes, &caption) in group.chunk.items.iter().zip(&group.captions) {
            let own = texts.parts().values_of(caption);
            let attended = &mut rows[lanes.start * dim..lanes.end * dim];
            unit_difference(attended, own, dim, &mut norms[lanes.clone()]);
            let both = picture.whole.iter().zip(texts.whole(caption));
            wholes.extend(both.map(|(v, e)| v - e));
        }
    }
}

/// Writes, or adds, the sums of the right side's rows by the weights of every lane.
fn attend(weights: &Packed, right: &Packed, add: bool, out: &mut [f32]) {
    let width = weights.width();
    for (panel, out) in out.chunks_mut(width * right.columns()).enumerate() {
        let left = Left::transposed(weights.panel(panel), width);
        match add {
            true => right.multiply_add(left, out),
            false => right.multiply(left, out),
        }
    }
}

/// Fills `out` with copies of `row`.
pub(crate) fn repeat(row: &[f32], count: usize, out: &mut Vec<f32>) {
    out.clear();
    (0..count).for_each(|_| out.extend_from_slice(row));
}
