//! Tests of a GPU: the one that is there, or one that is emulated. Without any, they pass.

#![allow(clippy::unwrap_used)]

mod instructions;
mod mistakes;
mod products;

use std::sync::Arc;

use nextpair_cuda::Gpu;

/// A queue of the first GPU, if there is one.
fn gpu() -> Option<Arc<Gpu>> {
    match Gpu::open(0) {
        Ok(gpu) => Some(gpu),
        Err(error) if error.is_absence() => None,
        Err(error) => panic!("{error}"),
    }
}

/// Numbers between -2 and 2 that differ with the seed.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 22) as f32 - 2.0
    };
    (0..count).map(|_| next()).collect()
}
