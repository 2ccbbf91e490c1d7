//! Predicts the memory of a selection before it starts.

use crate::ROW_BLOCK;
use crate::screen::{bytes_per_number, fitted_bytes};
use crate::top::COLUMNS_AT_ONCE;

/// The size of a selection.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Items in the pool.
    pub pool: usize,
    /// Pairs in the paired set.
    pub pairs: usize,
    /// Dimensions of a vector.
    pub dim: usize,
    /// Items to pick.
    pub budget: usize,
    /// Worker threads.
    pub threads: usize,
}

/// Memory of the program itself, its stacks and its buffers.
const BASE: usize = 8 << 20;

impl Size {
    /// Memory of every selection: norms, fingerprints that tell copies, picks, the program.
    pub(crate) fn base(&self) -> usize {
        BASE + 8 * (2 * self.pool + 2 * self.pairs) + 256 * self.budget
    }

    /// Memory of thresholds and of scores of the whole pool, and of a list of items without a hit.
    pub(crate) fn scores(&self) -> usize {
        self.search(self.pairs) + (12 + 4) * self.pool
    }

    /// Memory of greedy k-center among `items`.
    pub(crate) fn k_center(&self, items: usize) -> usize {
        let picked = 4 * self.budget * self.dim;
        self.search(items.min(COLUMNS_AT_ONCE)) + 64 * items + picked
    }

    /// Memory of a greedy cover.
    pub(crate) fn cover(&self) -> usize {
        let points = 16 * 2000 * self.dim;
        let blocks = self.threads * 4 * ROW_BLOCK * (3 * self.dim + 1024);
        // Kernel values of candidates, up to their limit.
        let known = (self.pool * 2000 * 16).min(256 << 20);
        self.search(2000) + points + blocks + 56 * self.pool + known
    }

    /// Memory of k-means with `clusters`.
    pub(crate) fn clusters(&self, clusters: usize) -> usize {
        let sample = self.pool.min(clusters.max(30_000));
        8 * sample * self.dim + 24 * clusters * self.dim + 32 * self.pool + self.search(16_384)
    }

    /// Memory of a search with `columns` prepared, on all threads.
    fn search(&self, columns: usize) -> usize {
        let tiles = self.threads * (ROW_BLOCK * (self.dim * 6 + 4096) + (1 << 20));
        columns * (self.dim * bytes_per_number() + 128) + fitted_bytes(self.dim) + tiles
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuiltIn, HardNegative};

    #[test]
    fn only_vectors_of_the_pool_grow_with_it() {
        let size = |pool| Size { pool, pairs: 10_000, dim: 512, budget: 1000, threads: 2 };
        let peak = |pool| BuiltIn::from(HardNegative::default()).predicted_peak(&size(pool));
        let (one, two) = (peak(1_000_000), peak(2_000_000));
        assert_eq!(two - one, 32 * 1_000_000);
        assert!(peak(200_000) < 256 << 20);
    }
}
