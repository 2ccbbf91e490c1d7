//! The recurrences of all members on a GPU: one batched product and one kernel a step.

use nextpair_cuda::{Array, Grid, Operand};

use super::Size;
use super::pass::Schedule;
use crate::Error;
use crate::cuda::Unit;

/// What the forward pass keeps for the backward pass.
pub(super) struct Kept {
    /// The row of the inputs, and of the result, for each place of each unit.
    given_of: Array<u32>,
    word_of: Array<u32>,
    /// The states before each word.
    before: Array<f32>,
    /// Gates: r, z, c and the recurrent part of c before r.
    gates: Array<f32>,
}

impl Size {
    /// A thread for each number of the states of a step.
    fn grid(self, active: usize, members: usize) -> Grid {
        let units = members * self.directions;
        let blocks = (self.dim.div_ceil(128) as u32, active as u32, units as u32);
        Grid { blocks, threads: 128, shared: 0 }
    }
}

/// A place that a member does not use, as the kernels have it.
const NOWHERE: u32 = u32::MAX;

/// Where the words of members are read: every unit has the same places.
struct Places {
    /// The captions of each step, of the member with the most.
    active: Vec<usize>,
    /// Places before each step, then all of them.
    first: Vec<usize>,
}

impl Places {
    fn new(schedules: &[&Schedule]) -> Self {
        let steps = schedules.iter().map(|schedule| schedule.steps()).max().unwrap_or(0);
        let most = |step: usize| {
            schedules.iter().map(|schedule| active(schedule, step)).max().unwrap_or(0)
        };
        let active: Vec<usize> = (0..steps).map(most).collect();
        let mut first = vec![0];
        active.iter().for_each(|active| first.push(first[first.len() - 1] + active));
        Places { active, first }
    }

    fn steps(&self) -> usize {
        self.active.len()
    }

    fn count(&self) -> usize {
        self.first[self.steps()]
    }

    /// For each place of each unit the part of a row of the inputs and the row of the result, and for each
    /// direction and row of the result its place.
    fn tables(&self, schedules: &[&Schedule], size: Size) -> [Vec<u32>; 3] {
        let Size { rows, directions, .. } = size;
        let all = schedules.len() * directions * self.count();
        let (mut given_of, mut word_of) = (vec![NOWHERE; all], vec![NOWHERE; all]);
        let words: usize = schedules.iter().map(|schedule| schedule.word_count()).sum();
        let (mut place_of, mut before) = (vec![0; directions * words], 0);
        for (member, schedule) in schedules.iter().enumerate() {
            for direction in 0..directions {
                let first = (member * directions + direction) * self.count();
                for step in 0..schedule.steps() {
                    for row in 0..schedule.active(step) {
                        let place = first + self.first[step] + row;
                        let word = schedule.word(step, row, direction == 1);
                        let given = (member * rows + word) * directions + direction;
                        given_of[place] = given as u32;
                        word_of[place] = (before + word) as u32;
                        place_of[direction * words + before + word] = place as u32;
                    }
                }
            }
            before += schedule.word_count();
        }
        [given_of, word_of, place_of]
    }
}

/// The captions of a member that a step reads.
fn active(schedule: &Schedule, step: usize) -> usize {
    if step < schedule.steps() { schedule.active(step) } else { 0 }
}

