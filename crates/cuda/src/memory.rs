//! Memory of a queue. What is given back is used again for work that comes later in the queue, so
//! that the driver, which would wait, is not asked.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys as driver;

use crate::Error;
use crate::call::check;

/// Blocks that nobody uses, by their size.
#[derive(Default)]
pub(crate) struct Memory(Mutex<BTreeMap<usize, Vec<driver::CUdeviceptr>>>);

/// The size of the block for so many bytes: eight sizes between two powers of two.
pub(crate) fn block_size(bytes: usize) -> usize {
    let bytes = bytes.max(512);
    let step = (bytes.next_power_of_two() / 16).max(512);
    bytes.next_multiple_of(step)
}

impl Memory {
    /// A block of this size, as [`block_size`] says, or one that is kept and a quarter larger at most:
    /// where sizes change a little from step to step, the driver is not asked every time. Returns its
    /// address and its size. The caller has made the context current.
    pub(crate) fn take(
        &self,
        size: usize,
        wait: impl Fn() -> Result<(), Error>,
    ) -> Result<(driver::CUdeviceptr, usize), Error> {
        if let Some(kept) = self.take_kept(size) {
            return Ok(kept);
        }
        let mut block = 0;
        for attempt in 0..2 {
            // SAFETY: the driver writes the address, or fails.
            let status = unsafe { driver::cuMemAlloc_v2(&mut block, size) };
            match status {
                driver::CUresult::CUDA_ERROR_OUT_OF_MEMORY if attempt == 0 => {
                    wait()?;
                    self.give_all_back();
                }
                driver::CUresult::CUDA_ERROR_OUT_OF_MEMORY => break,
                status => return check("taking memory", status).map(|()| (block, size)),
            }
        }
        let (free, total) = available()?;
        Err(Error::OutOfMemory { bytes: size, free, total })
    }

    fn take_kept(&self, size: usize) -> Option<(driver::CUdeviceptr, usize)> {
        let mut blocks = self.blocks();
        let mut fit = blocks.range_mut(size..=size + size / 4);
        fit.find_map(|(&size, kept)| kept.pop().map(|block| (block, size)))
    }

    /// Keeps a block for later.
    pub(crate) fn keep(&self, size: usize, block: driver::CUdeviceptr) {
        self.blocks().entry(size).or_default().push(block);
    }

    /// Gives all unused blocks back to the driver. Nothing in the queue may use them any more.
    pub(crate) fn give_all_back(&self) {
        for block in std::mem::take(&mut *self.blocks()).into_values().flatten() {
            // SAFETY: the block came from the driver and nobody uses it. A failure leaves it taken.
            unsafe { driver::cuMemFree_v2(block) };
        }
    }

    fn blocks(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, Vec<driver::CUdeviceptr>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Free bytes and all bytes of the current device.
pub(crate) fn available() -> Result<(usize, usize), Error> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: the driver writes two numbers.
    check("asking for memory", unsafe { driver::cuMemGetInfo_v2(&mut free, &mut total) })?;
    Ok((free, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_block_that_is_little_too_large_will_do() {
        let memory = Memory::default();
        memory.keep(1 << 20, 3);
        memory.keep(5 << 18, 4);
        let too_small = (1 << 20) + (1 << 16);
        assert_eq!(memory.take_kept(too_small), Some((4, 5 << 18)));
        assert_eq!(memory.take_kept(too_small), None);
        assert_eq!(memory.take_kept(1 << 19), None, "twice as large");
        assert_eq!(memory.take_kept(1 << 20), Some((3, 1 << 20)));
    }

    #[test]
    fn blocks_are_at_most_an_eighth_too_large() {
        for bytes in [1, 511, 512, 513, 5000, 70_000, 1 << 20, (1 << 20) + 1, 3_000_000_001] {
            let size = block_size(bytes);
            assert!(size >= bytes && size.is_multiple_of(512), "{bytes} {size}");
            assert!(size <= bytes + (bytes / 8).max(512), "{bytes} {size}");
            assert_eq!(block_size(size), size);
        }
    }
}
