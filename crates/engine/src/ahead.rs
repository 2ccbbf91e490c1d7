//! Reads a file ahead of its use: from start to end, or scattered rows.

use nextpair_core::Matrix;

/// Prefetches scattered rows, all at once. Without this advice the system reads megabytes around each of them.
pub(crate) fn fetch(matrix: &Matrix, rows: &[u32]) {
    rows.iter().map(|&row| row as usize).for_each(|row| matrix.will_need(row..row + 1));
}

/// Bytes that are asked for together.
const STRETCH: usize = 32 << 20;

/// Prefetches the rows of a matrix that are read next, and releases those that are done: pages arrive while others
/// are worked on, and released pages do not count as memory of this process.
pub(crate) struct ReadAhead {
    rows: Matrix,
    /// Rows of a block of work.
    block: usize,
    /// Blocks of a stretch.
    stretch: usize,
}

impl ReadAhead {
    pub(crate) fn new(rows: Matrix, block: usize) -> Self {
        let bytes = block * rows.locals() * rows.dim() * rows.dtype().size();
        let stretch = (STRETCH / bytes.max(1)).max(4 * rayon::current_num_threads());
        let ahead = ReadAhead { rows, block, stretch };
        ahead.rows.will_need(ahead.rows_of(0));
        ahead
    }

    /// Work on a block begins. Blocks begin about in their order.
    pub(crate) fn begin(&self, block: usize) {
        if block.is_multiple_of(self.stretch) {
            let stretch = block / self.stretch;
            self.rows.will_need(self.rows_of(stretch + 1));
            if let Some(behind) = stretch.checked_sub(2) {
                self.rows.done_with(self.rows_of(behind));
            }
        }
    }

    /// The rows of a stretch, as far as there are any.
    fn rows_of(&self, stretch: usize) -> std::ops::Range<usize> {
        let length = self.stretch * self.block;
        let end = |stretch: usize| self.rows.rows().min(stretch * length);
        end(stretch)..end(stretch + 1)
    }
}
