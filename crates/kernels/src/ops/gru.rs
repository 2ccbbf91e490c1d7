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
mod member;
mod pass;

use std::sync::OnceLock;

use nextpair_cuda::Array;

use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};
pub use cell::gru_cell;
use gpu::Kept;
use member::Member;
use pass::Schedule;

/// The hidden states of every word, averaged over the directions: words by `dim`.
///
/// `inputs` is words by `directions * 3 dim`, `weight` is `directions * 3 dim` by `dim`, and `bias`
/// has `directions * 3 dim` numbers. The second direction reads every caption from its end. Caption
/// `c` has the words from `offsets[c]` to `offsets[c + 1]`.
///
/// A weight of three axes is that of several members of an ensemble, as is a bias of two. Then the captions
/// are those of the first member, of the second, and so on: equally many of each. `inputs` has equally many
/// rows for every member, at least as many as it has words; the rest is padding, which has no gradient.
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
    let (rows, width) = inputs.matrix_shape()?;
    let (members, stacked, dim) = match *weight.shape() {
        [members, stacked, dim] => (members.max(1), stacked, dim),
        _ => (1, weight.matrix_shape()?.0, weight.matrix_shape()?.1),
    };
    let directions = stacked / (3 * dim).max(1);
    Error::check_dims("the inputs of a recurrent unit", width, "its weights", stacked)?;
    Error::check_len("the weights of a recurrent unit", stacked, directions.clamp(1, 2) * 3 * dim)?;
    Error::check_len("the bias of a recurrent unit", bias.len(), members * stacked)?;
    if offsets.first() != Some(&0) || offsets.windows(2).any(|pair| pair[0] > pair[1]) {
        return Err(Error::Offsets);
    }
    let captions = (offsets.len() - 1) / members;
    Error::check_len("the captions of members", offsets.len() - 1, members * captions)?;
    let size = Size { rows: rows / members, dim, directions, side_by_side };
    let member = |member: usize| {
        let own = &offsets[member * captions..=(member + 1) * captions];
        Member::new(own.iter().map(|offset| offset - own[0]).collect(), size)
    };
    let members: Vec<Member> = (0..members).map(member).collect();
    let most = members.iter().map(Member::words).max().unwrap_or(0);
    // A single member has no padding.
    let needed = if members.len() == 1 { most } else { most.max(size.rows) };
    Error::check_len("the words of captions", rows, members.len() * needed)?;
    apply(Gru { members, size, kept: OnceLock::new() }, &[inputs, weight, bias])
}

/// Sizes of a recurrence. Every direction of a member is a unit of its own.
#[derive(Clone, Copy)]
struct Size {
    /// Rows of the inputs of each member.
    rows: usize,
    dim: usize,
    directions: usize,
    /// Whether the states of directions lie side by side, rather than being averaged.
    side_by_side: bool,
}

impl Size {
    /// Numbers of a row of the inputs.
    fn width(self) -> usize {
        self.directions * 3 * self.dim
    }

    /// Numbers of a row of the result.
    fn out(self) -> usize {
        if self.side_by_side { self.directions * self.dim } else { self.dim }
    }
}

struct Gru {
    members: Vec<Member>,
    size: Size,
    /// What the way back needs, on a GPU.
    kept: OnceLock<Kept>,
}

impl Gru {
    /// The inputs of a member.
    fn inputs<'a, N>(&self, inputs: &[&'a [N]], member: usize) -> [&'a [N]; 3] {
        let (Size { rows, dim, .. }, width) = (self.size, self.size.width());
        let &[given, weight, bias] = inputs else { unreachable!("inputs, weight and bias") };
        [
            &given[member * rows * width..][..self.members[member].words() * width],
            &weight[member * width * dim..][..width * dim],
            &bias[member * width..][..width],
        ]
    }

    fn schedules(&self) -> Vec<&Schedule> {
        self.members.iter().map(|member| &member.schedule).collect()
    }

    /// Words of all members.
    fn words(&self) -> usize {
        self.members.iter().map(Member::words).sum()
    }
}

