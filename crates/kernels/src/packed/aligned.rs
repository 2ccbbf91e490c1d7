//! Numbers that begin at a cache line, so that no vector lies across two.

use std::ops::{Deref, DerefMut};

/// Numbers of a cache line.
const LINE: usize = 16;

/// A slice of numbers that begins at a cache line and keeps its memory.
#[derive(Debug, Default)]
pub(crate) struct Aligned {
    values: Vec<f32>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// Makes it `len` numbers long. What they are is left open: they are to be written.
    pub(crate) fn resize(&mut self, len: usize) {
        if self.values.len() < len + LINE {
            self.values = vec![0.0; len + LINE];
        }
        // A machine that cannot tell the alignment gets no alignment, which costs time alone.
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
