//! The throughput of matrix products alone: an upper bound for dense search.

use std::time::{Duration, Instant};

use nextpair_engine::product;

/// Rows and columns of a tile, as in the engine.
const ROWS: usize = 252;
const COLUMNS: usize = 512;
/// Number of column tiles to visit in turn, as for 10,000 anchors.
const BLOCKS: usize = 20;
const TIME: Duration = Duration::from_secs(2);

/// Returns the FLOPS of single-threaded products on all threads at once.
pub(super) fn measure(dim: usize, threads: usize) -> f64 {
    let values = |count: usize| -> Vec<f32> {
        (0..count).map(|i| (i * 7919 % 1013) as f32 / 1013.0 - 0.5).collect()
    };
    let columns = values(BLOCKS * COLUMNS * dim);
    let multiply = |rows: &[f32], columns: &[f32], tile: &mut [f32]| {
        product((ROWS, dim, COLUMNS), (rows, dim, 1), (columns, 1, dim), tile);
    };
    let rates: Vec<f64> = std::thread::scope(|scope| {
        let work = || {
            let rows = values(ROWS * dim);
            let mut tile = vec![0.0; ROWS * COLUMNS];
            // Warm up: the first product chooses a kernel.
            multiply(&rows, &columns[..COLUMNS * dim], &mut tile);
            let (began, mut tiles) = (Instant::now(), 0);
            while began.elapsed() < TIME {
                for block in columns.chunks_exact(COLUMNS * dim) {
                    multiply(&rows, block, &mut tile);
                }
                tiles += BLOCKS;
            }
            std::hint::black_box(&tile);
            (2 * ROWS * COLUMNS * dim * tiles) as f64 / began.elapsed().as_secs_f64()
        };
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles.into_iter().map(|handle| handle.join().unwrap_or(f64::NAN)).collect()
    });
    rates.iter().sum()
}
