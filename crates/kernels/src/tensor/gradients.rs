//! Gradients: how derivatives flow back from losses to weights.

use std::collections::{BTreeMap, HashMap};

use super::{Tensor, Values};
use crate::Error;

/// The gradients of a loss, one for every weight it depends on.
#[derive(Debug, Default)]
pub struct Gradients {
    by_age: HashMap<u64, Values>,
}

impl Gradients {
    /// The gradient of a weight, if the loss depends on it.
    pub fn of(&self, weight: &Tensor) -> Option<&Values> {
        self.by_age.get(&weight.0.age)
    }

    /// Takes the gradient of a weight away, if there is one.
    pub(crate) fn take(&mut self, weight: &Tensor) -> Option<Values> {
        self.by_age.remove(&weight.0.age)
    }
}

impl Tensor {
    /// The gradients of a loss for all weights that this tensor was computed from, where `upstream`
    /// holds the derivatives of the loss by these numbers.
    ///
    /// # Errors
    /// If the number of derivatives does not match.
    pub fn backward(&self, upstream: &[f32]) -> Result<Gradients, Error> {
        Self::backward_of(&[(self, upstream)])
    }

    /// Gradients of the sum of several losses, in one pass: each tensor comes with the derivatives
    /// of its loss.
    ///
    /// # Errors
    /// If derivatives and numbers differ in number, or tensors in their device.
    pub fn backward_of(losses: &[(&Tensor, &[f32])]) -> Result<Gradients, Error> {
        let on_device = |&(tensor, upstream): &(&Tensor, &[f32])| {
            Ok((tensor.clone(), Values::on(tensor.device(), upstream.to_vec())?))
        };
        Self::backward_from(losses.iter().map(on_device).collect::<Result<_, Error>>()?)
    }

    /// The same with derivatives that are on their device already.
    pub(crate) fn backward_from(losses: Vec<(Tensor, Values)>) -> Result<Gradients, Error> {
        let mut gradients = Gradients::default();
        // No tensor is older than its inputs: taken youngest first, a gradient is complete before it
        // is passed on.
        let mut open: BTreeMap<u64, (Tensor, Values)> = BTreeMap::new();
        for (tensor, upstream) in losses {
            Error::check_len("the derivatives", upstream.len(), tensor.len())?;
            pass_on(&mut open, &tensor, upstream)?;
        }
        while let Some((age, (tensor, gradient))) = open.pop_last() {
            let Some(origin) = &tensor.0.origin else {
                if tensor.is_tracked() {
                    gradients.by_age.insert(age, gradient);
                }
                continue;
            };
            let passed = origin.operation.backward(&origin.inputs, &gradient)?;
            Error::check_len("the gradients of an operation", passed.len(), origin.inputs.len())?;
            for (input, gradient) in origin.inputs.iter().zip(passed) {
                let Some(gradient) = gradient.filter(|_| input.is_tracked()) else { continue };
                Error::check_len("the gradient of an input", gradient.len(), input.len())?;
                pass_on(&mut open, input, gradient)?;
            }
        }
        Ok(gradients)
    }
}

/// Adds to the gradient of a tensor that is still to be passed on.
fn pass_on(
    open: &mut BTreeMap<u64, (Tensor, Values)>,
    tensor: &Tensor,
    gradient: Values,
) -> Result<(), Error> {
    match open.get_mut(&tensor.0.age) {
        Some((_, sum)) => sum.add(&gradient),
        None => {
            open.insert(tensor.0.age, (tensor.clone(), gradient));
            Ok(())
        }
    }
}
