//! Numbers of tensors on the processor, as slices.

use candle_core::{CpuStorage, Layout, Result, Tensor, bail};

/// The numbers of a storage, which must be contiguous single precision.
pub(crate) fn storage<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(values), Some((start, end))) => Ok(&values[start..end]),
        (CpuStorage::F32(_), None) => bail!("the tensor is not contiguous"),
        _ => bail!("the tensor is not in single precision"),
    }
}

/// The numbers of a tensor, row by row.
pub(crate) fn contiguous(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.flatten_all()?.to_vec1()
}
