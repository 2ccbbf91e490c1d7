//! Numbers aligned to a cache line, so that no vector lies across two.

use std::ops::{Deref, DerefMut};

/// Numbers per cache line.
const LINE: usize = 16;

/// A slice of numbers that is aligned to a cache line and keeps its memory.
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    values: Vec<f32>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// Resizes to `len` numbers of unspecified value, which the caller must write.
    pub(crate) fn resize(&mut self, len: usize) {
        if self.values.len() < len + LINE {
            self.values = vec![0.0; len + LINE];
        }
        // Without a known alignment there is none, which only costs time.
        self.start = self.values.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
        self.len = len;
    }
}

impl Deref for Aligned {
    type Target = [f32];

    #[inline(always)]
    fn deref(&self) -> &[f32] {
        &self.values[self.start..][..self.len]
    }
}

impl DerefMut for Aligned {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[self.start..][..self.len]
    }
}
