//! Gradients of similarity vectors.

use std::cell::RefCell;
use std::ops::Range;

use rayon::prelude::*;

use crate::packed::{Left, Packed};

use super::super::backward::attention::AttendBackward;
use super::super::forward::Product;
use super::super::gradients::split_rows;
use super::super::rows::unit_difference_backward;
use super::{Aligner, Group, Parted, Picture, Ragged, Trace, attend};

thread_local! {
    /// Scratch memory, kept because allocating it may take longer than a group.
    static SCRATCH: RefCell<(Trace, [Packed; 3])> =
        RefCell::new((Trace::default(), std::array::from_fn(|_| Packed::empty())));
}

/// Rows of words that are kept until the gradients of the weights are computed.
const ROWS: usize = 4096;

/// The weights, as the right side of products with gradients.
pub(crate) struct Turned {
    local: Packed,
    global: Packed,
}

impl Turned {
    pub(crate) fn new((dim, size): (usize, usize), local: &[f32], global: &[f32]) -> Self {
        let turned = |weight: &[f32]| Packed::new(size, dim, weight);
        Turned { local: turned(local), global: turned(global) }
    }
}

/// An image with some captions, and where the similarity vectors of each pair begin.
pub(crate) struct Task {
    pub(crate) image: usize,
    pub(crate) captions: Vec<usize>,
    pub(crate) places: Vec<usize>,
}

/// Gradients, each in the layout of its input. Those of the weights are `dim` by `size`.
pub(crate) struct AlignedGradients {
    pub(crate) images: Vec<f32>,
    pub(crate) texts: Vec<f32>,
    pub(crate) local: Vec<f32>,
    pub(crate) local_bias: Vec<f32>,
    pub(crate) global: Vec<f32>,
    pub(crate) global_bias: Vec<f32>,
}

/// Where a task writes squares and the gradients of similarity vectors: of words, and of wholes.
struct Room<'a> {
    squares: &'a mut [f32],
    upstream: &'a mut [f32],
    whole_squares: &'a mut [f32],
    whole_upstream: &'a mut [f32],
}

/// Gradients of a task.
struct Passed {
    /// Of the words, and where those of each caption are.
    words: Vec<f32>,
    lanes: Vec<Range<usize>>,
    captions: Vec<f32>,
    regions: Vec<f32>,
    image: Vec<f32>,
}

/// What all tasks share.
struct Given<'a> {
    texts: &'a Parted,
    pictures: &'a [Picture],
    turned: &'a Turned,
    upstream: &'a [f32],
}

impl Aligner {
    /// The gradients of the similarity vectors of some tasks, which have the derivatives `upstream`.
    pub(crate) fn gradients(
        &self,
        (images, texts): (Ragged<'_>, Ragged<'_>),
        tasks: &[Task],
        turned: &Turned,
        upstream: &[f32],
    ) -> AlignedGradients {
        let (dim, size) = (self.dim, self.size);
        let mut sums = AlignedGradients {
            images: vec![0.0; images.values.len()],
            texts: vec![0.0; texts.values.len()],
            local: vec![0.0; dim * size],
            local_bias: vec![0.0; size],
            global: vec![0.0; dim * size],
            global_bias: vec![0.0; size],
        };
        let (pictures, parted_texts) = (Picture::all(&Parted::new(images)), Parted::new(texts));
        let given = Given { texts: &parted_texts, pictures: &pictures, turned, upstream };
        let words = |task: &Task| {
            let rows = task.captions.iter().map(|&c| parted_texts.parts().rows_of(c).len());
            rows.sum::<usize>()
        };
        let mut rest = tasks;
        while !rest.is_empty() {
            let (mut count, mut rows) = (0, 0);
            while count < rest.len() && (count == 0 || rows + words(&rest[count]) <= ROWS) {
                rows += words(&rest[count]);
                count += 1;
            }
            let (now, later) = rest.split_at(count);
            rest = later;
            let passed = self.pass(&given, now, words, &mut sums);
            add(now, &passed, (images, texts), &mut sums);
        }
        sums
    }

    /// Runs tasks, and adds the gradients of the weights.
    fn pass(
        &self,
        given: &Given<'_>,
        tasks: &[Task],
        words: impl Fn(&Task) -> usize,
        sums: &mut AlignedGradients,
    ) -> Vec<Passed> {
        let (dim, size) = (self.dim, self.size);
        let (mut rows, mut wholes) = (vec![0], vec![0]);
        for task in tasks {
            rows.push(rows[rows.len() - 1] + words(task));
            wholes.push(wholes[wholes.len() - 1] + task.captions.len());
        }
        let room = |offsets: &[usize], each: usize| vec![0.0; offsets[tasks.len()] * each];
        let (mut squares, mut upstream) = (room(&rows, dim), room(&rows, size));
        let (mut whole_squares, mut whole_upstream) = (room(&wholes, dim), room(&wholes, size));
        let parts = split_rows(&mut squares, &rows, dim)
            .into_par_iter()
            .zip(split_rows(&mut upstream, &rows, size))
            .zip(split_rows(&mut whole_squares, &wholes, dim))
            .zip(split_rows(&mut whole_upstream, &wholes, size));
        let passed = tasks
            .par_iter()
            .zip(parts)
            .with_max_len(1)
            .map(|(task, (((squares, upstream), whole_squares), whole_upstream))| {
                let room = Room { squares, upstream, whole_squares, whole_upstream };
                SCRATCH.with_borrow_mut(|(trace, packed)| {
                    self.backward(given, task, room, trace, packed)
                })
            })
            .collect();
        let mut right = Packed::empty();
        for (squares, upstream, weight, bias) in [
            (&squares, &upstream, &mut sums.local, &mut sums.local_bias),
            (&whole_squares, &whole_upstream, &mut sums.global, &mut sums.global_bias),
        ] {
            right.repack(upstream.len() / size, size, upstream);
            right.par_multiply_add(Left::transposed(squares, dim), weight);
            for row in upstream.chunks_exact(size) {
                bias.iter_mut().zip(row).for_each(|(sum, g)| *sum += g);
            }
        }
        passed
    }

