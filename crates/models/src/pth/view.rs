//! Tensors as PyTorch keeps them: views into storages that several of them may share.

use std::rc::Rc;

use nextpair_kernels::{Device, Tensor};
use safetensors::Dtype;

use crate::tensor_file::singles;

/// A run of numbers of one type, or a part of one.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    /// The name of the whole run in its file.
    pub(super) key: Rc<str>,
    pub(super) dtype: Dtype,
    /// Numbers of the whole run.
    pub(super) whole: usize,
    /// Start of this part, and its number of numbers.
    pub(super) start: usize,
    pub(super) count: usize,
}

/// A tensor: a strided view of a storage.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) storage: Storage,
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) stride: Vec<usize>,
}

/// Bytes per number.
pub(super) fn bytes_of(dtype: Dtype) -> usize {
    dtype.bitsize() / 8
}

impl View {
    /// The tensor in single precision. `bytes` are those of the whole storage. Subtracts the size
    /// of the tensor from `allowance`, the bytes that all tensors of a file may take together: one
    /// number on disk can be repeated into a tensor of any size.
    pub(super) fn tensor(&self, bytes: &[u8], allowance: &mut usize) -> Result<Tensor, String> {
        let Storage { dtype, whole, .. } = self.storage;
        let float = matches!(dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64);
        if !float {
            let name = format!("{dtype:?}").to_lowercase();
            return Err(format!("holds {name}, expected floating-point numbers"));
        }
        let size = bytes_of(dtype);
        if whole.checked_mul(size) != Some(bytes.len()) {
            return Err(format!("its storage has {} bytes for {whole} numbers", bytes.len()));
        }
        let stored = self.elements().and_then(|elements| elements.checked_mul(size));
        let Some(stored) = stored.filter(|stored| stored <= allowance) else {
            return Err(format!("shape {:?} is larger than the file", self.shape));
        };
        if stored == 0 {
            return Err(format!("shape {:?} holds no numbers", self.shape));
        }
        *allowance -= stored;
        let first = self.first().ok_or_else(|| {
            let Storage { count, .. } = self.storage;
            let View { offset, shape, stride, .. } = self;
            format!(
                "shape {shape:?} with strides {stride:?} from {offset} leaves its storage of {count} numbers"
            )
        })?;
        let contiguous;
        let data = if self.is_contiguous() {
            &bytes[first * size..][..stored]
        } else {
            contiguous = self.gather(first, size, bytes, stored);
            &contiguous
        };
        let values = singles(dtype, data).unwrap_or_default();
        Tensor::new(values, &self.shape, Device::Cpu).map_err(|e| e.to_string())
    }

    fn elements(&self) -> Option<usize> {
        self.shape.iter().try_fold(1, |product: usize, &size| product.checked_mul(size))
    }

    /// Sizes and strides of the axes with more than one index.
    fn axes(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        self.shape.iter().copied().zip(self.stride.iter().copied()).filter(|&(size, _)| size != 1)
    }

    /// Position of the first number in the whole storage, if all numbers lie within it. There must
    /// be at least one.
    fn first(&self) -> Option<usize> {
        let Storage { whole, start, count, .. } = self.storage;
        let last = self.axes().try_fold(self.offset, |last, (size, stride)| {
            last.checked_add((size - 1).checked_mul(stride)?)
        })?;
        let end = start.checked_add(count)?;
        (last < count && end <= whole).then(|| start + self.offset)
    }

    fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.axes().rev().all(|(size, stride)| {
            let as_expected = stride == expected;
            expected *= size;
            as_expected
        })
    }

    /// The numbers in the order of the tensor, the last axis fastest.
    fn gather(&self, first: usize, size: usize, bytes: &[u8], stored: usize) -> Vec<u8> {
        let axes: Vec<_> = self.axes().collect();
        let mut index = vec![0; axes.len()];
        let mut place = first;
        let mut gathered = Vec::with_capacity(stored);
        while gathered.len() < stored {
            gathered.extend_from_slice(&bytes[place * size..][..size]);
            for (index, &(size, stride)) in index.iter_mut().zip(&axes).rev() {
                *index += 1;
                if *index < size {
                    place += stride;
                    break;
                }
                *index = 0;
                place -= (size - 1) * stride;
            }
        }
        gathered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(offset: usize, shape: &[usize], stride: &[usize]) -> View {
        let storage = Storage { key: "0".into(), dtype: Dtype::F32, whole: 8, start: 1, count: 6 };
        View { storage, offset, shape: shape.to_vec(), stride: stride.to_vec() }
    }

    fn read(view: &View) -> Result<Vec<f32>, String> {
        let bytes: Vec<u8> = (0..8).flat_map(|number| (number as f32).to_le_bytes()).collect();
        let tensor = view.tensor(&bytes, &mut 1_000)?;
        assert_eq!(tensor.shape(), view.shape);
        Ok(tensor.to_f32s().unwrap())
    }

    #[test]
    fn views_are_put_in_order() {
        for (view, expected) in [
            (view(0, &[2, 3], &[3, 1]), vec![1., 2., 3., 4., 5., 6.]),
            (view(0, &[3, 2], &[1, 3]), vec![1., 4., 2., 5., 3., 6.]),
            (view(2, &[2], &[2]), vec![3., 5.]),
            (view(2, &[1, 2, 1], &[usize::MAX, 1, 77]), vec![3., 4.]),
            (view(1, &[2, 2], &[0, 1]), vec![2., 3., 2., 3.]),
            (view(5, &[], &[]), vec![6.]),
        ] {
            assert_eq!(read(&view).unwrap(), expected, "{view:?}");
        }
    }

    #[test]
    fn views_stay_in_their_storage() {
        for (view, expected) in [
            (view(0, &[7], &[1]), "leaves its storage of 6 numbers"),
            (view(6, &[], &[]), "leaves its storage"),
            (view(0, &[2], &[usize::MAX]), "leaves its storage"),
            (view(usize::MAX, &[2], &[1]), "leaves its storage"),
            (view(0, &[251], &[0]), "is larger than the file"),
            (view(0, &[1 << 40, 1 << 40], &[0, 0]), "is larger than the file"),
            (view(0, &[0, 3], &[3, 1]), "holds no numbers"),
        ] {
            let what = read(&view).unwrap_err();
            assert!(what.contains(expected), "{what}");
        }
        let mut outside = view(0, &[1], &[1]);
        outside.storage.start = 3;
        assert!(read(&outside).unwrap_err().contains("leaves its storage"));
        outside.storage.whole = 9;
        assert!(read(&outside).unwrap_err().contains("32 bytes for 9 numbers"));
        outside.storage.dtype = Dtype::I64;
        assert!(read(&outside).unwrap_err().contains("holds i64"));
    }

    #[test]
    fn the_allowance_is_shared() {
        let mut allowance = 40;
        let bytes = [0; 32];
        view(0, &[6], &[1]).tensor(&bytes, &mut allowance).unwrap();
        assert_eq!(allowance, 16);
        view(0, &[6], &[1]).tensor(&bytes, &mut allowance).unwrap_err();
    }
}
