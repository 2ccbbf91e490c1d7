//! Tensors in safetensors files.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use half::{bf16, f16};
use nextpair_data::safetensors::{check_sealed, sealed};
use nextpair_data::{AtomicFile, fingerprint, ordinary};
use nextpair_kernels::{Tensor, Values};
use safetensors::tensor::{Dtype, View};

use crate::Error;

/// A tensor read from a file.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    /// The numbers in single precision; none unless they are floating-point.
    pub(crate) values: Option<Vec<f32>>,
}

impl Stored {
    /// From the little-endian bytes of a shape that has been checked.
    fn new(dtype: Dtype, shape: &[usize], bytes: &[u8]) -> Self {
        Stored { dtype, shape: shape.to_vec(), values: singles(dtype, bytes) }
    }
}

impl TryFrom<&Tensor> for Stored {
    type Error = Error;

    fn try_from(tensor: &Tensor) -> Result<Self, Error> {
        let (dtype, shape) = (Dtype::F32, tensor.shape().to_vec());
        Ok(Stored { dtype, shape, values: Some(tensor.to_f32s()?) })
    }
}

/// Floating-point numbers of any type in single precision.
pub(crate) fn singles(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f32>> {
    fn decode<const N: usize>(bytes: &[u8], decode: impl Fn([u8; N]) -> f32) -> Option<Vec<f32>> {
        let number = |bytes: &[u8]| Some(decode(bytes.try_into().ok()?));
        bytes.chunks_exact(N).map(number).collect()
    }
    match dtype {
        Dtype::F32 => decode(bytes, f32::from_le_bytes),
        Dtype::F64 => decode(bytes, |bytes| f64::from_le_bytes(bytes) as f32),
        Dtype::F16 => decode(bytes, |bytes| f16::from_le_bytes(bytes).to_f32()),
        Dtype::BF16 => decode(bytes, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        _ => None,
    }
}

/// Reads and copies the tensors of a file that [`write`] wrote, whole to the bit.
pub(crate) fn read(path: &Path) -> Result<BTreeMap<String, Stored>, Error> {
    parse(path, &whole(path)?)
}

/// The bytes of a file that [`write`] wrote.
fn whole(path: &Path) -> Result<Vec<u8>, Error> {
    let bytes = ordinary::read(path)?;
    check_sealed(path, &bytes)?;
    Ok(bytes)
}

/// Copies the tensors of a file with these bytes.
pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<BTreeMap<String, Stored>, Error> {
    let file = safetensors::SafeTensors::deserialize(bytes);
    let file = file.map_err(|e| Error::file(path, e.to_string()))?;
    let stored = |(name, view): (String, safetensors::tensor::TensorView<'_>)| {
        (name, Stored::new(view.dtype(), view.shape(), view.data()))
    };
    Ok(file.tensors().into_iter().map(stored).collect())
}

/// A tensor as it is written: its bytes are made when it is its turn.
struct Written<'a> {
    shape: &'a [usize],
    values: Cow<'a, [f32]>,
}

impl<'a> Written<'a> {
    fn new(tensor: &'a Tensor) -> Result<Self, Error> {
        let values = match tensor.values() {
            Values::Cpu(values) => Cow::Borrowed(&values[..]),
            other => Cow::Owned(other.to_f32s()?),
        };
        Ok(Written { shape: tensor.shape(), values })
    }
}

impl View for Written<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let mut bytes = Vec::with_capacity(self.data_len());
        self.values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
        Cow::Owned(bytes)
    }

    fn data_len(&self) -> usize {
        4 * self.values.len()
    }
}

/// Writes tensors with one entry of metadata, whole or not at all. Returns the fingerprint of the
/// file.
pub(crate) fn write<'a>(
    path: &Path,
    tensors: impl Iterator<Item = (String, &'a Tensor)>,
    about: (&str, String),
) -> Result<String, Error> {
    let views = tensors.map(|(name, tensor)| Ok((name, Written::new(tensor)?)));
    let views = views.collect::<Result<Vec<_>, Error>>()?;
    let bytes = sealed(views, about).map_err(|e| Error::file(path, e.to_string()))?;
    AtomicFile::write_whole(path, &bytes)?;
    Ok(fingerprint(&bytes))
}

/// The metadata of a file under `key`.
pub(crate) fn metadata(path: &Path, key: &str) -> Result<Option<String>, Error> {
    let bytes = whole(path)?;
    let (_, head) = safetensors::SafeTensors::read_metadata(&bytes)
        .map_err(|e| Error::file(path, e.to_string()))?;
    Ok(head.metadata().as_ref().and_then(|all| all.get(key)).cloned())
}