/// The states of every word, and what the way back needs.
pub(super) fn forward(
    unit: &Unit,
    schedules: &[&Schedule],
    size: Size,
    inputs: &[&Array<f32>],
) -> Result<(Array<f32>, Kept), Error> {
    let &[given, weight, bias] = inputs else { unreachable!("inputs, weight and bias") };
    let (members, places) = (schedules.len(), Places::new(schedules));
    let (Size { dim, directions, .. }, count) = (size, places.count());
    let units = members * directions;
    let [given_of, word_of, place_of] = places.tables(schedules, size);
    let given_of = unit.array(&given_of)?;
    let states = unit.empty::<f32>(units * count * dim)?;
    // Zeros where a member has no word: the gradient of the weights adds up all places.
    let before = unit.zeros::<f32>(units * count * dim)?;
    let gates = unit.empty::<f32>(units * count * 4 * dim)?;
    let most = places.active.first().copied().unwrap_or(0);
    let recurrent = unit.empty::<f32>(units * most * 3 * dim)?;
    for step in 0..places.steps() {
        let (first, active) = (places.first[step], places.active[step]);
        let last = if step == 0 { 0 } else { places.first[step - 1] };
        if step > 0 {
            let old = Operand::new(&states, last * dim, dim).apart(count * dim);
            let weight = Operand::new(weight, 0, dim).apart(3 * dim * dim).turned();
            let out = Operand::new(&recurrent, 0, 3 * dim).apart(active * 3 * dim);
            unit.multiply_each(units, (active, 3 * dim, dim), old, weight, 0.0, out)?;
        }
        let arguments = [
            (&states).into(),
            (&gates).into(),
            (&before).into(),
            (&recurrent).into(),
            given.into(),
            bias.into(),
            (&given_of).into(),
            count.into(),
            first.into(),
            last.into(),
            active.into(),
            dim.into(),
        ];
        unit.run("gru_step", size.grid(active, members), &arguments)?;
    }
    let words = place_of.len() / directions;
    let (out, place_of) = (unit.empty(words * size.out())?, unit.array(&place_of)?);
    let arguments = [
        (&out).into(),
        (&states).into(),
        (&place_of).into(),
        words.into(),
        dim.into(),
        directions.into(),
        size.side_by_side.into(),
    ];
    unit.run("gru_means", Unit::rows(words), &arguments)?;
    let word_of = unit.array(&word_of)?;
    Ok((out, Kept { given_of, word_of, before, gates }))
}

/// The gradients of the inputs, of the weight and of the bias.
pub(super) fn backward(
    unit: &Unit,
    schedules: &[&Schedule],
    size: Size,
    weight: &Array<f32>,
    kept: &Kept,
    upstream: &Array<f32>,
) -> Result<[Array<f32>; 3], Error> {
    let (members, places) = (schedules.len(), Places::new(schedules));
    let (Size { rows, dim, directions, side_by_side }, units) = (size, members * size.directions);
    let (count, captions) = (places.count(), places.active.first().copied().unwrap_or(0));
    let continued = |step: usize| schedules.iter().map(move |own| active(own, step + 1) as u32);
    let continued: Vec<u32> = (0..places.steps()).flat_map(continued).collect();
    let continued = unit.array(&continued)?;
    // Zeros for padding, and where a member has no word.
    let of_given = unit.zeros::<f32>(members * rows * size.width())?;
    // Gate by gate, so that a step has many products side by side, which fill a device.
    let of_gates = unit.zeros::<f32>(units * 3 * count * dim)?;
    let by_gates = unit.empty::<f32>(units * 3 * captions * dim)?;
    let carried = unit.empty::<f32>(units * captions * dim)?;
    for step in (0..places.steps()).rev() {
        let (first, active) = (places.first[step], places.active[step]);
        let arguments = [
            (&carried).into(),
            (&by_gates).into(),
            (&of_gates).into(),
            (&of_given).into(),
            (&kept.gates).into(),
            (&kept.before).into(),
            upstream.into(),
            (&kept.given_of).into(),
            (&kept.word_of).into(),
            continued.at(step * members).into(),
            count.into(),
            first.into(),
            captions.into(),
            dim.into(),
            directions.into(),
            side_by_side.into(),
        ];
        unit.run("gru_step_back", size.grid(active, members), &arguments)?;
        if step > 0 {
            let gates = Operand::new(&of_gates, first * dim, dim).apart(count * dim);
            let weight = Operand::new(weight, 0, dim).apart(dim * dim);
            let out = Operand::new(&by_gates, 0, dim).apart(captions * dim);
            unit.multiply_each(3 * units, (active, dim, dim), gates, weight, 0.0, out)?;
        }
    }
    let of_weight = unit.empty::<f32>(units * 3 * dim * dim)?;
    let (of_gates_factor, before) =
        (unit.factor(&of_gates, dim, dim)?, unit.factor(&kept.before, dim, dim)?);
    for of_unit in 0..units {
        let gates = of_gates_factor.operand(of_unit * 3 * count * dim, dim).apart(count * dim);
        let before = before.operand(of_unit * count * dim, dim);
        let out = Operand::new(&of_weight, of_unit * 3 * dim * dim, dim).apart(dim * dim);
        unit.multiply_each(3, (dim, dim, count), gates.turned(), before, 0.0, out)?;
    }
    let of_bias = unit.empty::<f32>(units * 3 * dim)?;
    unit.column_sums_of_each(3 * units, &of_gates, dim, 0.0, &of_bias)?;
    Ok([of_given, of_weight, of_bias])
}
