//! One direction of the recurrence, forward and backward.

use super::gates::Gates;
use crate::unit::arch;
use crate::{Left, Packed};

/// The order in which captions and their words are processed.
pub(super) struct Schedule {
    /// Start and length of each caption, the longest first.
    captions: Vec<(usize, usize)>,
    /// Rows before each step, then the number of all rows. The captions still running come first.
    first: Vec<usize>,
}

impl Schedule {
    pub(super) fn new(offsets: &[usize]) -> Self {
        let spans = offsets.windows(2).map(|span| (span[0], span[1] - span[0]));
        let mut captions: Vec<(usize, usize)> = spans.collect();
        captions.sort_by_key(|&(_, length)| std::cmp::Reverse(length));
        let mut first = vec![0];
        let longest = captions.first().map_or(0, |&(_, length)| length);
        for step in 0..longest {
            let active = captions.partition_point(|&(_, length)| length > step);
            first.push(first[step] + active);
        }
        Schedule { captions, first }
    }

    pub(super) fn steps(&self) -> usize {
        self.first.len() - 1
    }

    pub(super) fn word_count(&self) -> usize {
        self.first[self.steps()]
    }

    pub(super) fn active(&self, step: usize) -> usize {
        self.first[step + 1] - self.first[step]
    }

    /// The current word of running caption `row`.
    pub(super) fn word(&self, step: usize, row: usize, reverse: bool) -> usize {
        let (start, length) = self.captions[row];
        start + if reverse { length - 1 - step } else { step }
    }
}

/// Where the states of a direction go: into rows of `width` numbers from `first` on, times `scale`.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) width: usize,
    pub(super) first: usize,
    pub(super) scale: f32,
}

/// Results of one direction, in the order of the schedule.
pub(super) struct Pass {
    dim: usize,
    reverse: bool,
    /// Whether no other direction runs in parallel, so that products may use all threads.
    alone: bool,
    /// Hidden states.
    states: Vec<f32>,
    /// Gates of each state: r, z, c and the recurrent part of c before r.
    gates: Vec<f32>,
}

/// The gradients of one direction.
pub(super) struct Gradients {
    /// Gradient of the inputs, in the order of the words.
    inputs: Vec<f32>,
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

impl Pass {
    pub(super) fn forward(
        schedule: &Schedule,
        inputs: &[f32],
        (directions, direction): (usize, usize),
        weight: &[f32],
        bias: &[f32],
        dim: usize,
    ) -> Pass {
        let words = schedule.word_count();
        let reverse = direction == 1;
        let (mut states, mut gates) = (vec![0.0; words * dim], vec![0.0; words * 4 * dim]);
        let recurrent_weight = Packed::transposed(3 * dim, dim, weight);
        // The first word has no state before it, and no product with it either.
        let mut recurrent = vec![0.0; schedule.captions.len() * 3 * dim];
        let nothing = vec![0.0; dim];
        for step in 0..schedule.steps() {
            let (first, active) = (schedule.first[step], schedule.active(step));
            let (before, now) = states.split_at_mut(first * dim);
            let before = match step {
                0 => None,
                _ => Some(&before[schedule.first[step - 1] * dim..][..active * dim]),
            };
            let recurrent = &mut recurrent[..active * 3 * dim];
            if let Some(before) = before {
                let before = Left::rows(before, dim);
                match directions {
                    1 => recurrent_weight.par_multiply(before, recurrent),
                    _ => recurrent_weight.multiply(before, recurrent),
                }
            }
            for row in 0..active {
                let word = schedule.word(step, row, reverse);
                let at = (word * directions + direction) * 3 * dim;
                let gates = &mut gates[(first + row) * 4 * dim..][..4 * dim];
                Gates {
                    given: &inputs[at..][..3 * dim],
                    recurrent: &recurrent[row * 3 * dim..][..3 * dim],
                    bias,
                    before: before.map_or(&nothing, |before| &before[row * dim..][..dim]),
                    gates,
                    state: &mut now[row * dim..][..dim],
                }
                .run();
            }
        }
        Pass { dim, reverse, alone: directions == 1, states, gates }
    }

    /// Adds the states to the rows of their words.
    pub(super) fn add_states(&self, schedule: &Schedule, target: Target, out: &mut [f32]) {
        let (dim, Target { width, first, scale }) = (self.dim, target);
        for step in 0..schedule.steps() {
            for row in 0..schedule.active(step) {
                let state = &self.states[(schedule.first[step] + row) * dim..][..dim];
                let word = schedule.word(step, row, self.reverse);
                let out = &mut out[word * width + first..][..dim];
                out.iter_mut().zip(state).for_each(|(out, state)| *out += scale * state);
            }
        }
    }

