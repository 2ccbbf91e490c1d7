//! The recurrent units of the members of an ensemble.

mod gpu;

use std::sync::OnceLock;

use nextpair_cuda::Array;

use super::{Gru, pass::Schedule};
use crate::cuda::Unit;
use crate::operation::{Operation, apply};
use crate::{Error, Real, Tensor};
use gpu::{Kept, Size};

/// The hidden states of every word, words by `dim`, of several members, averaged over the directions.
///
/// The captions are those of the first member, of the second, and so on: equally many of each. Caption
/// `c` has the words from `offsets[c]` to `offsets[c + 1]`. `inputs` has equally many rows of
/// `directions * 3 dim` numbers for every member, at least as many as it has words; the rest is padding,
/// which has no gradient. `weight` is members by `directions * 3 dim` by `dim`, and `bias` has
/// `directions * 3 dim` numbers for each. The second direction reads every caption from its end.
///
/// # Errors
/// If the shapes do not match.
pub fn gru_of_members(
    inputs: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    offsets: &[usize],
) -> Result<Tensor, Error> {
    let (rows, width) = inputs.matrix_shape()?;
    let [members, stacked, dim] = *weight.shape() else {
        return Err(Error::NotAMatrix { shape: weight.shape().to_vec() });
    };
    let (members, directions) = (members.max(1), stacked / (3 * dim).max(1));
    Error::check_dims("the inputs of a recurrent unit", width, "its weights", stacked)?;
    Error::check_len("the weights of a recurrent unit", stacked, directions.clamp(1, 2) * 3 * dim)?;
    Error::check_len("the bias of a recurrent unit", bias.len(), members * stacked)?;
    if offsets.first() != Some(&0) || offsets.windows(2).any(|pair| pair[0] > pair[1]) {
        return Err(Error::Offsets);
    }
    let captions = (offsets.len() - 1) / members;
    Error::check_len("the captions of members", offsets.len() - 1, members * captions)?;
    let padded = rows / members;
    Error::check_len("the words of members", rows, members * padded)?;
    let each = (0..members).map(|member| {
        let own = &offsets[member * captions..=(member + 1) * captions];
        let own: Vec<usize> = own.iter().map(|offset| offset - own[0]).collect();
        Gru::new(own, dim, directions)
    });
    let each: Vec<Gru> = each.collect();
    let longest = each.iter().map(Gru::words).max().unwrap_or(0);
    Error::check_len("the words of a member", padded, padded.max(longest))?;
    let size = Size { padded, dim, directions };
    apply(Members { each, size, kept: OnceLock::new() }, &[inputs, weight, bias])
}

struct Members {
    each: Vec<Gru>,
    size: Size,
    /// What the way back needs, on a GPU.
    kept: OnceLock<Kept>,
}

impl Members {
    /// The inputs of a member.
    fn inputs<'a, N>(&self, inputs: &[&'a [N]], member: usize) -> [&'a [N]; 3] {
        let (Size { padded, dim, .. }, width) = (self.size, self.size.width());
        let &[given, weight, bias] = inputs else { unreachable!("inputs, weight and bias") };
        [
            &given[member * padded * width..][..self.each[member].words() * width],
            &weight[member * width * dim..][..width * dim],
            &bias[member * width..][..width],
        ]
    }

    fn schedules(&self) -> Vec<&Schedule> {
        self.each.iter().map(|gru| &gru.schedule).collect()
    }
}

impl Operation for Members {
    fn shape(&self) -> Vec<usize> {
        vec![self.each.iter().map(Gru::words).sum(), self.size.dim]
    }

    fn formula<R: Real>(&self, inputs: &[&[R]]) -> Vec<R> {
        let member = |member: usize| self.each[member].formula(&self.inputs(inputs, member));
        (0..self.each.len()).flat_map(member).collect()
    }

    fn forward(&self, inputs: &[&[f32]]) -> Result<Vec<f32>, Error> {
        let mut out = Vec::with_capacity(self.shape().iter().product());
        for (member, gru) in self.each.iter().enumerate() {
            out.extend(gru.forward(&self.inputs(inputs, member))?);
        }
        Ok(out)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        mut upstream: &[f32],
        wanted: &[bool],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let mut all = [Vec::new(), Vec::new(), Vec::new()];
        for (member, gru) in self.each.iter().enumerate() {
            let (own, rest) = upstream.split_at(gru.words() * self.size.dim);
            upstream = rest;
            let found = gru.backward(&self.inputs(inputs, member), own, wanted)?;
            for (all, found) in all.iter_mut().zip(found) {
                all.extend(found.unwrap_or_default());
            }
            all[0].resize((member + 1) * self.size.padded * self.size.width(), 0.0);
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
    use crate::ops::gru;
    use crate::ops::judge::{judge, tensor};

    /// Two members of three captions. The first has more words, the second the longest caption.
    const OFFSETS: [usize; 7] = [0, 4, 9, 11, 12, 19, 20];

    #[test]
    fn every_device_follows_the_formula() {
        for (dim, directions) in [(3, 1), (40, 1), (3, 2), (40, 2)] {
            for padded in [11, 13] {
                let width = directions * 3 * dim;
                let inputs = [
                    tensor(1, &[2 * padded, width]),
                    tensor(2, &[2, width, dim]),
                    tensor(3, &[2, width]),
                ];
                judge(&inputs, 1e-5, |inputs| {
                    gru_of_members(&inputs[0], &inputs[1], &inputs[2], &OFFSETS)
                });
            }
        }
        let refused = |rows: usize, offsets: &[usize]| {
            let (weight, bias) = (tensor(2, &[2, 9, 3]), tensor(3, &[2, 9]));
            gru_of_members(&tensor(1, &[rows, 9]), &weight, &bias, offsets).is_err()
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
            let all = gru_of_members(&inputs, &weight, &bias, &OFFSETS).unwrap();
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
