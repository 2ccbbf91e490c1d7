//! Scores of SGRAF for all pairs: similarity vectors, then reasoning over them as a graph (SGR), or
//! filtering them by attention (SAF). Nothing of size `dim` leaves a group of captions.

use std::cell::RefCell;

use rayon::prelude::*;

use crate::elementwise::{exp_all, sigmoid_all};
use crate::packed::{Left, Packed};

use super::aligned::{Aligner, Group, Parted, Picture, Trace, repeat};
use super::rows::{dots, unit, weighted_sum};
use super::{CONTEXTS, Ragged};

/// Added to a sum of shares.
const EPSILON: f32 = 1e-8;

/// Scores pairs.
pub(crate) struct Reasoner {
    pub(crate) aligner: Aligner,
    pub(crate) head: Head,
    /// Weights of the score, and its bias.
    pub(crate) score: (Vec<f32>, f32),
}

/// What becomes of similarity vectors.
pub(crate) enum Head {
    /// Steps of graph reasoning.
    Graph(Vec<Graph>),
    /// Attention filtration.
    Filter(Filter),
}

/// One step of graph reasoning. With the weights `Q` and `K` of queries and keys, the affinity of two
/// nodes is `x_i Qᵀ K x_j + q K x_j` and terms that a softmax over `j` does not see: one product
/// instead of two.
pub(crate) struct Graph {
    folded: Packed,
    shift: Vec<f32>,
    layer: Packed,
    bias: Vec<f32>,
}

impl Graph {
    /// From weights of `size` by `size`: those of queries with their biases, of keys, and of the layer
    /// with its biases.
    pub(crate) fn new(
        size: usize,
        query: (&[f32], &[f32]),
        key: &[f32],
        layer: (&[f32], &[f32]),
    ) -> Self {
        let keys = Packed::new(size, size, key);
        let mut folded = vec![0.0; size * size];
        keys.multiply(Left::transposed(query.0, size), &mut folded);
        let mut shift = vec![0.0; size];
        keys.multiply(Left::rows(query.1, size), &mut shift);
        Graph {
            folded: Packed::new(size, size, &folded),
            shift,
            layer: Packed::transposed(size, size, layer.0),
            bias: layer.1.to_vec(),
        }
    }
}

/// Attention filtration: a share of each node is a logistic function of `weight · x`, scaled and
/// shifted by a batch norm whose statistics are fixed.
pub(crate) struct Filter {
    pub(crate) weight: Vec<f32>,
    pub(crate) scale: f32,
    pub(crate) shift: f32,
}

