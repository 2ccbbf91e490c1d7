//! A gated recurrent unit over captions of any length, in one or both directions, with PyTorch's
//! equations (gates stacked r, z, n; the reset gate is applied after the recurrent product):
//!
//! ```text
//! r = sig(i_r + W_hr h + b_hr)      z = sig(i_z + W_hz h + b_hz)
//! c = tanh(i_n + r * (W_hn h + b_hn))      h' = (1 - z) * c + z * h,  h_0 = 0
//! ```
//!
//! `i` are the products with the inputs, computed for all words at once. Captions are worked on
//! longest first, so that those still running at a step are the first rows: nothing is padded.

mod pass;

use std::sync::Mutex;

use candle_core::{CpuStorage, CustomOp3, DType, Layout, Shape, Tensor};

use crate::Error;
use crate::attention::sigmoid;
use crate::numbers::{lend, storage};
use crate::ragged::indices;
use pass::{Pass, Schedule};

/// The hidden states of every word, averaged over the directions: words by `dim`.
///
/// `inputs` is words by `directions * 3 dim`, `weight` `directions * 3 dim` by `dim`, `bias` as
/// long; the second direction reads every caption from its end.
pub(crate) fn hidden_states(
    inputs: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    offsets: &[usize],
) -> Result<Tensor, Error> {
    let dim = weight.dim(1)?;
    let schedule = Schedule::new(offsets);
    if inputs.device().is_cpu() && inputs.dtype() == DType::F32 {
        let op = Recurrence { schedule, dim, passes: Mutex::default() };
        return Ok(inputs.contiguous()?.apply_op3(&weight.contiguous()?, bias, op)?);
    }
    let directions = weight.dim(0)? / (3 * dim);
    let states = (0..directions)
        .map(|direction| composed(inputs, weight, bias, &schedule, direction))
        .collect::<Result<Vec<Tensor>, Error>>()?;
    let sum = states.iter().skip(1).try_fold(states[0].clone(), |sum, state| sum + state)?;
    Ok((sum / directions as f64)?)
}

/// One direction of plain tensor operations: for every device, and what the fast one must equal.
fn composed(
    inputs: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    schedule: &Schedule,
    direction: usize,
) -> Result<Tensor, Error> {
    let dim = weight.dim(1)?;
    let part = direction * 3 * dim;
    let inputs = inputs.narrow(1, part, 3 * dim)?.contiguous()?;
    let weight = weight.narrow(0, part, 3 * dim)?.t()?;
    let bias = bias.narrow(0, part, 3 * dim)?;
    let device = inputs.device();
    let mut states: Vec<Tensor> = Vec::new();
    for step in 0..schedule.steps() {
        let words = schedule.words(step, direction == 1);
        let active = words.len();
        let given = inputs.index_select(&indices(words, device)?, 0)?;
        let before = match states.last() {
            Some(state) => state.narrow(0, 0, active)?,
            None => Tensor::zeros((active, dim), inputs.dtype(), device)?,
        };
        let recurrent = before.matmul(&weight)?.broadcast_add(&bias)?;
        let gate = |at: usize| {
            sigmoid(&(given.narrow(1, at * dim, dim)? + recurrent.narrow(1, at * dim, dim)?)?)
        };
        let (reset, keep) = (gate(0)?, gate(1)?);
        let inner = (reset * recurrent.narrow(1, 2 * dim, dim)?)?;
        let candidate = (given.narrow(1, 2 * dim, dim)? + inner)?.tanh()?;
        states.push(((&keep * (before - &candidate)?)? + candidate)?);
    }
    let places = schedule.places(direction == 1);
    Ok(Tensor::cat(&states, 0)?.index_select(&indices(places, device)?, 0)?)
}

/// The same on the processor, both directions at once, forward and backward by hand.
struct Recurrence {
    schedule: Schedule,
    dim: usize,
    /// What the forward pass keeps for the backward pass, one of each direction.
    passes: Mutex<Vec<Pass>>,
}

impl Recurrence {
    fn part<'a>(&self, values: &'a [f32], direction: usize, width: usize) -> &'a [f32] {
        &values[direction * 3 * self.dim * width..][..3 * self.dim * width]
    }
}

