//! Numbers of tensors on the processor, as slices.

use candle_core::{CpuStorage, Layout, Result, Storage, Tensor, bail};

/// The numbers of a storage, which must be contiguous single precision.
pub(crate) fn storage<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(values), Some((start, end))) => Ok(&values[start..end]),
        (CpuStorage::F32(_), None) => bail!("the tensor is not contiguous"),
        _ => bail!("the tensor is not in single precision"),
    }
}

/// Lends `work` the numbers of a tensor, row by row; copied only if they lie otherwise.
pub(crate) fn lend<T>(tensor: &Tensor, work: impl FnOnce(&[f32]) -> Result<T>) -> Result<T> {
    let tensor = tensor.contiguous()?;
    let (held, layout) = tensor.storage_and_layout();
    match &*held {
        Storage::Cpu(held) => work(storage(held, layout)?),
        _ => bail!("the tensor is not on the processor"),
    }
}

/// The numbers of a tensor on any device, row by row.
pub(crate) fn copied(tensor: &Tensor) -> Result<Vec<f32>> {
    tensor.flatten_all()?.to_vec1()
}