/// Intermediate results. Their memory is reused.
#[derive(Default)]
struct Scratch {
    trace: Trace,
    nodes: Vec<f32>,
    asked: Vec<f32>,
    mixed: Vec<f32>,
    weights: Vec<f32>,
    across: Option<Packed>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Reasoner {
    /// Writes the scores of all pairs: a row per image.
    pub(crate) fn scores(&self, images: Ragged<'_>, texts: Ragged<'_>, out: &mut [f32]) {
        let (count, texts) = (texts.len(), Parted::new(texts));
        let groups = Group::all(&texts);
        for first in (0..images.len()).step_by(CONTEXTS) {
            let end = images.len().min(first + CONTEXTS);
            let pictures = Picture::all(&Parted::new(images.slice(first..end)));
            let tasks: Vec<(usize, usize)> = (0..groups.len())
                .flat_map(|group| (0..pictures.len()).map(move |picture| (group, picture)))
                .collect();
            let scores: Vec<Vec<f32>> = tasks
                .par_iter()
                .with_max_len(1)
                .map(|&(group, picture)| {
                    SCRATCH.with_borrow_mut(|scratch| {
                        self.group_scores(&pictures[picture], (&groups[group], &texts), scratch)
                    })
                })
                .collect();
            for ((group, picture), scores) in tasks.into_iter().zip(scores) {
                let row = &mut out[(first + picture) * count..][..count];
                for (&caption, score) in groups[group].captions.iter().zip(scores) {
                    row[caption] = score;
                }
            }
        }
    }

    /// The scores of an image with the captions of a group.
    fn group_scores(
        &self,
        picture: &Picture,
        (group, texts): (&Group, &Parted),
        scratch: &mut Scratch,
    ) -> Vec<f32> {
        let size = self.aligner.size;
        let Scratch { trace, nodes, .. } = scratch;
        nodes.resize(group.nodes() * size, 0.0);
        self.aligner.nodes(picture, (group, texts), trace, nodes);
        unit(nodes, size);
        let offsets = group.offsets();
        let vectors = match &self.head {
            Head::Graph(steps) => reason(steps, size, &offsets, scratch),
            Head::Filter(filter) => filtered(filter, size, &offsets, nodes),
        };
        let (weight, bias) = &self.score;
        let mut scores = Vec::new();
        dots(weight, &vectors, &mut scores);
        scores.iter_mut().for_each(|score| *score += bias);
        sigmoid_all(&mut scores);
        scores
    }
}

/// The first node of every pair after all steps.
fn reason(steps: &[Graph], size: usize, offsets: &[usize], scratch: &mut Scratch) -> Vec<f32> {
    let Scratch { nodes, asked, mixed, weights, across, .. } = scratch;
    let across = across.get_or_insert_with(Packed::empty);
    let (last, full) = steps.split_last().expect("at least one step");
    for step in full {
        repeat(&step.shift, nodes.len() / size, asked);
        step.folded.multiply_add(Left::rows(nodes, size), asked);
        mixed.resize(nodes.len(), 0.0);
        for span in offsets.windows(2) {
            let (count, place) = (span[1] - span[0], span[0] * size..span[1] * size);
            weights.resize(count * count, 0.0);
            across.repack_transposed(count, size, &nodes[place.clone()]);
            across.multiply(Left::rows(&asked[place.clone()], size), weights);
            softmax(weights, count);
            across.repack(count, size, &nodes[place.clone()]);
            across.multiply(Left::rows(weights, count), &mut mixed[place]);
        }
        repeat(&step.bias, nodes.len() / size, nodes);
        step.layer.multiply_add(Left::rows(mixed, size), nodes);
        nodes.iter_mut().for_each(|x| *x = x.max(0.0));
    }
    // Nobody reads other nodes of the last step.
    let pairs = offsets.len() - 1;
    mixed.clear();
    for span in offsets.windows(2) {
        mixed.extend_from_slice(&nodes[span[0] * size..][..size]);
    }
    repeat(&last.shift, pairs, asked);
    last.folded.multiply_add(Left::rows(mixed, size), asked);
    for (at, span) in offsets.windows(2).enumerate() {
        let own = &nodes[span[0] * size..span[1] * size];
        dots(&asked[at * size..][..size], own, weights);
        softmax(weights, span[1] - span[0]);
        weighted_sum(own, weights, &mut mixed[at * size..][..size]);
    }
    let mut out = Vec::new();
    repeat(&last.bias, pairs, &mut out);
    last.layer.multiply_add(Left::rows(mixed, size), &mut out);
    out.iter_mut().for_each(|x| *x = x.max(0.0));
    out
}

/// The filtered vector of every pair, at unit norm.
fn filtered(filter: &Filter, size: usize, offsets: &[usize], nodes: &[f32]) -> Vec<f32> {
    let mut shares = Vec::new();
    dots(&filter.weight, nodes, &mut shares);
    shares.iter_mut().for_each(|share| *share = *share * filter.scale + filter.shift);
    sigmoid_all(&mut shares);
    let mut out = vec![0.0; (offsets.len() - 1) * size];
    for (out, span) in out.chunks_exact_mut(size).zip(offsets.windows(2)) {
        let shares = &mut shares[span[0]..span[1]];
        let sum = shares.iter().sum::<f32>() + EPSILON;
        shares.iter_mut().for_each(|share| *share /= sum);
        weighted_sum(&nodes[span[0] * size..span[1] * size], shares, out);
    }
    unit(&mut out, size);
    out
}

/// Softmax of every row of `count` numbers.
fn softmax(rows: &mut [f32], count: usize) {
    for row in rows.chunks_exact_mut(count) {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        row.iter_mut().for_each(|x| *x -= largest);
    }
    exp_all(rows);
    for row in rows.chunks_exact_mut(count) {
        let share = 1.0 / row.iter().sum::<f32>();
        row.iter_mut().for_each(|x| *x *= share);
    }
}
