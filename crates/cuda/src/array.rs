//! Arrays on a device.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use half::{bf16, f16};

use crate::memory::block_size;
use crate::{Error, Gpu, Mark};

/// A number that arrays can hold.
pub trait Element: Copy + Default + Send + Sync + 'static {}

impl Element for f32 {}
impl Element for f64 {}
impl Element for bf16 {}
impl Element for f16 {}
impl Element for u32 {}
impl Element for i32 {}
impl Element for u64 {}
impl Element for i8 {}
impl Element for u8 {}

/// Numbers on a device. Clones share them.
pub struct Array<T> {
    block: Arc<Block>,
    len: usize,
    numbers: PhantomData<T>,
}

/// Memory that goes back to its queue.
struct Block {
    gpu: Arc<Gpu>,
    address: CUdeviceptr,
    size: usize,
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.size > 0 {
            self.gpu.memory().keep(self.size, self.address);
        }
    }
}

/// The address of a number of an array, for kernels and products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer(pub(crate) CUdeviceptr);

impl Pointer {
    /// No array.
    pub const NULL: Pointer = Pointer(0);

    /// The address so many numbers further on.
    pub fn after<T: Element>(self, count: usize) -> Self {
        Pointer(self.0 + (count * size_of::<T>()) as u64)
    }

    /// Its bits, for arrays of addresses.
    pub fn bits(self) -> u64 {
        self.0
    }
}

impl<T: Element> Array<T> {
    /// An array whose numbers are whatever was there.
    ///
    /// # Errors
    /// If the device has no such memory.
    pub fn empty(gpu: &Arc<Gpu>, len: usize) -> Result<Self, Error> {
        let (address, size) = match len {
            0 => (0, 0),
            _ => gpu.take(block_size(len * size_of::<T>()))?,
        };
        let block = Arc::new(Block { gpu: gpu.clone(), address, size });
        Ok(Array { block, len, numbers: PhantomData })
    }

    /// An array of zeros.
    ///
    /// # Errors
    /// If the device has no such memory, or failed.
    pub fn zeros(gpu: &Arc<Gpu>, len: usize) -> Result<Self, Error> {
        let array = Self::empty(gpu, len)?;
        gpu.set_zero(array.pointer(), len * size_of::<T>())?;
        Ok(array)
    }

    /// A copy of numbers of the host.
    ///
    /// # Errors
    /// If the device has no such memory, or failed.
    pub fn of(gpu: &Arc<Gpu>, values: &[T]) -> Result<Self, Error> {
        let array = Self::empty(gpu, values.len())?;
        array.write(0, values)?;
        Ok(array)
    }

    /// Copies numbers of the host to those from `first` on.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Panics
    /// If the array has fewer numbers.
    pub fn write(&self, first: usize, values: &[T]) -> Result<(), Error> {
        assert!(first + values.len() <= self.len, "numbers beyond the array");
        self.gpu().copy_in(self.at(first), values)
    }

    /// A copy of all numbers on the host. Waits for the work before it.
    ///
    /// # Errors
    /// If the device, or work before this, failed.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        self.read(0, self.len)
    }

    /// A copy of `count` numbers from `first` on. Waits for the work before it.
    ///
    /// # Errors
    /// If the device, or work before this, failed.
    ///
    /// # Panics
    /// If the array has fewer numbers.
    pub fn read(&self, first: usize, count: usize) -> Result<Vec<T>, Error> {
        assert!(first + count <= self.len, "numbers beyond the array");
        let mut values = vec![T::default(); count];
        self.gpu().copy_out(self.at(first), &mut values, None)?;
        Ok(values)
    }

    /// A copy of all numbers, as the work before a mark has left them. Work after it goes on, and must
    /// not change them.
    ///
    /// # Errors
    /// If the device, or work before the mark, failed.
    pub fn read_at(&self, mark: &Mark) -> Result<Vec<T>, Error> {
        let mut values = vec![T::default(); self.len];
        self.gpu().copy_out(self.at(0), &mut values, Some(mark))?;
        Ok(values)
    }

    /// A copy that shares nothing.
    ///
    /// # Errors
    /// If the device has no such memory, or failed.
    pub fn copied(&self) -> Result<Self, Error> {
        let copy = Self::empty(self.gpu(), self.len)?;
        copy.copy_from(0, self, 0, self.len)?;
        Ok(copy)
    }

    /// Copies `count` numbers of another array, from its `from` on, to those from `first` on.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Panics
    /// If an array has fewer numbers.
    pub fn copy_from(
        &self,
        first: usize,
        other: &Array<T>,
        from: usize,
        count: usize,
    ) -> Result<(), Error> {
        assert!(first + count <= self.len && from + count <= other.len, "numbers beyond an array");
        self.gpu().copy(self.at(first), other.at(from), count * size_of::<T>())
    }

    /// Makes this the only user of its numbers, with a copy if need be.
    ///
    /// # Errors
    /// If the device has no such memory, or failed.
    pub fn make_own(&mut self) -> Result<(), Error> {
        if Arc::get_mut(&mut self.block).is_none() {
            *self = self.copied()?;
        }
        Ok(())
    }

    /// Number of numbers.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The queue that it belongs to.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.block.gpu
    }

    /// Its address.
    pub fn pointer(&self) -> Pointer {
        Pointer(self.block.address)
    }

    /// The address of a number.
    ///
    /// # Panics
    /// If the array has fewer numbers.
    pub fn at(&self, index: usize) -> Pointer {
        assert!(index <= self.len, "a number beyond the array");
        Pointer(self.block.address + (index * size_of::<T>()) as u64)
    }
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        Array { block: self.block.clone(), len: self.len, numbers: PhantomData }
    }
}

impl<T> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} numbers on a GPU", self.len)
    }
}
