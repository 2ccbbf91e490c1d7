//! Steps on a GPU: all weights in one launch.

use nextpair_cuda::{Array, Grid, Pointer};

use super::{Descent, Method};
use crate::cuda::Unit;
use crate::device::Cuda;
use crate::{Error, Tensor, Values};

/// Numbers that a block handles, as the kernels have it.
const OF_BLOCK: usize = 8192;

/// Moments that kernels take of a weight.
const MOMENTS: usize = 3;

/// Takes the steps, with the gradients of each member clipped to a norm of `clip` together. Returns
/// the norms before.
pub(super) fn descend(
    cuda: Cuda,
    method: Method,
    steps: Vec<Descent<'_>>,
    members: usize,
    clip: f64,
) -> Result<Array<f64>, Error> {
    let unit = Unit::new(cuda)?;
    let (kernel, decay) = match method {
        Method::Sgd { decay } => ("sgd", decay),
        _ => ("adam", 0.0),
    };
    let both = |low: f64, high: f64| {
        let bits = |number: f64| u64::from((number as f32).to_bits());
        bits(low) | bits(high) << 32
    };
    let mut weights = Vec::with_capacity(steps.len());
    for Descent { weight, moments, gradient, rate, size, root } in steps {
        let Values::Cuda(_, gradient) = gradient else { return Err(Error::Devices) };
        let mut arrays = vec![Some(own(weight)?)];
        for kept in &mut moments.kept {
            arrays.push(Some(own(kept)?));
        }
        arrays.resize(1 + MOMENTS, None);
        arrays.push(Some(gradient.clone()));
        let size = if kernel == "sgd" { rate } else { size };
        let numbers = [both(size, 1.0 / root), both(method.kept_share(rate), decay)];
        weights.push((arrays, gradient.len() / members, numbers));
    }
    // Member by member, so that the sums of a member lie together.
    let (mut entries, mut firsts, mut bounds, mut blocks) = (Vec::new(), Vec::new(), vec![0], 0);
    for member in 0..members {
        for (arrays, each, numbers) in &weights {
            let address = |array: &Option<Array<f32>>| {
                array.as_ref().map_or(Pointer::NULL, |array| array.at(member * each)).bits()
            };
            entries.extend(arrays.iter().map(address));
            entries.push(*each as u64);
            entries.extend(numbers);
            entries.push(member as u64);
            firsts.push(blocks as u32);
            blocks += each.div_ceil(OF_BLOCK);
        }
        bounds.push(blocks as u32);
    }
    let (entries, count, firsts) = (unit.array(&entries)?, firsts.len(), unit.array(&firsts)?);
    let (parts, norms) = (unit.empty::<f64>(blocks)?, unit.empty::<f64>(members)?);
    let arguments = [(&parts).into(), (&entries).into(), (&firsts).into(), count.into()];
    unit.run("squares", Grid::blocks(blocks, 256), &arguments)?;
    let bounds = unit.array(&bounds)?;
    let arguments = [(&norms).into(), (&parts).into(), (&bounds).into()];
    unit.run("roots_of_sums", Grid::blocks(members, 1024), &arguments)?;
    let arguments =
        [(&entries).into(), (&firsts).into(), count.into(), (&norms).into(), clip.into()];
    unit.run(kernel, Grid::blocks(blocks, 256), &arguments)?;
    Ok(norms)
}

/// The numbers of a tensor, which nobody else uses.
fn own(tensor: &mut Tensor) -> Result<Array<f32>, Error> {
    match tensor.values_mut() {
        Values::Cuda(_, numbers) => {
            numbers.make_own()?;
            Ok(numbers.clone())
        }
        _ => Err(Error::Devices),
    }
}
