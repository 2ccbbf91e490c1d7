//! Several models of one architecture as one: every tensor has a leading axis of members. That of a
//! single one has none.

use nextpair_kernels::{Device, Tensor};
use rayon::prelude::*;

use crate::Error;

/// Tensors of equal shape, one for each member, as one tensor on a device. It is a weight if they are.
pub(crate) fn stacked(parts: &[&Tensor], device: Device) -> Result<Tensor, Error> {
    if let [only] = parts {
        return Ok(only.to_device(device)?);
    }
    let values = parts.par_iter().map(|part| part.to_f32s()).collect::<Result<Vec<_>, _>>()?;
    let mut shape = vec![parts.len()];
    shape.extend(parts.first().map_or(&[][..], |part| part.shape()));
    let all = Tensor::new(values.concat(), &shape, device)?;
    Ok(if parts.iter().any(|part| part.is_tracked()) { all.into_weight() } else { all })
}

/// The part of a member in a tensor of so many members. It is a weight if the whole is one.
pub(crate) fn part(tensor: &Tensor, member: usize, members: usize) -> Result<Tensor, Error> {
    if members == 1 {
        return Ok(tensor.clone());
    }
    let own = tensor.some_rows(member..member + 1)?.reshaped(&tensor.shape()[1..])?;
    Ok(if tensor.is_tracked() { own.into_weight() } else { own })
}
