//! The innermost loop on NEON, whose multiply-adds take a factor from any lane of a vector: one
//! load brings the factors of four rows.

use std::arch::aarch64::{float32x4_t, vfmaq_laneq_f32};

use pulp::bytemuck::cast;
use pulp::f32x4;

use super::VECTORS;

/// Numbers of a vector.
pub(super) const LANES: usize = 4;

/// As [`accumulate`](super::accumulate), for tiles of at least [`LANES`] rows.
#[inline(always)]
pub(super) fn accumulate<const R: usize>(
    left: &[f32],
    panel: &[f32],
    sums: &mut [[f32x4; VECTORS]; R],
) {
    let (factors, _) = left.as_chunks::<R>();
    let (vectors, _) = panel.as_chunks::<LANES>();
    let (lines, _) = vectors.as_chunks::<VECTORS>();
    let mut held: [[float32x4_t; VECTORS]; R] = sums.map(|row| row.map(cast));
    for (factors, line) in factors.iter().zip(lines) {
        let line: [float32x4_t; VECTORS] = line.map(cast);
        // By index, because iterators would move the sums out of the registers.
        for r in 0..R {
            // The last four may begin among those before.
            let first = (r / LANES * LANES).min(R.saturating_sub(LANES));
            let four = factors[first..].first_chunk::<LANES>().expect("at least four rows");
            let four = cast(*four);
            for v in 0..VECTORS {
                let (sum, line) = (held[r][v], line[v]);
                // SAFETY: every CPU of this kind has NEON.
                held[r][v] = unsafe {
                    match r - first {
                        0 => vfmaq_laneq_f32::<0>(sum, line, four),
                        1 => vfmaq_laneq_f32::<1>(sum, line, four),
                        2 => vfmaq_laneq_f32::<2>(sum, line, four),
                        _ => vfmaq_laneq_f32::<3>(sum, line, four),
                    }
                };
            }
        }
    }
    *sums = held.map(|row| row.map(cast));
}