impl Operation for Gru {
    fn shape(&self) -> Vec<usize> {
        vec![self.words(), self.size.out()]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let members = self.members.iter().enumerate();
        members.flat_map(|(at, member)| member.formula(self.inputs(inputs, at))).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = vec![0.0; self.words() * self.size.out()];
        let mut rest = &mut out[..];
        for (at, member) in self.members.iter().enumerate() {
            let (own, later) = rest.split_at_mut(member.words() * self.size.out());
            member.forward(self.inputs(inputs, at), own);
            rest = later;
        }
        Ok(out)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        mut upstream: &[f32],
        _wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let each = self.size.rows * self.size.width();
        let mut all = [Vec::new(), Vec::new(), Vec::new()];
        for (at, member) in self.members.iter().enumerate() {
            let (own, rest) = upstream.split_at(member.words() * self.size.out());
            upstream = rest;
            for (all, found) in all.iter_mut().zip(member.backward(self.inputs(inputs, at), own)) {
                match all.is_empty() {
                    true => *all = found,
                    false => all.extend(found),
                }
            }
            all[0].resize((at + 1) * each, 0.0);
        }
        Ok(all.map(Some).into())
    }

    fn gpu_forward(&self, unit: &Unit, inputs: &[&Array<f32>]) -> Result<Array<f32>, Error> {
        let (out, kept) = gpu::forward(unit, &self.schedules(), self.size, inputs)?;
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
        let found = gpu::backward(unit, &self.schedules(), self.size, inputs[1], kept, upstream)?;
        Ok(found.map(Some).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::judge::{judge, tensor};

    /// Two members of three captions. The first has more words, the second the longest caption.
    const OFFSETS: [usize; 7] = [0, 4, 9, 11, 12, 19, 20];

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
        let refused = |rows: usize| {
            let (weight, bias) = (tensor(2, &[9, 3]), tensor(3, &[9]));
            gru(&tensor(1, &[rows, 9]), &weight, &bias, &[0, 3, 5]).is_err()
        };
        assert!(refused(4) && refused(6) && !refused(5));
    }

    #[test]
    fn members_follow_the_formula_on_every_device() {
        for (dim, directions) in [(3, 1), (40, 1), (3, 2), (40, 2)] {
            for rows in [11, 13] {
                let width = directions * 3 * dim;
                let inputs = [
                    tensor(1, &[2 * rows, width]),
                    tensor(2, &[2, width, dim]),
                    tensor(3, &[2, width]),
                ];
                for gru in [gru, gru_side_by_side] {
                    judge(&inputs, 1e-5, |inputs| {
                        gru(&inputs[0], &inputs[1], &inputs[2], &OFFSETS)
                    });
                }
            }
        }
        let refused = |rows: usize, offsets: &[usize]| {
            let (weight, bias) = (tensor(2, &[2, 9, 3]), tensor(3, &[2, 9]));
            gru(&tensor(1, &[rows, 9]), &weight, &bias, offsets).is_err()
        };
        assert!(refused(20, &OFFSETS), "10 rows for 11 words");
        assert!(refused(23, &OFFSETS) && refused(24, &OFFSETS[..6]) && refused(24, &[0, 3, 2]));
        assert!(!refused(24, &OFFSETS));
    }

    #[test]
    fn members_are_units_of_their_own() {
        for directions in [1, 2] {
            let (dim, padded, width) = (5, 12, 15 * directions);
            let inputs = tensor(1, &[2 * padded, width]);
            let (weight, bias) = (tensor(2, &[2, width, dim]), tensor(3, &[2, width]));
            let all = gru(&inputs, &weight, &bias, &OFFSETS).unwrap();
            let mut alone = Vec::new();
            for (member, words) in [11, 9].into_iter().enumerate() {
                let own = inputs.some_rows(member * padded..member * padded + words).unwrap();
                let weight = weight.some_rows(member..member + 1).unwrap();
                let weight = weight.reshaped(&[width, dim]).unwrap();
                let bias = bias.some_rows(member..member + 1).unwrap();
                let offsets = &OFFSETS[3 * member..=3 * (member + 1)];
                let offsets: Vec<usize> = offsets.iter().map(|o| o - offsets[0]).collect();
                alone.extend(gru(&own, &weight, &bias, &offsets).unwrap().to_f32s().unwrap());
            }
            assert_eq!(all.to_f32s().unwrap(), alone);
        }
    }
}
