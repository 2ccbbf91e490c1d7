//! Memory of the host that a device reads and writes by itself.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::sys as driver;

use crate::array::Element;
use crate::call::check;
use crate::{Array, Error, Gpu};

/// Memory of the host that does not move, so that copies from it and to it run beside the host's own
/// work and that of other queues. Who wants its numbers waits for the copies before.
pub struct Staging {
    gpu: Arc<Gpu>,
    address: *mut u8,
    bytes: usize,
    /// Comes after the last copy.
    copied: driver::CUevent,
}

// SAFETY: the memory and the event belong to this value alone, and the driver takes calls from any
// thread.
unsafe impl Send for Staging {}

impl Staging {
    /// So many bytes, all zero, for copies in the order of a queue.
    ///
    /// # Errors
    /// If the host has no such memory that can be kept in place.
    pub fn new(gpu: &Arc<Gpu>, bytes: usize) -> Result<Self, Error> {
        gpu.stream()?;
        let bytes = bytes.max(1);
        let (mut address, mut copied) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the driver writes an address and a handle; the memory has so many bytes.
        unsafe {
            // Who waits leaves its core to others.
            let quiet = driver::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32
                | driver::CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32;
            check("making an event", driver::cuEventCreate(&mut copied, quiet))?;
            let taken = driver::cuMemHostAlloc(&mut address, bytes, 0);
            if let Err(error) = check("taking memory of the host", taken) {
                driver::cuEventDestroy_v2(copied);
                return Err(error);
            }
            address.cast::<u8>().write_bytes(0, bytes);
        }
        Ok(Staging { gpu: gpu.clone(), address: address.cast(), bytes, copied })
    }

    /// How many numbers it holds.
    pub fn capacity<T: Element>(&self) -> usize {
        self.bytes / size_of::<T>()
    }

    /// Its memory as numbers. Waits for the copies before.
    ///
    /// # Errors
    /// If a copy, or work before it, failed.
    pub fn numbers<T: Element>(&mut self) -> Result<&mut [T], Error> {
        self.gpu.stream()?;
        // SAFETY: the event is this value's own; one that was never recorded is no wait.
        check("a copy", unsafe { driver::cuEventSynchronize(self.copied) })?;
        // SAFETY: the memory begins at a page, holds so many numbers, which take any bits, and
        // belongs to this value alone; nothing copies any more.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.address.cast(), self.capacity::<T>()) })
    }

    /// Copies its first `count` numbers to those of an array from `first` on. Returns before it has
    /// happened.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Panics
    /// If the array or this memory has fewer numbers.
    pub fn send<T: Element>(
        &mut self,
        array: &Array<T>,
        first: usize,
        count: usize,
    ) -> Result<(), Error> {
        assert!(first + count <= array.len() && count <= self.capacity::<T>(), "too many numbers");
        let stream = self.gpu.stream()?;
        if count == 0 {
            return Ok(());
        }
        let (to, bytes) = (array.at(first).0, count * size_of::<T>());
        // SAFETY: both sides have so many bytes, and `numbers` waits before it lends ours.
        unsafe {
            let status = driver::cuMemcpyHtoDAsync_v2(to, self.address.cast(), bytes, stream);
            check("a copy to the device", status)?;
            check("a copy to the device", driver::cuEventRecord(self.copied, stream))
        }
    }

    /// Copies `count` numbers of an array, from `first` on, to its own first. Returns before it has
    /// happened.
    ///
    /// # Errors
    /// If the device failed.
    ///
    /// # Panics
    /// If the array or this memory has fewer numbers.
    pub fn fetch<T: Element>(
        &mut self,
        array: &Array<T>,
        first: usize,
        count: usize,
    ) -> Result<(), Error> {
        assert!(first + count <= array.len() && count <= self.capacity::<T>(), "too many numbers");
        let stream = self.gpu.stream()?;
        if count == 0 {
            return Ok(());
        }
        let (from, bytes) = (array.at(first).0, count * size_of::<T>());
        // SAFETY: as above.
        unsafe {
            let status = driver::cuMemcpyDtoHAsync_v2(self.address.cast(), from, bytes, stream);
            check("a copy from the device", status)?;
            check("a copy from the device", driver::cuEventRecord(self.copied, stream))
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // A copy that may still run needs the memory: who cannot wait for it leaves it.
        if self.numbers::<u8>().is_ok() {
            // SAFETY: both are this value's own, and nothing uses them any more.
            unsafe {
                driver::cuMemFreeHost(self.address.cast());
                driver::cuEventDestroy_v2(self.copied);
            }
        }
    }
}

impl fmt::Debug for Staging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of the host for copies", self.bytes)
    }
}
