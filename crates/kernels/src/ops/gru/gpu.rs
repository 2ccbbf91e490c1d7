//! The recurrence on a GPU: both directions at once, one product and one kernel a step.

use nextpair_cuda::{Array, Grid, Operand};

use super::pass::Schedule;
use crate::Error;
use crate::cuda::Unit;

/// What the forward pass keeps for the backward pass.
pub(super) struct Kept {
    /// The word that is read at each place, by direction.
    word_of: Array<u32>,
    /// The states before each word.
    before: Array<f32>,
    /// Gates: r, z, c and the recurrent part of c before r.
    gates: Array<f32>,
}

/// Sizes of a recurrence.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) dim: usize,
    pub(super) directions: usize,
    /// Whether the states of directions lie side by side, rather than being averaged.
    pub(super) side_by_side: bool,
}

impl Size {
    /// A thread for each number of the active captions' states.
    fn grid(self, active: usize) -> Grid {
        let blocks = self.dim.div_ceil(128) as u32;
        Grid { blocks: (blocks, active as u32, self.directions as u32), threads: 128, shared: 0 }
    }
}

/// The states of every word, and what the way back needs.
pub(super) fn forward(
    unit: &Unit,
    schedule: &Schedule,
    size: Size,
    inputs: &[&Array<f32>],
) -> Result<(Array<f32>, Kept), Error> {
    let Size { dim, directions, side_by_side } = size;
    let &[given, weight, bias] = inputs else { unreachable!("inputs, weight and bias") };
    let words = schedule.word_count();
    let (word_of, place_of) = places(schedule, directions);
    let (word_of, place_of) = (unit.array(&word_of)?, unit.array(&place_of)?);
    let states = unit.empty::<f32>(directions * words * dim)?;
    let before = unit.empty::<f32>(directions * words * dim)?;
    let gates = unit.empty::<f32>(directions * words * 4 * dim)?;
    let recurrent = unit.empty::<f32>(directions * schedule.captions() * 3 * dim)?;
    for step in 0..schedule.steps() {
        let (first, active) = (schedule.first(step), schedule.active(step));
        let last = if step == 0 { 0 } else { schedule.first(step - 1) };
        if step > 0 {
            let old = Operand::new(&states, last * dim, dim).apart(words * dim);
            let weight = Operand::new(weight, 0, dim).apart(3 * dim * dim).turned();
            let out = Operand::new(&recurrent, 0, 3 * dim).apart(active * 3 * dim);
            unit.multiply_each(directions, (active, 3 * dim, dim), old, weight, 0.0, out)?;
        }
        let arguments = [
            (&states).into(),
            (&gates).into(),
            (&before).into(),
            (&recurrent).into(),
            given.into(),
            bias.into(),
            (&word_of).into(),
            words.into(),
            first.into(),
            last.into(),
            active.into(),
            dim.into(),
            directions.into(),
        ];
        unit.run("gru_step", size.grid(active), &arguments)?;
    }
    let out = unit.empty(words * if side_by_side { directions * dim } else { dim })?;
    let arguments = [
        (&out).into(),
        (&states).into(),
        (&place_of).into(),
        words.into(),
        dim.into(),
        directions.into(),
        side_by_side.into(),
    ];
    unit.run("gru_means", Unit::rows(words), &arguments)?;
    Ok((out, Kept { word_of, before, gates }))
}

/// The gradients of the inputs, of the weight and of the bias.
pub(super) fn backward(
    unit: &Unit,
    schedule: &Schedule,
    size: Size,
    weight: &Array<f32>,
    kept: &Kept,
    upstream: &Array<f32>,
) -> Result<[Array<f32>; 3], Error> {
    let Size { dim, directions, side_by_side } = size;
    let (words, captions) = (schedule.word_count(), schedule.captions());
    let of_given = unit.empty::<f32>(words * directions * 3 * dim)?;
    // Gate by gate, so that a step has six products side by side, which fill a device.
    let of_gates = unit.empty::<f32>(directions * 3 * words * dim)?;
    let by_gates = unit.empty::<f32>(directions * 3 * captions * dim)?;
    let carried = unit.empty::<f32>(directions * captions * dim)?;
    for step in (0..schedule.steps()).rev() {
        let (first, active) = (schedule.first(step), schedule.active(step));
        let continued = if step + 1 < schedule.steps() { schedule.active(step + 1) } else { 0 };
        let arguments = [
            (&carried).into(),
            (&by_gates).into(),
            (&of_gates).into(),
            (&of_given).into(),
            (&kept.gates).into(),
            (&kept.before).into(),
            upstream.into(),
            (&kept.word_of).into(),
            words.into(),
            first.into(),
            captions.into(),
            continued.into(),
            dim.into(),
            directions.into(),
            side_by_side.into(),
        ];
        unit.run("gru_step_back", size.grid(active), &arguments)?;
        if step > 0 {
            let gates = Operand::new(&of_gates, first * dim, dim).apart(words * dim);
            let weight = Operand::new(weight, 0, dim).apart(dim * dim);
            let out = Operand::new(&by_gates, 0, dim).apart(captions * dim);
            unit.multiply_each(3 * directions, (active, dim, dim), gates, weight, 0.0, out)?;
        }
    }
    let of_weight = unit.empty::<f32>(directions * 3 * dim * dim)?;
    let (gates_factor, before) =
        (unit.factor(&of_gates, dim, dim)?, unit.factor(&kept.before, dim, dim)?);
    for direction in 0..directions {
        let gates = gates_factor.operand(direction * 3 * words * dim, dim).apart(words * dim);
        let before = before.operand(direction * words * dim, dim);
        let out = Operand::new(&of_weight, direction * 3 * dim * dim, dim).apart(dim * dim);
        unit.multiply_each(3, (dim, dim, words), gates.turned(), before, 0.0, out)?;
    }
    let of_bias = unit.empty::<f32>(directions * 3 * dim)?;
    unit.column_sums_of_each(3 * directions, &of_gates, dim, 0.0, &of_bias)?;
    Ok([of_given, of_weight, of_bias])
}

/// For each direction, the word that is read at each place, and the place at which each word is
/// read.
fn places(schedule: &Schedule, directions: usize) -> (Vec<u32>, Vec<u32>) {
    let words = schedule.word_count();
    let mut word_of = vec![0; directions * words];
    let mut place_of = vec![0; directions * words];
    for direction in 0..directions {
        for step in 0..schedule.steps() {
            for row in 0..schedule.active(step) {
                let place = schedule.first(step) + row;
                let word = schedule.word(step, row, direction == 1);
                word_of[direction * words + place] = word as u32;
                place_of[direction * words + word] = place as u32;
            }
        }
    }
    (word_of, place_of)
}