    /// Back-propagates through time. `upstream` holds the gradient of every word's state, not yet
    /// scaled.
    pub(super) fn backward(
        &self,
        schedule: &Schedule,
        weight: &[f32],
        upstream: &[f32],
        Target { width, first: column, scale }: Target,
    ) -> Gradients {
        let (dim, words) = (self.dim, schedule.word_count());
        let weight = Packed::new(3 * dim, dim, weight);
        let mut of_inputs = vec![0.0; words * 3 * dim];
        let mut of_gates = vec![0.0; words * 3 * dim];
        let nothing = vec![0.0; dim];
        // The gradient of the states from the next step.
        let mut carried = vec![0.0; schedule.captions.len() * dim];
        for step in (0..schedule.steps()).rev() {
            let (first, active) = (schedule.first[step], schedule.active(step));
            for row in 0..active {
                let word = schedule.word(step, row, self.reverse);
                let carried = &mut carried[row * dim..][..dim];
                let given = &upstream[word * width + column..][..dim];
                carried.iter_mut().zip(given).for_each(|(sum, given)| *sum += scale * given);
                let before = match step {
                    0 => nothing.as_slice(),
                    _ => &self.states[(schedule.first[step - 1] + row) * dim..][..dim],
                };
                let gates = &self.gates[(first + row) * 4 * dim..][..4 * dim];
                let of_inputs = &mut of_inputs[word * 3 * dim..][..3 * dim];
                let of_gates = &mut of_gates[(first + row) * 3 * dim..][..3 * dim];
                backward_cell(gates, before, carried, of_inputs, of_gates);
            }
            if step > 0 {
                let of_gates = &of_gates[first * 3 * dim..][..active * 3 * dim];
                let (of_gates, carried) =
                    (Left::rows(of_gates, 3 * dim), &mut carried[..active * dim]);
                if self.alone {
                    weight.par_multiply_add(of_gates, carried);
                } else {
                    weight.multiply_add(of_gates, carried);
                }
            }
        }
        let mut bias = vec![0.0; 3 * dim];
        for row in of_gates.chunks_exact(3 * dim) {
            bias.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
        Gradients { inputs: of_inputs, weight: self.of_weight(schedule, &of_gates), bias }
    }

    /// The gradient of the weights: every word but the first of its caption multiplies the previous
    /// state.
    fn of_weight(&self, schedule: &Schedule, of_gates: &[f32]) -> Vec<f32> {
        let dim = self.dim;
        let mut before = Vec::with_capacity(self.states.len());
        for step in 1..schedule.steps() {
            let states = &self.states[schedule.first[step - 1] * dim..];
            before.extend_from_slice(&states[..schedule.active(step) * dim]);
        }
        let mut out = vec![0.0; 3 * dim * dim];
        let rows = before.len() / dim;
        if rows > 0 {
            let of_gates = &of_gates[schedule.first[1] * 3 * dim..];
            let before = Packed::new(rows, dim, &before);
            let of_gates = Left::transposed(of_gates, 3 * dim);
            if self.alone {
                before.par_multiply(of_gates, &mut out);
            } else {
                before.multiply(of_gates, &mut out);
            }
        }
        out
    }
}

/// Turns the gradient of a state (`carried`) into the gradients of its gates, and into the part
/// that reaches the previous state directly.
fn backward_cell(
    gates: &[f32],
    before: &[f32],
    carried: &mut [f32],
    of_inputs: &mut [f32],
    of_gates: &mut [f32],
) {
    let dim = carried.len();
    let [reset, keep, candidate, inner] = [0, 1, 2, 3].map(|part| &gates[part * dim..][..dim]);
    let (of_reset, rest) = of_gates.split_at_mut(dim);
    let (of_keep, of_inner) = rest.split_at_mut(dim);
    let of_candidate = &mut of_inputs[2 * dim..];
    let before = &before[..dim];
    let (of_inner, of_candidate) = (&mut of_inner[..dim], &mut of_candidate[..dim]);
    let of_keep = &mut of_keep[..dim];
    // Compiled for the vector unit in use.
    arch().dispatch(|| {
        for at in 0..dim {
            let (r, z, c, n) = (reset[at], keep[at], candidate[at], inner[at]);
            let grad = carried[at];
            let of_c = grad * (1.0 - z) * (1.0 - c * c);
            of_keep[at] = grad * (before[at] - c) * z * (1.0 - z);
            of_reset[at] = of_c * n * r * (1.0 - r);
            of_candidate[at] = of_c;
            of_inner[at] = of_c * r;
            carried[at] = grad * z;
        }
    });
    of_inputs[..dim].copy_from_slice(of_reset);
    of_inputs[dim..2 * dim].copy_from_slice(of_keep);
}

/// Joins the gradients of the inputs of all directions, word by word.
pub(super) fn join_inputs(schedule: &Schedule, gradients: &[Gradients], dim: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(schedule.word_count() * gradients.len() * 3 * dim);
    for word in 0..schedule.word_count() {
        for direction in gradients {
            out.extend_from_slice(&direction.inputs[word * 3 * dim..][..3 * dim]);
        }
    }
    out
}