impl CustomOp3 for Recurrence {
    fn name(&self) -> &'static str {
        "gru"
    }

    fn cpu_fwd(
        &self,
        inputs: &CpuStorage,
        inputs_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let dim = self.dim;
        let inputs = storage(inputs, inputs_layout)?;
        let (weight, bias) = (storage(weight, weight_layout)?, storage(bias, bias_layout)?);
        let directions = bias.len() / (3 * dim);
        let run = |direction: usize| {
            let weight = self.part(weight, direction, dim);
            let bias = self.part(bias, direction, 1);
            Pass::forward(&self.schedule, inputs, directions, direction, weight, bias, dim)
        };
        let passes = match directions {
            1 => vec![run(0)],
            _ => <[Pass; 2]>::from(rayon::join(|| run(0), || run(1))).into(),
        };
        let words = self.schedule.word_count();
        let mut out = vec![0.0; words * dim];
        for pass in &passes {
            pass.add_states(&self.schedule, 1.0 / directions as f32, &mut out);
        }
        *self.passes.lock().expect("nothing panics while it is held") = passes;
        Ok((CpuStorage::F32(out), Shape::from((words, dim))))
    }

    fn bwd(
        &self,
        inputs: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        _states: &Tensor,
        upstream: &Tensor,
    ) -> candle_core::Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let (dim, device) = (self.dim, inputs.device());
        let passes = self.passes.lock().expect("nothing panics while it is held");
        let scale = 1.0 / passes.len() as f32;
        let gradients = lend(upstream, |upstream| {
            lend(weight, |weight| {
                let run = |direction: usize| {
                    let weight = self.part(weight, direction, dim);
                    passes[direction].backward(&self.schedule, weight, upstream, scale)
                };
                Ok(match passes.len() {
                    1 => vec![run(0)],
                    _ => <[pass::Gradients; 2]>::from(rayon::join(|| run(0), || run(1))).into(),
                })
            })
        })?;
        let of_inputs = pass::join_inputs(&self.schedule, &gradients, dim);
        let of_weight: Vec<f32> = gradients.iter().flat_map(|g| g.weight.iter().copied()).collect();
        let of_bias: Vec<f32> = gradients.iter().flat_map(|g| g.bias.iter().copied()).collect();
        Ok((
            Some(Tensor::from_vec(of_inputs, inputs.shape(), device)?),
            Some(Tensor::from_vec(of_weight, weight.shape(), device)?),
            Some(Tensor::from_vec(of_bias, bias.shape(), device)?),
        ))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};
    use nextpair_data::Draws;

    use super::*;

    fn var(draws: &mut Draws, shape: (usize, usize)) -> Var {
        let values: Vec<f32> = (0..shape.0 * shape.1).map(|_| draws.normal() as f32).collect();
        Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu).unwrap()).unwrap()
    }

    #[test]
    fn the_fast_one_equals_plain_operations_forward_and_backward() {
        for (directions, dim) in [(1, 5), (2, 5), (2, 40)] {
            let offsets = [0, 3, 4, 11, 13, 16];
            let mut draws = Draws::new(7);
            let inputs = var(&mut draws, (16, directions * 3 * dim));
            let weight = var(&mut draws, (directions * 3 * dim, dim));
            let bias = var(&mut draws, (1, directions * 3 * dim));
            let mix = var(&mut draws, (16, dim));
            let bias_row = bias.flatten_all().unwrap();
            let fast = hidden_states(&inputs, &weight, &bias_row, &offsets).unwrap();
            let schedule = Schedule::new(&offsets);
            let plain: Vec<Tensor> = (0..directions)
                .map(|d| composed(&inputs, &weight, &bias_row, &schedule, d).unwrap())
                .collect();
            let plain = plain.iter().skip(1).fold(plain[0].clone(), |sum, p| (sum + p).unwrap());
            let plain = (plain / directions as f64).unwrap();
            let close = |a: &Tensor, b: &Tensor| {
                let difference = (a - b).unwrap().abs().unwrap().max_all().unwrap();
                let size = b.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
                let difference = difference.to_scalar::<f32>().unwrap();
                assert!(difference <= 1e-5 * size.max(1.0), "{difference} of {size}");
            };
            close(&fast, &plain);
            let gradients =
                |states: &Tensor| (states * mix.as_tensor()).unwrap().backward().unwrap();
            let (fast, plain) = (gradients(&fast), gradients(&plain));
            for var in [&inputs, &weight, &bias] {
                close(fast.get(var).unwrap(), plain.get(var).unwrap());
            }
        }
    }
}