    fn backward(
        &self,
        given: &Given<'_>,
        task: &Task,
        room: Room<'_>,
        trace: &mut Trace,
        [across, gradient, scratch]: &mut [Packed; 3],
    ) -> Passed {
        let (dim, size) = (self.dim, self.size);
        let (picture, texts) = (&given.pictures[task.image], given.texts);
        let group = Group::new(texts, &task.captions);
        self.differ(picture, (&group, texts), trace);
        let (chunk, count) = (&group.chunk, group.words());
        room.squares.iter_mut().zip(&trace.rows).for_each(|(to, x)| *to = x * x);
        room.whole_squares.iter_mut().zip(&trace.wholes).for_each(|(to, x)| *to = x * x);
        let mut own = Vec::with_capacity(count * dim);
        for (at, (lanes, &place)) in chunk.items.iter().zip(&task.places).enumerate() {
            let from = &given.upstream[place * size..][..(lanes.len() + 1) * size];
            room.whole_upstream[at * size..][..size].copy_from_slice(&from[..size]);
            room.upstream[lanes.start * size..lanes.end * size].copy_from_slice(&from[size..]);
            own.extend_from_slice(texts.parts().values_of(task.captions[at]));
        }
        // The wholes.
        let mut captions = vec![0.0; task.captions.len() * dim];
        given.turned.global.multiply(Left::rows(room.whole_upstream, size), &mut captions);
        let mut image = vec![0.0; dim];
        for (row, difference) in captions.chunks_exact_mut(dim).zip(trace.wholes.chunks_exact(dim))
        {
            for at in 0..dim {
                let slope = 2.0 * difference[at] * row[at];
                image[at] += slope;
                row[at] = -slope;
            }
        }
        // The words, up to what they attend to.
        let (mut attended, mut words) = (vec![0.0; count * dim], vec![0.0; count * dim]);
        given.turned.local.multiply(Left::rows(room.upstream, size), &mut attended);
        let (rows, norms) = (&trace.rows, &trace.norms);
        unit_difference_backward(rows, &own, norms, dim, &mut attended, &mut words);
        // The regions, through the weighted sums and through the weights.
        let regions_of = picture.context.rows;
        let mut regions = vec![0.0; regions_of * dim];
        across.repack(count, dim, &attended);
        let weights = trace.weights.rows(0..count);
        across.multiply(Left::transposed(&weights, regions_of), &mut regions);
        across.repack_transposed(count, dim, &attended);
        gradient.shape(regions_of, count);
        for panel in 0..gradient.panels() {
            let (tiles, from) = (&picture.context.regions, across.panel(panel));
            let out = gradient.panel_mut(panel);
            Product { tiles, panel: from, add: false, out }.run();
        }
        AttendBackward {
            normaliser: self.attention.normaliser,
            temperature: self.attention.temperature,
            items: &chunk.items,
            scores: &trace.scores,
            weights: &trace.weights,
            gradient,
            normalised: scratch,
        }
        .run();
        attend(gradient, &picture.regions, true, &mut words);
        across.repack(count, dim, &own);
        let scores = gradient.rows(0..count);
        across.multiply_add(Left::transposed(&scores, regions_of), &mut regions);
        Passed { words, lanes: chunk.items.clone(), captions, regions, image }
    }
}

/// Adds the gradients of tasks to those of images and captions, in the order of the tasks.
fn add(
    tasks: &[Task],
    passed: &[Passed],
    (images, texts): (Ragged<'_>, Ragged<'_>),
    sums: &mut AlignedGradients,
) {
    let dim = images.dim;
    let sum = |to: &mut [f32], from: &[f32]| to.iter_mut().zip(from).for_each(|(to, x)| *to += x);
    for (task, passed) in tasks.iter().zip(passed) {
        let rows = images.rows_of(task.image);
        let (whole, regions) = sums.images[rows.start * dim..rows.end * dim].split_at_mut(dim);
        sum(whole, &passed.image);
        sum(regions, &passed.regions);
    }
    let mut found: Vec<Vec<(&[f32], &[f32])>> = vec![Vec::new(); texts.len()];
    for (task, passed) in tasks.iter().zip(passed) {
        let parts = passed.captions.chunks_exact(dim).zip(&passed.lanes);
        for (&caption, (whole, lanes)) in task.captions.iter().zip(parts) {
            found[caption].push((whole, &passed.words[lanes.start * dim..lanes.end * dim]));
        }
    }
    let rows = split_rows(&mut sums.texts, texts.offsets, dim);
    rows.into_par_iter().zip(found).for_each(|(rows, found)| {
        let (whole, others) = rows.split_at_mut(dim);
        for (own, words) in found {
            sum(whole, own);
            sum(others, words);
        }
    });
}
