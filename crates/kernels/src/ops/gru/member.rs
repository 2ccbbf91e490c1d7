//! The recurrent unit of one member on the CPU.

use std::sync::OnceLock;

use super::Size;
use super::pass::{Pass, Schedule, Target, join_inputs};
use crate::Real;

/// The captions of a member, and what its unit keeps.
pub(super) struct Member {
    pub(super) schedule: Schedule,
    offsets: Vec<usize>,
    size: Size,
    /// State that the forward pass keeps for the backward pass, one per direction.
    passes: OnceLock<Vec<Pass>>,
}

impl Member {
    pub(super) fn new(offsets: Vec<usize>, size: Size) -> Self {
        Member { schedule: Schedule::new(&offsets), offsets, size, passes: OnceLock::new() }
    }

    /// Words of all captions.
    pub(super) fn words(&self) -> usize {
        self.schedule.word_count()
    }

    fn part<'a>(&self, values: &'a [f32], direction: usize, width: usize) -> &'a [f32] {
        let each = 3 * self.size.dim * width;
        &values[direction * each..][..each]
    }

    /// Where the states of a direction go.
    fn target(&self, direction: usize) -> Target {
        let Size { dim, directions, side_by_side, .. } = self.size;
        match side_by_side {
            true => Target { width: self.size.out(), first: direction * dim, scale: 1.0 },
            false => Target { width: dim, first: 0, scale: 1.0 / directions as f32 },
        }
    }

    /// Runs every direction, two in parallel.
    fn each<T: Send>(&self, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
        match self.size.directions {
            1 => vec![run(0)],
            _ => <[T; 2]>::from(rayon::join(|| run(0), || run(1))).into(),
        }
    }

    /// The states by the formula.
    pub(super) fn formula<R: Real>(&self, [given, weight, bias]: [&[R]; 3]) -> Vec<R> {
        let Size { dim, directions, side_by_side, .. } = self.size;
        let mut states = vec![R::of(0.0); self.words() * self.size.out()];
        for direction in 0..directions {
            let first = direction * 3 * dim;
            for caption in self.offsets.windows(2) {
                let mut state = vec![R::of(0.0); dim];
                let mut words: Vec<usize> = (caption[0]..caption[1]).collect();
                if direction == 1 {
                    words.reverse();
                }
                for word in words {
                    let before = state.clone();
                    let recurrent = |gate: usize, at: usize| {
                        let row = first + gate * dim + at;
                        R::dot(&weight[row * dim..][..dim], &before) + bias[row]
                    };
                    for (at, state) in state.iter_mut().enumerate() {
                        let input =
                            |gate| given[(word * directions) * 3 * dim + first + gate * dim + at];
                        let reset = (input(0) + recurrent(0, at)).sigmoid();
                        let keep = (input(1) + recurrent(1, at)).sigmoid();
                        let candidate = (input(2) + reset * recurrent(2, at)).tanh();
                        *state = (R::of(1.0) - keep) * candidate + keep * before[at];
                    }
                    let target = self.target(direction);
                    let out = &mut states[word * target.width + target.first..][..dim];
                    let share = R::of(if side_by_side { 1.0 } else { 1.0 / directions as f64 });
                    out.iter_mut()
                        .zip(&state)
                        .for_each(|(out, &state)| *out = *out + share * state);
                }
            }
        }
        states
    }

    /// Adds the states to `out`, and keeps what the way back needs.
    pub(super) fn forward(&self, inputs: [&[f32]; 3], out: &mut [f32]) {
        let Size { dim, directions, .. } = self.size;
        let passes = self.each(|direction| {
            let (weight, bias) =
                (self.part(inputs[1], direction, dim), self.part(inputs[2], direction, 1));
            Pass::forward(&self.schedule, inputs[0], (directions, direction), weight, bias, dim)
        });
        for (direction, pass) in passes.iter().enumerate() {
            pass.add_states(&self.schedule, self.target(direction), out);
        }
        self.passes.get_or_init(|| passes);
    }

    /// The gradients of the inputs, of the weight and of the bias.
    pub(super) fn backward(&self, inputs: [&[f32]; 3], upstream: &[f32]) -> [Vec<f32>; 3] {
        let passes = self.passes.get().map_or(&[][..], Vec::as_slice);
        let gradients = self.each(|direction| {
            let weight = self.part(inputs[1], direction, self.size.dim);
            passes[direction].backward(&self.schedule, weight, upstream, self.target(direction))
        });
        let of_weight = gradients.iter().flat_map(|g| g.weight.iter().copied()).collect();
        let of_bias = gradients.iter().flat_map(|g| g.bias.iter().copied()).collect();
        let of_inputs = join_inputs(&self.schedule, &gradients, self.size.dim);
        [of_inputs, of_weight, of_bias]
    }
}
