//! How much memory a selection will take, before it starts.

use crate::screen::{bytes_per_number, fitted_bytes};
use crate::top::COLUMNS_AT_ONCE;
use crate::{ROW_BLOCK, StrategyName};

/// The size of a selection.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Items in the pool.
    pub pool: usize,
    /// Pairs.
    pub pairs: usize,
    /// Numbers per vector.
    pub dim: usize,
    /// Items to pick.
    pub budget: usize,
    /// Threads at work.
    pub threads: usize,
}

/// The program itself, its stacks and its buffers.
const BASE: usize = 8 << 20;

impl Size {
    /// About the peak of anonymous memory, in bytes. Mapped files do not count; the hits of
    /// coverage depend on the data and are guessed at two for every item.
    pub fn predicted_peak(&self, strategy: StrategyName) -> u64 {
        let Size { pool, pairs, dim, budget, threads } = *self;
        let norms = 8 * (pool + 2 * pairs);
        let tiles = threads * (ROW_BLOCK * (dim * 6 + 4096) + (1 << 20));
        let codes = |columns: usize| columns * (dim * bytes_per_number() + 128);
        let search = |columns: usize| codes(columns) + fitted_bytes(dim) + tiles;
        let thresholds = search(pairs.min(COLUMNS_AT_ONCE));
        let scores = search(pairs).max(thresholds) + 28 * pool;
        let k_center = |items: usize| {
            search(items.min(COLUMNS_AT_ONCE)) + 64 * items + 8 * pairs + budget * dim * 4
        };
        let work = match strategy {
            StrategyName::Random => 0,
            StrategyName::HardNegative => scores,
            StrategyName::Coverage => scores + pool * 2 * 48,
            StrategyName::CoreSet => k_center(pool),
            StrategyName::Hybrid => scores.max(k_center(3 * budget) + 12 * budget * dim),
        };
        (BASE + norms + work + budget * 256) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_vectors_of_the_pool_grow_with_it() {
        let size = |pool| Size { pool, pairs: 10_000, dim: 512, budget: 1000, threads: 2 };
        let peak = |pool| size(pool).predicted_peak(StrategyName::HardNegative);
        let (one, two) = (peak(1_000_000), peak(2_000_000));
        assert_eq!(two - one, 36 * 1_000_000);
        assert!(peak(200_000) < 256 << 20);
    }
}
