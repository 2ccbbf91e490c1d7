//! What a loss reports of each member of an ensemble, beside its value.

use nextpair_cuda::Array;

use crate::operation::Operation;
use crate::real::derivatives;
use crate::{Error, Tensor};

/// A loss of one member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// The loss, summed over the batch.
    pub loss: f64,
    /// Number of scores with a derivative.
    pub active: usize,
    /// The place of the first score that is NaN or infinite, and that score.
    pub bad: Option<(usize, f32)>,
}

/// The losses of all members. On a GPU they are known once the work before them is done.
#[derive(Clone, Debug)]
pub enum Tally {
    /// Known.
    Known(Vec<Counted>),
    /// On a GPU: four numbers of each, as the kernel `tally` has them.
    Pending(Array<f64>),
}

impl Tally {
    /// The losses of all members. Waits for them.
    ///
    /// # Errors
    /// If the device, or work on it, failed.
    pub fn read(&self) -> Result<Vec<Counted>, Error> {
        let numbers = match self {
            Tally::Known(all) => return Ok(all.clone()),
            Tally::Pending(numbers) => numbers.to_vec()?,
        };
        let counted = |of: &[f64]| Counted {
            loss: of[0],
            active: of[1] as usize,
            bad: (!of[3].is_finite()).then_some((of[2] as usize, of[3] as f32)),
        };
        Ok(numbers.chunks_exact(4).map(counted).collect())
    }

    /// The same by the formula of a loss whose first input is the scores, for devices without a
    /// kernel.
    pub(crate) fn by_formula<O: Operation>(
        operation: &O,
        inputs: &[&Tensor],
        members: usize,
    ) -> Result<Self, Error> {
        let numbers = inputs.iter().map(|input| input.to_f64s()).collect::<Result<Vec<_>, _>>()?;
        let numbers: Vec<&[f64]> = numbers.iter().map(Vec::as_slice).collect();
        let losses = operation.formula(&numbers);
        let slopes = derivatives(&numbers, &vec![1.0; members], |inputs| operation.formula(inputs));
        let each = numbers[0].len() / members.max(1);
        let counted = |(member, &loss): (usize, &f64)| {
            let part = |of: &[f64]| of[member * each..][..each].to_vec();
            let scores = part(numbers[0]);
            let bad = scores.iter().position(|score| !score.is_finite());
            Counted {
                loss,
                active: part(&slopes[0]).iter().filter(|&&slope| slope as f32 != 0.0).count(),
                bad: bad.map(|at| (at, scores[at] as f32)),
            }
        };
        Ok(Tally::Known(losses.iter().enumerate().map(counted).collect()))
    }
}
