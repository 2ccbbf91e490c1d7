//! Similarities whose tiles are rough, as those of a model in a fast precision: picks are those of the
//! exact values, to the last bit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nextpair_engine::{
    BuiltIn, Coverage, Draws, Entropy, Error, HardNegative, KnownSimilarities, LeastSimilar,
    Margin, Picks, Problem, Similarity, Weight,
};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::case::cases;

/// Another similarity with errors in its tiles.
struct Rough {
    exact: KnownSimilarities,
    kind: usize,
    /// The largest error.
    error: f64,
    looked_at: AtomicUsize,
}

impl Rough {
    fn new(exact: KnownSimilarities, kind: usize, error: f64) -> Arc<Self> {
        Arc::new(Rough { exact, kind, error, looked_at: AtomicUsize::new(0) })
    }

    /// The error of a value, never more than the bound. The rounding of the tile counts too.
    fn noise(&self, row: u32, column: u32, value: f64) -> f64 {
        let mixed = (u64::from(row) << 32 | u64::from(column)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let unit = (mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
        0.99 * self.error
            * match self.kind {
                0 => unit,
                // As large as it may be.
                1 => unit.signum(),
                // All too low, and all too high.
                2 => -1.0,
                3 => 1.0,
                // Values that are close change places.
                4 => 1.0 - 2.0 * (value / self.error).rem_euclid(1.0),
                // The highest are too low, and the lowest too high.
                _ => -value.signum(),
            }
    }
}

impl Similarity for Rough {
    fn rows(&self) -> usize {
        self.exact.rows()
    }

    fn columns(&self) -> usize {
        self.exact.columns()
    }

    fn tile(&self, rows: &[u32], columns: &[u32], out: &mut [f32]) -> Result<(), Error> {
        for (out, &row) in out.chunks_exact_mut(columns.len()).zip(rows) {
            let mut values = vec![0.0; columns.len()];
            self.exact.exact(row, columns, &mut values)?;
            for ((out, &column), value) in out.iter_mut().zip(columns).zip(values) {
                *out = (value + self.noise(row, column, value)) as f32;
                if self.kind == 0 && (row + column) % 29 == 0 {
                    *out = f32::NAN;
                }
            }
        }
        Ok(())
    }

    fn tile_error(&self, rows: &[u32], columns: &[u32]) -> f64 {
        self.error + self.exact.tile_error(rows, columns)
    }

    fn exact(&self, row: u32, columns: &[u32], out: &mut [f64]) -> Result<(), Error> {
        self.looked_at.fetch_add(columns.len(), Ordering::Relaxed);
        self.exact.exact(row, columns, out)
    }

    fn scale(&self) -> f64 {
        self.exact.scale()
    }
}

/// Strategies that compare, and need nothing else.
fn compare() -> [BuiltIn; 5] {
    [
        HardNegative::default().into(),
        Coverage::default().into(),
        Margin::default().into(),
        LeastSimilar::default().into(),
        Entropy::default().into(),
    ]
}

#[test]
fn rough_tiles_change_no_pick() {
    let mut runner = TestRunner::deterministic();
    for _ in 0..40 {
        let case = cases().new_tree(&mut runner).unwrap().current();
        let Ok(exact) = case.given() else { continue };
        // As they are, and on a grid, with many ties.
        let tables = [case.table(&case.pool).concat(), case.table(&case.rivals).concat()];
        let grids = tables.clone().map(|table| table.iter().map(|v| (v * 4.0).round()).collect());
        for (tied, tables) in [(false, tables), (true, grids)] {
            let given =
                |at: usize| KnownSimilarities::new(case.pairs(), Vec::clone(&tables[at])).unwrap();
            let problem = |pool, paired| {
                let problem = Problem::of_similarities(pool, paired);
                problem.settings(case.settings.clone()).build().unwrap()
            };
            let plain = match tied {
                true => &problem(Arc::new(given(0)), Arc::new(given(1))),
                false => &exact,
            };
            for strategy in compare().map(|strategy| case.strategy(strategy)) {
                let here = plain.select(&strategy, case.budget, &());
                for (kind, error) in (0..6).flat_map(|kind| [1e-6, 0.01, 0.6].map(|e| (kind, e))) {
                    let rough = |at| Rough::new(given(at), kind, error);
                    let there = problem(rough(0), rough(1)).select(&strategy, case.budget, &());
                    match (&here, &there) {
                        (Ok(here), Ok(there)) => {
                            assert!(here == there, "{strategy} {kind} {error} {tied}");
                        }
                        (here, there) => assert!(here.is_err() && there.is_err()),
                    }
                }
            }
        }
    }
}

/// Few pairs are looked at again: with a margin that is small beside the spread of similarities, hardly
/// more than the hits and what sets the thresholds.
#[test]
fn few_pairs_are_rescored() {
    let (pairs, pool) = (870, 2030);
    let mut draws = Draws::new(4);
    let mut table =
        |rows: usize| -> Vec<f64> { (0..rows * pairs).map(|_| 0.1 * draws.normal()).collect() };
    let (pool, paired) = (table(pool), table(pairs));
    for (top_k, at_most) in [(1, 0.02), (10, 0.08)] {
        let strategy = HardNegative { top_k, weight: Weight::Surplus, ..HardNegative::default() };
        let picks = |error: f64| -> (Picks, usize) {
            let rough = |values: &[f64]| {
                Rough::new(KnownSimilarities::new(pairs, values.to_vec()).unwrap(), 1, error)
            };
            let both = (rough(&pool), rough(&paired));
            let problem = Problem::of_similarities(both.0.clone(), both.1.clone());
            let picks = problem.build().unwrap().select(&strategy, 100, &()).unwrap();
            let looked_at = |similarity: &Rough| similarity.looked_at.load(Ordering::Relaxed);
            (picks, looked_at(&both.0) + looked_at(&both.1))
        };
        let ((exact, least), (found, looked_at)) = (picks(1e-9), picks(1e-3));
        assert!(exact == found);
        let all = (pool.len() + paired.len()) as f64;
        assert!(looked_at as f64 <= at_most * all, "{top_k}: {looked_at} of {all}");
        assert!(looked_at as f64 <= 1.1 * least as f64, "{top_k}: {looked_at} {least}");
    }
}
