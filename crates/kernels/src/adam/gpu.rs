//! Adam on a GPU: all weights in one launch.

use nextpair_cuda::{Array, Grid};

use super::Descent;
use crate::cuda::Unit;
use crate::device::Cuda;
use crate::{Error, Values};

/// Numbers that a block handles, as the kernels have it.
const OF_BLOCK: usize = 8192;

/// Takes the steps, with gradients clipped to a norm of `clip` together. Returns their norm before.
pub(super) fn descend(cuda: Cuda, steps: Vec<Descent<'_>>, clip: f64) -> Result<Array<f64>, Error> {
    let unit = Unit::new(cuda)?;
    let (mut entries, mut firsts, mut blocks) = (Vec::new(), Vec::new(), 0);
    for Descent { weight, moments, gradient, size, root } in steps {
        let (first, second) = (moments.first.values_mut(), moments.second.values_mut());
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
        entries.extend([&*weight, &*first, &*second, gradient].map(|a| a.pointer().bits()));
        entries.extend([weight.len() as u64, bits(size) | bits(1.0 / root) << 32]);
        firsts.push(blocks as u32);
        blocks += weight.len().div_ceil(OF_BLOCK);
    }
    let (entries, count, firsts) = (unit.array(&entries)?, firsts.len(), unit.array(&firsts)?);
    let (parts, norm) = (unit.empty::<f64>(blocks)?, unit.empty::<f64>(1)?);
    let arguments = [(&parts).into(), (&entries).into(), (&firsts).into(), count.into()];
    unit.run("squares", Grid::blocks(blocks, 256), &arguments)?;
    let arguments = [(&norm).into(), (&parts).into(), blocks.into()];
    unit.run("root_of_sum", Grid::blocks(1, 1024), &arguments)?;
    let arguments =
        [(&entries).into(), (&firsts).into(), count.into(), (&norm).into(), clip.into()];
    unit.run("adam", Grid::blocks(blocks, 256), &arguments)?;
    Ok(norm)
}
