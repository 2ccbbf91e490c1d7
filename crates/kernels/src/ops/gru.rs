//! A gated recurrent unit over captions of any length, in one or both directions, with PyTorch's
//! equations (gates stacked r, z, n; the reset gate is applied after the recurrent product):
//!
//! ```text
//! r = sig(i_r + W_hr h + b_hr)      z = sig(i_z + W_hz h + b_hz)
//! c = tanh(i_n + r * (W_hn h + b_hn))      h' = (1 - z) * c + z * h,  h_0 = 0
//! ```
//!
//! `i` are the products with the inputs, computed for all words at once. Captions are processed
//! longest first, so that those still running at a step are the first rows: nothing is padded.

mod cell;
mod gates;
mod gpu;
mod members;
mod pass;

use std::sync::OnceLock;

use nextpair_cuda::Array;

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};
pub use cell::gru_cell;
use gpu::{Kept, Size};
pub use members::gru_of_members;
use pass::{Pass, Schedule, Target};

/// The hidden states of every word, averaged over the directions: words by `dim`.
///
/// `inputs` is words by `directions * 3 dim`, `weight` is `directions * 3 dim` by `dim`, and `bias`
/// has `directions * 3 dim` numbers. The second direction reads every caption from its end. Caption
/// `c` has the words from `offsets[c]` to `offsets[c + 1]`.
///
/// # Errors
/// If the shapes do not match.
pub fn gru(
    inputs: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    offsets: &[usize],
) -> Result<Tensor, Error> {
    states(inputs, weight, bias, offsets, false)
}

/// The same with the states of the directions side by side: words by `directions * dim`.
///
/// # Errors
/// If the shapes do not match.
pub fn gru_side_by_side(
    inputs: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    offsets: &[usize],
) -> Result<Tensor, Error> {
    states(inputs, weight, bias, offsets, true)
}

fn states(
    inputs: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    offsets: &[usize],
    side_by_side: bool,
) -> Result<Tensor, Error> {
    let ((words, width), (stacked, dim)) = (inputs.matrix_shape()?, weight.matrix_shape()?);
    let directions = stacked / (3 * dim).max(1);
    Error::check_dims("the inputs of a recurrent unit", width, "its weights", stacked)?;
    Error::check_len("the weights of a recurrent unit", stacked, directions.clamp(1, 2) * 3 * dim)?;
    if offsets.first() != Some(&0) || offsets.windows(2).any(|pair| pair[0] > pair[1]) {
        return Err(Error::Offsets);
    }
    Error::check_len("the bias of a recurrent unit", bias.len(), stacked)?;
    let gru = Gru { side_by_side, ..Gru::new(offsets.to_vec(), dim, directions) };
    Error::check_len("the words of captions", words, gru.words())?;
    apply(gru, &[inputs, weight, bias])
}

struct Gru {
    schedule: Schedule,
    offsets: Vec<usize>,
    dim: usize,
    directions: usize,
    /// Whether the states of directions lie side by side, rather than being averaged.
    side_by_side: bool,
    /// State that the forward pass keeps for the backward pass, one per direction.
    passes: OnceLock<Vec<Pass>>,
    /// The same on a GPU.
    kept: OnceLock<Kept>,
}

impl Gru {
    fn new(offsets: Vec<usize>, dim: usize, directions: usize) -> Self {
        let (passes, kept) = (OnceLock::new(), OnceLock::new());
        let schedule = Schedule::new(&offsets);
        Gru { schedule, offsets, dim, directions, side_by_side: false, passes, kept }
    }

    /// Words of all captions.
    fn words(&self) -> usize {
        self.schedule.word_count()
    }

