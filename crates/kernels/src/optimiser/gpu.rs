//! Adam on a GPU: all weights in one launch.

use nextpair_cuda::{Array, Grid};

use super::Descent;
use crate::cuda::Unit;
use crate::device::Cuda;
use crate::{Error, Values};

/// Numbers that a block handles, as the kernels have it.
const OF_BLOCK: usize = 8192;

/// Takes the steps, with the gradients of each member clipped to a norm of `clip` together. Returns
/// the norms before.
pub(super) fn descend(
    cuda: Cuda,
    steps: Vec<Descent<'_>>,
    members: usize,
    clip: f64,
) -> Result<Array<f64>, Error> {
    let unit = Unit::new(cuda)?;
    let mut weights = Vec::with_capacity(steps.len());
    for Descent { weight, moments, gradient, size, root, .. } in steps {
        let [first, second] = &mut moments.kept[..] else { return Err(Error::Devices) };
        let (first, second) = (first.values_mut(), second.values_mut());
        let (
            Values::Cuda(_, weight),
            Values::Cuda(_, first),
            Values::Cuda(_, second),
            Values::Cuda(_, gradient),
        ) = (weight.values_mut(), first, second, gradient)
        else {
            return Err(Error::Devices);
        };
        for numbers in [&mut *weight, &mut *first, &mut *second] {
            numbers.make_own()?;
        }
        let bits = |number: f64| u64::from((number as f32).to_bits());
        let each = weight.len() / members;
        let arrays = [weight.clone(), first.clone(), second.clone(), gradient.clone()];
        weights.push((arrays, each, bits(size) | bits(1.0 / root) << 32));
    }
    // Member by member, so that the sums of a member lie together.
    let (mut entries, mut firsts, mut bounds, mut blocks) = (Vec::new(), Vec::new(), vec![0], 0);
    for member in 0..members {
        for (arrays, each, size) in &weights {
            entries.extend(arrays.each_ref().map(|array| array.at(member * each).bits()));
            entries.extend([*each as u64, *size, member as u64]);
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
    unit.run("adam", Grid::blocks(blocks, 256), &arguments)?;
    Ok(norms)
}
