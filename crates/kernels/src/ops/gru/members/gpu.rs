//! The recurrences of members on a GPU: one batched product and one kernel a step.

use nextpair_cuda::{Array, Grid, Operand};

use crate::Error;
use crate::cuda::Unit;
use crate::ops::gru::pass::Schedule;

/// What the forward pass keeps for the backward pass.
pub(super) struct Kept {
    /// The row of the inputs, and of the result, for each place of each member.
    given_of: Array<u32>,
    word_of: Array<u32>,
    /// The states before each word.
    before: Array<f32>,
    /// Gates: r, z, c and the recurrent part of c before r.
    gates: Array<f32>,
}

/// A place that a member does not use, as the kernels have it.
const NOWHERE: u32 = u32::MAX;

/// Where the words of members are read: every member has the same places.
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

    /// For each place of each member the row of the inputs and of the result, and for each row of the
    /// result its place.
    fn tables(&self, schedules: &[&Schedule], padded: usize) -> [Vec<u32>; 3] {
        let all = schedules.len() * self.count();
        let (mut given_of, mut word_of) = (vec![NOWHERE; all], vec![NOWHERE; all]);
        let words: usize = schedules.iter().map(|schedule| schedule.word_count()).sum();
        let (mut place_of, mut before) = (vec![0; words], 0);
        for (member, schedule) in schedules.iter().enumerate() {
            for step in 0..schedule.steps() {
                for row in 0..schedule.active(step) {
                    let place = member * self.count() + self.first[step] + row;
                    let word = schedule.word(step, row, false);
                    given_of[place] = (member * padded + word) as u32;
                    word_of[place] = (before + word) as u32;
                    place_of[before + word] = place as u32;
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

/// A thread for each number of the states of a step.
fn grid(dim: usize, active: usize, members: usize) -> Grid {
    let blocks = (dim.div_ceil(128) as u32, active as u32, members as u32);
    Grid { blocks, threads: 128, shared: 0 }
}

/// The states of every word, and what the way back needs.
pub(super) fn forward(
    unit: &Unit,
    schedules: &[&Schedule],
    (padded, dim): (usize, usize),
    inputs: &[&Array<f32>],
) -> Result<(Array<f32>, Kept), Error> {
    let &[given, weight, bias] = inputs else { unreachable!("inputs, weight and bias") };
    let (members, places) = (schedules.len(), Places::new(schedules));
    let count = places.count();
    let [given_of, word_of, place_of] = places.tables(schedules, padded);
    let given_of = unit.array(&given_of)?;
    let states = unit.empty::<f32>(members * count * dim)?;
    // Zeros where a member has no word: the gradient of the weights adds up all places.
    let before = unit.zeros::<f32>(members * count * dim)?;
    let gates = unit.empty::<f32>(members * count * 4 * dim)?;
    let most = places.active.first().copied().unwrap_or(0);
    let recurrent = unit.empty::<f32>(members * most * 3 * dim)?;
    for step in 0..places.steps() {
        let (first, active) = (places.first[step], places.active[step]);
        let last = if step == 0 { 0 } else { places.first[step - 1] };
        if step > 0 {
            let old = Operand::new(&states, last * dim, dim).apart(count * dim);
            let weight = Operand::new(weight, 0, dim).apart(3 * dim * dim).turned();
            let out = Operand::new(&recurrent, 0, 3 * dim).apart(active * 3 * dim);
            unit.multiply_each(members, (active, 3 * dim, dim), old, weight, 0.0, out)?;
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
        unit.run("gru_members_step", grid(dim, active, members), &arguments)?;
    }
    let out = unit.empty(place_of.len() * dim)?;
    let rows = unit.array(&place_of)?;
    let arguments = [(&out).into(), (&states).into(), (&rows).into(), dim.into()];
    unit.run("gather", Unit::rows(place_of.len()), &arguments)?;
    let word_of = unit.array(&word_of)?;
    Ok((out, Kept { given_of, word_of, before, gates }))
}

/// The gradients of the inputs, of the weight and of the bias.
pub(super) fn backward(
    unit: &Unit,
    schedules: &[&Schedule],
    (padded, dim): (usize, usize),
    weight: &Array<f32>,
    kept: &Kept,
    upstream: &Array<f32>,
) -> Result<[Array<f32>; 3], Error> {
    let (members, places) = (schedules.len(), Places::new(schedules));
    let (count, captions) = (places.count(), places.active.first().copied().unwrap_or(0));
    let continued = |step: usize| schedules.iter().map(move |own| active(own, step + 1) as u32);
    let continued: Vec<u32> = (0..places.steps()).flat_map(continued).collect();
    let continued = unit.array(&continued)?;
    // Zeros for padding, and where a member has no word.
    let of_given = unit.zeros::<f32>(members * padded * 3 * dim)?;
    let of_gates = unit.zeros::<f32>(members * count * 3 * dim)?;
    let carried = unit.empty::<f32>(members * captions * dim)?;
    for step in (0..places.steps()).rev() {
        let (first, active) = (places.first[step], places.active[step]);
        let arguments = [
            (&carried).into(),
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
        ];
        unit.run("gru_members_step_back", grid(dim, active, members), &arguments)?;
        if step > 0 {
            let gates = Operand::new(&of_gates, first * 3 * dim, 3 * dim).apart(count * 3 * dim);
            let weight = Operand::new(weight, 0, dim).apart(3 * dim * dim);
            let out = Operand::new(&carried, 0, dim).apart(captions * dim);
            unit.multiply_each(members, (active, dim, 3 * dim), gates, weight, 1.0, out)?;
        }
    }
    let of_weight = unit.empty::<f32>(members * 3 * dim * dim)?;
    let gates = Operand::new(&of_gates, 0, 3 * dim).apart(count * 3 * dim).turned();
    let before = Operand::new(&kept.before, 0, dim).apart(count * dim);
    let out = Operand::new(&of_weight, 0, dim).apart(3 * dim * dim);
    unit.multiply_each(members, (3 * dim, dim, count), gates, before, 0.0, out)?;
    let of_bias = unit.empty::<f32>(members * 3 * dim)?;
    unit.column_sums_of_each(members, &of_gates, 3 * dim, 0.0, &of_bias)?;
    Ok([of_given, of_weight, of_bias])
}