    fn part<'a>(&self, values: &'a [f32], direction: usize, width: usize) -> &'a [f32] {
        &values[direction * 3 * self.dim * width..][..3 * self.dim * width]
    }

    /// Numbers of a row of the result.
    fn width(&self) -> usize {
        if self.side_by_side { self.directions * self.dim } else { self.dim }
    }

    /// Where the states of a direction go.
    fn target(&self, direction: usize) -> Target {
        match self.side_by_side {
            true => Target { width: self.width(), first: direction * self.dim, scale: 1.0 },
            false => Target { width: self.dim, first: 0, scale: 1.0 / self.directions as f32 },
        }
    }

    fn size(&self) -> Size {
        let &Gru { dim, directions, side_by_side, .. } = self;
        Size { dim, directions, side_by_side }
    }

    /// Runs every direction, two in parallel.
    fn each<T: Send>(&self, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
        match self.directions {
            1 => vec![run(0)],
            _ => <[T; 2]>::from(rayon::join(|| run(0), || run(1))).into(),
        }
    }
}

impl Operation for Gru {
    fn shape(&self) -> Vec<usize> {
        vec![self.schedule.word_count(), self.width()]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let &[given, weight, bias] = inputs else { unreachable!("inputs, weight and bias") };
        let (dim, directions) = (self.dim, self.directions);
        let mut states = vec![R::of(0.0); self.schedule.word_count() * self.width()];
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
                    let share =
                        R::of(if self.side_by_side { 1.0 } else { 1.0 / directions as f64 });
                    out.iter_mut()
                        .zip(&state)
                        .for_each(|(out, &state)| *out = *out + share * state);
                }
            }
        }
        states
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let passes = self.each(|direction| {
            let weight = self.part(inputs[1], direction, self.dim);
            let bias = self.part(inputs[2], direction, 1);
            let of = (self.directions, direction);
            Pass::forward(&self.schedule, inputs[0], of, weight, bias, self.dim)
        });
        let mut out = vec![0.0; self.schedule.word_count() * self.width()];
        for (direction, pass) in passes.iter().enumerate() {
            pass.add_states(&self.schedule, self.target(direction), &mut out);
        }
        self.passes.get_or_init(|| passes);
        Ok(out)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let passes = self.passes.get().map_or(&[][..], Vec::as_slice);
        let gradients = self.each(|direction| {
            let weight = self.part(inputs[1], direction, self.dim);
            passes[direction].backward(&self.schedule, weight, upstream, self.target(direction))
        });
        let of_weight = gradients.iter().flat_map(|g| g.weight.iter().copied()).collect();
        let of_bias = gradients.iter().flat_map(|g| g.bias.iter().copied()).collect();
        let of_inputs = pass::join_inputs(&self.schedule, &gradients, self.dim);
        Ok(vec![Some(of_inputs), Some(of_weight), Some(of_bias)])
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let (out, kept) = gpu::forward(unit, &self.schedule, self.size(), inputs)?;
        self.kept.get_or_init(|| kept);
        Ok(out)
    }

    fn gpu_backward(
        &self,
        unit: &Unit,
        inputs: &[&Array<f32>],
        upstream: &Array<f32>,
        _wanted: &[bool],
    ) -> Result<Vec<Option<Array<f32>>>, Error> {
        let kept = self.kept.get().expect("the forward pass comes first");
        let found = gpu::backward(unit, &self.schedule, self.size(), inputs[1], kept, upstream)?;
        Ok(found.map(Some).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    #[test]
    fn every_device_follows_the_formula() {
        for (directions, dim) in [(1, 5), (2, 5), (2, 40)] {
            let width = directions * 3 * dim;
            let inputs = [tensor(1, &[16, width]), tensor(2, &[width, dim]), tensor(3, &[width])];
            judge(&inputs, 1e-5, |inputs| {
                gru(&inputs[0], &inputs[1], &inputs[2], &[0, 3, 4, 11, 13, 16])
            });
            judge(&inputs, 1e-5, |inputs| {
                gru_side_by_side(&inputs[0], &inputs[1], &inputs[2], &[0, 3, 4, 11, 13, 16])
            });
        }
    }
}
