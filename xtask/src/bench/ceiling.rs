//! The rate the product alone reaches: what a dense search could at best come to.

use std::time::{Duration, Instant};

/// Rows and columns of a tile, as the engine cuts them.
const ROWS: usize = 252;
const COLUMNS: usize = 512;
/// Tiles of columns that are visited in turn, as 10,000 anchors are.
const BLOCKS: usize = 20;
const TIME: Duration = Duration::from_secs(2);

/// Floating-point operations per second of single-threaded products on every thread at once.
pub(super) fn measure(dim: usize, threads: usize) -> f64 {
    let values = |count: usize| -> Vec<f32> {
        (0..count).map(|i| (i * 7919 % 1013) as f32 / 1013.0 - 0.5).collect()
    };
    let columns = values(BLOCKS * COLUMNS * dim);
    let rates: Vec<f64> = std::thread::scope(|scope| {
        let work = || {
            let rows = values(ROWS * dim);
            let mut tile = vec![0.0; ROWS * COLUMNS];
            // Once unmeasured: the first product finds out which kernel to use.
            product(&rows, &columns[..COLUMNS * dim], dim, &mut tile);
            let (began, mut tiles) = (Instant::now(), 0);
            while began.elapsed() < TIME {
                for block in columns.chunks_exact(COLUMNS * dim) {
                    product(&rows, block, dim, &mut tile);
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

/// `tile = rows · columnsᵀ`, with the strides the engine uses.
fn product(rows: &[f32], columns: &[f32], dim: usize, tile: &mut [f32]) {
    assert_eq!((rows.len(), columns.len()), (ROWS * dim, COLUMNS * dim));
    assert_eq!(tile.len(), ROWS * COLUMNS);
    let stride = dim as isize;
    // SAFETY: by the assertions every element that the strides reach lies inside its slice, and
    // `tile`, being borrowed mutably, is apart from both operands.
    unsafe {
        gemm::gemm(
            ROWS,
            COLUMNS,
            dim,
            tile.as_mut_ptr(),
            1,
            COLUMNS as isize,
            false,
            rows.as_ptr(),
            1,
            stride,
            columns.as_ptr(),
            stride,
            1,
            0.0f32,
            1.0f32,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
